"""kcdo inside other packages: one module for each, loaded when it is asked for.

``kcdo.adapters.skpro`` (extra ``skpro``), ``kcdo.adapters.qp`` and ``kcdo.adapters.rail`` (extra
``rail``), ``kcdo.adapters.arviz`` (extra ``arviz``).
"""

"""Model files, ``name.kcdo``: one file with numbers and JSON, no code.

A model file is a zip of ``metadata.json`` and arrays as .npy, sealed by a checksum
(:mod:`kcdo.persistence.archive`). The metadata begin with what a reader may want to know: format
and version, library versions, parameters, column names, report. After that comes the model, as a
list of records of its objects (:mod:`kcdo.persistence.tree`). A record names its class; only
classes that were registered by name are ever made, from fields of the registered types. Nothing is
pickled, evaluated or imported because a file says so.

A class knows its own state. Its constructor checks that its parts fit one another, whoever calls
it; where its fields are not what a file should keep, ``to_state()`` returns that and
``from_state(state)`` goes back. **To add a class**, add a line to :mod:`kcdo.persistence.schema`
(or, for estimators and what lies beside them, :mod:`kcdo.estimators.files`)::

    register("Grid", measures.Grid)  # a dataclass: its fields, checked against their annotations
    register("Sample", measures.Sample, fields={"measure": measures.Scattered})  # any other class

An estimator is added by :func:`kcdo.persistence.models.register_model`, which lists the attributes
of a fit; an attribute that is not listed is not written, which the round trips in
tests/test_persistence.py notice.

**To change a class** without losing older files: a new field needs a default in the dataclass,
which files from before it get; a field that was renamed or left out is told by ``former=``. Where
fields change their meaning, register the new form by a new name, and say in
:mod:`kcdo.persistence.versions` what becomes of the old one. Raise the second number of ``VERSION``
in :mod:`kcdo.persistence.metadata` with each such change, the first where older files cannot be
read.
The files tests/data/model-1.0*.kcdo must go on loading.
"""

"""Model files, ``name.kcdo``: one file with numbers and JSON, no code.

A model file is a zip of ``metadata.json`` and arrays as .npy, uncompressed, sealed by a checksum
(:mod:`kcdo.persistence.archive`). The metadata begin with what a reader may want to know: format
and version, library versions, parameters, column names, report. After that comes the model, as a
list of records of its objects (:mod:`kcdo.persistence.tree`). A record names its class; only
classes that were registered by name are ever made, from fields of the registered types. Nothing is
pickled, evaluated or imported because a file says so.

**To add a class**, add a line to :mod:`kcdo.persistence.classes` (or, for estimators and what lies
beside them, :mod:`kcdo.estimators.files`)::

    register("Grid", measures.Grid)  # a dataclass: its fields, checked against their annotations
    register("Sample", measures.Sample, fields={"measure": measures.Scattered})  # any other class
    register("Grid", measures.Grid, check=checks.grid)  # and whether its parts fit one another

An object is made without ``__init__``: its fields are set, then ``__post_init__`` is called if
there is one. Where this does not do, ``state=`` says what is written and ``make=`` how to go back;
:func:`register` explains. An estimator is added by :func:`register_model`, which lists the
attributes of a fit; an attribute that is not listed is not written, which the round trips in
tests/test_persistence.py notice.

**To change a class** without losing older files: a new field needs a default in the dataclass,
which files from before it get. Where fields change their meaning, register the new form by a new
name, and keep the old name, above it, with a ``make=`` that turns the old fields into the new
object (of several names for one class the last is written). Raise the second number of ``VERSION``
in :mod:`kcdo.persistence.models` with each such change, the first where older files cannot be read.
The files tests/data/model-1.0*.kcdo must go on loading.
"""

from kcdo.persistence import classes
from kcdo.persistence.forms import register
from kcdo.persistence.models import SavedModel, load, model_info, register_model

__all__ = [
    "SavedModel",
    "classes",
    "load",
    "model_info",
    "register",
    "register_model",
]

"""Model files as users meet them: ``model.save(path)`` and ``kcdo.load(path)``."""

import os
import platform
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal

import numpy as np
import scipy
import sklearn
from sklearn.utils.validation import check_is_fitted

from kcdo._version import __version__
from kcdo.errors import InvalidInputError, ModelFileError
from kcdo.persistence import schema, versions  # noqa: F401 - they say what files may hold
from kcdo.persistence.archive import write_archive
from kcdo.persistence.forms import Form, add_form, matches
from kcdo.persistence.metadata import FORMAT, VERSION, opened
from kcdo.persistence.tree import decode, encode

_LONGEST_TEXT = 400


class SavedModel:
    """An estimator that can be written to a file; :func:`register_model` says what is."""

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        sums: bool = True,
        precision: Literal["float64", "float32"] = "float64",
    ) -> None:
        """Write the fitted model to one file, which :func:`kcdo.load` reads.

        The file holds numbers and JSON, no code, and appears whole or not at all. What a model of
        many rows and outputs can solve for again, it does when it is first asked after loading.

        Parameters
        ----------
        path : path
            Where to write, usually ``name.kcdo``.
        sums : bool
            Keep what only ``partial_fit``, ``worker`` and ``merge`` need of a Nyström fit. Without
            it the file may be much smaller.
        precision : {"float64", "float32"}
            "float64" keeps every digit. "float32" rounds the largest matrices, to single precision
            or as far as predictions keep six digits.

        Examples
        --------
        >>> import kcdo, numpy as np, tempfile
        >>> x = np.linspace(0, 1, 50)
        >>> model = kcdo.ConditionalDensityOperator(selection="heuristic").fit(x[:, None], x)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/line.kcdo")
        ...     same = kcdo.load(f"{folder}/line.kcdo")
        >>> bool(same.predict([[0.5]]) == model.predict([[0.5]]))
        True
        """
        check_is_fitted(self._described())
        if precision not in ("float64", "float32"):
            raise InvalidInputError(f'precision must be "float64" or "float32"; got {precision!r}.')
        written = self if sums else self._without_sums()
        records, arrays = encode(written, single=precision == "float32")
        write_archive(path, description(self) | {"objects": records}, arrays)

    def _described(self) -> Any:
        """Return the estimator whose parameters, columns and report the file tells of."""
        return self

    def _told(self) -> dict[str, Any]:
        """Return what else the file says of itself, as JSON has it."""
        return {}

    def _check_fit(self) -> None:
        """Raise unless the parts of the fit fit one another."""

    def _without_sums(self) -> Any:
        """Return the model as a file without sums keeps it."""
        return self


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model that ``model.save(path)`` wrote.

    Every size, type and number of the file is checked; a file that is damaged, forged or of
    another kind raises :class:`ModelFileError` and runs nothing.
    """
    with opened(path) as reader:
        model = decode(reader.metadata.get("objects"), reader.arrays())
        if not isinstance(model, SavedModel):
            raise ModelFileError(f"it holds a {type(model).__name__}, which is no model.")
        return model


def register_model(
    name: str,
    cls: type,
    fitted: Mapping[str, Any],
    *,
    former: Mapping[str, str] | None = None,
) -> None:
    """Let model files hold an estimator; its ``_check_fit()`` tells whether what was read fits.

    Parameters
    ----------
    name, cls
        As for :func:`kcdo.persistence.forms.register`.
    fitted : mapping of names to types
        Attributes of a fit that are written where they are there; others are not.
    former : mapping of names to names, optional
        What attributes were called in earlier versions, and what they are called now.
    """

    def state(model: Any) -> dict[str, Any]:
        found = {key: value for key, value in vars(model).items() if key in fitted}
        return {"parameters": model.get_params(deep=False), "fit": found}

    def make(found: dict[str, Any]) -> Any:
        model = cls(**found["parameters"])
        for name_there, value in found["fit"].items():
            key = (former or {}).get(name_there, name_there)
            if key not in fitted or not matches(value, fitted[key]):
                raise ModelFileError(f"{name} has no such part {key[:60]!r}.")
            setattr(model, key, value)
        check_is_fitted(model)
        model._check_fit()
        return model

    table = {"parameters": dict[str, Any], "fit": dict[str, Any]}
    infinite = ("parameters",)  # bounds may be: what was fitted may not
    add_form(Form(name, table, make, state, infinite=infinite), cls)


def description(saved: Any) -> dict[str, Any]:
    """Return what a reader of the file may want to know without loading the model."""
    model = saved._described()
    report = getattr(model, "report_", None)
    names = getattr(model, "feature_names_in_", None)
    targets = getattr(model, "target_names_", None)
    return {
        "format": FORMAT,
        "version": f"{VERSION[0]}.{VERSION[1]}",
        "kcdo": __version__,
        "libraries": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "model": type(saved).__name__,
        "parameters": {name: _plain(value) for name, value in model.get_params(deep=False).items()},
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "target_names": None if targets is None else list(targets),
        "report": None
        if report is None
        else {f.name: _plain(getattr(report, f.name)) for f in fields(report)},
        **saved._told(),
    }


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, or a short text."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str) or _finite(value):
        return value
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    return str(value)[:_LONGEST_TEXT]


def _finite(value: Any) -> bool:
    return isinstance(value, float) and bool(np.isfinite(value))

"""Model files, and what the commands ask of a model: its columns and their kinds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import kcdo
from kcdo.arrays import Array
from kcdo.commands.columns import label, labels
from kcdo.commands.console import Console, listed
from kcdo.commands.naming import Role, check_names
from kcdo.commands.reading import named_file
from kcdo.commands.sources import Source
from kcdo.commands.tables import read_table
from kcdo.commands.writing import output_name
from kcdo.errors import InvalidInputError, ModelFileError
from kcdo.estimators import ConditionalDensityOperator
from kcdo.kernels import Kernel, leaves
from kcdo.training import TrainingTable


@dataclass(frozen=True)
class Model:
    """A fitted estimator with the names of its columns.

    Attributes
    ----------
    given, targets : list of str
        Inputs and outputs.
    categories : dict
        Of each categorical input, the labels with the values that the estimator knows.
    periods : dict
        Of each periodic input, the period.
    """

    estimator: Any
    given: list[str]
    targets: list[str]
    categories: dict[str, dict[str, Any]]
    periods: dict[str, float]

    @classmethod
    def of(cls, estimator: Any) -> Model:
        """Read names and kinds off an estimator; columns without a name are x0, x1, ..., y."""
        if not isinstance(estimator, ConditionalDensityOperator):
            raise InvalidInputError(
                f"the file holds a {type(estimator).__name__}; the commands work with a "
                "ConditionalDensityOperator."
            )
        p = estimator.n_features_in_
        given = [str(n) for n in getattr(estimator, "feature_names_in_", _numbered("x", p))]
        d = estimator.n_outputs
        targets = getattr(estimator, "target_names_", None) or (
            ["y"] if d == 1 else _numbered("y", d)
        )
        known = estimator.categories
        return cls(
            estimator,
            given,
            [str(name) for name in targets],
            {given[i]: {str(label(v)): v for v in codes} for i, codes in sorted(known.items())},
            {given[i]: t for i, t in sorted(_periods(estimator.report_.kernel_x, range(p)))},
        )

    @property
    def flat(self) -> bool:
        """Whether answers have no axis of targets."""
        return bool(self.estimator.flat)

    def roles(self, *, outputs: bool) -> dict[str, Role]:
        """Return how to read the inputs, and the outputs if asked."""
        kinds = {n: Role.CATEGORY if n in self.categories else Role.NUMBER for n in self.given}
        return kinds | dict.fromkeys(self.targets if outputs else [], Role.NUMBER)

    def check_columns(self, there: list[str], where: str, *, outputs: bool) -> None:
        """Raise if a table lacks a column that the model needs."""
        check_names([*self.given, *(self.targets if outputs else [])], there, where)

    def inputs(self, frame: pd.DataFrame) -> Any:
        """Return inputs as the estimator takes them, categories in their original type."""
        X = frame[self.given].copy()
        for name, known in self.categories.items():
            values = [known.get(text, text) for text in labels(X[name])]
            X[name] = pd.Categorical(values)
        return X if hasattr(self.estimator, "feature_names_in_") else X.to_numpy()

    def outputs(self, frame: pd.DataFrame) -> Any:
        """Return outputs as the estimator takes them: a vector if there is one."""
        return frame[self.targets[0] if len(self.targets) == 1 else self.targets]

    def codes(self, frame: pd.DataFrame) -> Array:
        """Return inputs as numbers, (N, p): of a category its place among those known."""
        columns = []
        for name in self.given:
            known = {text: i for i, text in enumerate(self.categories.get(name, ()))}
            values = [known[text] for text in labels(frame[name])] if known else frame[name]
            columns.append(np.asarray(values, dtype=float))
        return np.column_stack(columns)

    @property
    def training(self) -> TrainingTable | None:
        """What the model remembers of its training rows; models from Python do not."""
        return getattr(self.estimator, "training_", None)

    def remember(
        self, frame: pd.DataFrame, files: Sequence[str], held_out: tuple[int, str], seed: int
    ) -> None:
        """Keep in the model what commands want to know of its training rows later."""
        position = self.given.index
        importances = self.estimator.report_.importances
        self.estimator.training_ = TrainingTable.of(
            files,
            self.codes(frame),
            categorical=[position(name) for name in self.categories],
            periods={position(name): period for name, period in self.periods.items()},
            weights=[importances[name] for name in self.given] if importances else None,
            held_out=held_out,
            seed=seed,
        )

    def kind(self, name: str) -> str:
        """Return what an input is, in words."""
        if name in self.categories:
            return f"categories: {listed(sorted(self.categories[name]))}"
        if name in self.periods:
            return f"number, periodic with period {self.periods[name]:g}"
        return "number"

    def stream_facts(self) -> dict[str, Any]:
        """Return what reading the data of a streamed fit took."""
        facts = vars(self.estimator.stream_)
        return {name: value for name, value in facts.items() if name != "sample"}

    def description(self) -> dict[str, Any]:
        """Return columns, kinds and the report of the fit."""
        report = self.estimator.report_
        return {
            "target": self.targets,
            "given": self.given,
            "categories": {name: list(known) for name, known in self.categories.items()},
            "periods": self.periods,
            "held_out": _held_out(self.training),
            "report": {f.name: getattr(report, f.name) for f in fields(report)},
        }


def read_data(model: Model, source: Source, console: Console, *, drop: bool) -> tuple[Any, Any]:
    """Read the inputs and outputs of a model from a table."""
    with source.open() as table:
        model.check_columns(table.columns, source.label, outputs=True)
        frame = read_table(source, table, model.roles(outputs=True), console, drop=drop)
    return model.inputs(frame), model.outputs(frame)


def load_model(name: str | Path) -> Model:
    """Load a model file, or the model in standard input."""
    with named_file(str(name)) as path:
        try:
            return Model.of(kcdo.load(path))
        except ModelFileError as error:  # where it is a copy, its name says nothing to the user
            raise ModelFileError(str(error).replace(str(path), str(name))) from error


def save_model(estimator: Any, path: Path | None) -> int:
    """Save a model file, whole or not at all, or to standard output; return its size in bytes."""
    with output_name(path) as name:
        estimator.save(name)
        return name.stat().st_size


def _held_out(training: TrainingTable | None) -> dict[str, Any] | None:
    """Return what was kept back from the fit; None if nothing was, or nobody knows."""
    if training is None or not training.n_held_out:
        return None
    n = training.n_rows + training.n_held_out
    share = training.n_held_out / n
    return {"rows": training.n_held_out, "fraction": share, "split": training.split}


def _numbered(letter: str, n: int) -> list[str]:
    return [f"{letter}{i}" for i in range(n)]


def _periods(kernel: Kernel, columns: Sequence[int]) -> Iterator[tuple[int, float]]:
    """Yield the periodic columns of a kernel, with their periods."""
    for leaf, inside in leaves(kernel, columns):
        periods = leaf.column_periods(len(inside))
        if periods is not None:
            yield from zip(inside, periods.tolist(), strict=True)

"""Model files, and what the commands ask of a model: its columns and their kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import kcdo
from kcdo.arrays import Array
from kcdo.commands.columns import labels
from kcdo.commands.console import Console, as_plain
from kcdo.commands.naming import Role, check_names
from kcdo.commands.reading import named_file
from kcdo.commands.sources import Source
from kcdo.commands.tables import read_table
from kcdo.commands.writing import output_name
from kcdo.conformal import ConformalPredictor
from kcdo.errors import InvalidInputError, ModelFileError
from kcdo.estimators import ConditionalDensityOperator
from kcdo.estimators.columns import (
    category_values,
    column_periods,
    input_names,
    output_names,
)
from kcdo.reports.foretold import Foretold
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
    calibrated : ConformalPredictor or None
        The estimator with its calibration, if it has one.
    """

    estimator: Any
    given: list[str]
    targets: list[str]
    categories: dict[str, dict[str, Any]]
    periods: dict[str, float]
    calibrated: ConformalPredictor | None = None

    @classmethod
    def of(cls, saved: Any) -> Model:
        """Read names and kinds off an estimator, or off one that was calibrated."""
        calibrated = isinstance(saved, ConformalPredictor)
        estimator = saved.model if calibrated else saved
        if not isinstance(estimator, ConditionalDensityOperator):
            raise InvalidInputError(
                f"the file holds a {type(estimator).__name__}; the commands work with a "
                "ConditionalDensityOperator."
            )
        return cls(
            estimator,
            input_names(estimator),
            output_names(estimator),
            category_values(estimator),
            column_periods(estimator),
            saved if calibrated else None,
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
        self,
        frame: pd.DataFrame,
        files: Sequence[str],
        held_out: tuple[int, str],
        n_calibration: int,
        seed: int,
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
            n_calibration=n_calibration,
            seed=seed,
        )

    def remember_test(self, scores: dict[str, Any], foretold: Foretold | None) -> None:
        """Keep the scores of held-out rows, and how they were foretold."""
        self.estimator.training_ = replace(self.estimator.training_, test=as_plain(scores))
        if foretold is not None:
            self.estimator.foretold_ = foretold

    @property
    def saved(self) -> Any:
        """What a file keeps: the estimator, with its calibration if it has one."""
        return self.calibrated or self.estimator

    def stream_facts(self) -> dict[str, Any]:
        """Return what reading the data of a streamed fit took."""
        facts = vars(self.estimator.stream_)
        return {name: value for name, value in facts.items() if name != "sample"}


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


def save_model(saved: Any, path: Path | None) -> int:
    """Save a model file, whole or not at all, or to standard output; return its size in bytes."""
    with output_name(path) as name:
        saved.save(name)
        return name.stat().st_size

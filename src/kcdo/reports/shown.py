"""The model with the data of a report, and the rows that its numbers are measured on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np

from kcdo.arrays import Array, Integers
from kcdo.errors import InvalidInputError
from kcdo.frames import target_names
from kcdo.metrics.importance import shuffled_importances
from kcdo.metrics.in_turn import FEWEST_ROWS, MOST_FITTED
from kcdo.reports.columns import (
    Column,
    FewerDraws,
    FittedModel,
    complete_rows,
    input_columns,
    output_columns,
)
from kcdo.reports.foretold import Foretold
from kcdo.reports.text import number, split_unit, with_unit
from kcdo.tables import table_like

_MANY_REFITTED = 5000  # rows; more are fitted again if the fit itself was quick
_QUICK_FIT = 45.0  # seconds; half of it, at most, is what fixed parameters take
_FEWEST_SHUFFLED = 40
IMPORTANCE_QUERIES = 1600  # what the usual number of rows takes


@dataclass(frozen=True)
class MeasuredRows:
    """Which rows numbers are measured on: held out, training, or given without saying which."""

    kind: Literal["held-out", "training", "given"]
    n: int
    text: str  # a sentence or two
    in_turn: bool = False  # predicted by other fits than the model that the page explores

    @property
    def short(self) -> str:
        """The rows in three words."""
        return f"{self.n:,} {self.kind} row{'' if self.n == 1 else 's'}"


@dataclass(frozen=True, eq=False)
class Shown:
    """The model with the data of a report: as given, and the rows without missing values."""

    model: FittedModel
    X: Any
    flat: bool  # outputs are a vector
    given_inputs: list[Column]
    given_outputs: list[Column]
    kept: Integers  # the rows without missing values
    inputs: list[Column]
    outputs: list[Column]

    @classmethod
    def of(cls, model: FittedModel, X: Any, Y: Any, output_names: Sequence[str] | None) -> Self:
        """Check the data against the model, and find the rows without missing values."""
        inputs = input_columns(X, model)
        flat, d = _output_shape(model, X, inputs)
        if output_names is None and target_names(Y) is None:
            output_names = getattr(model, "target_names_", None)
        outputs = output_columns(Y, output_names, d)
        model = model if flat or d == 1 else FewerDraws(model)
        if Y is None:
            rows = complete_rows(inputs)
            used = [c.take(rows) for c in inputs]
            return cls(model, X, flat, inputs, outputs, rows, used, outputs)
        n, m = len(inputs[0].values), len(outputs[0].values)
        if n != m:
            raise InvalidInputError(f"X and Y have inconsistent numbers of rows: {n} and {m}.")
        rows = complete_rows([*inputs, *outputs])
        if not len(rows):
            raise InvalidInputError("no row of X and Y is without missing values.")
        kept = [[c.take(rows) for c in columns] for columns in (inputs, outputs)]
        return cls(model, X, flat, inputs, outputs, rows, *kept)

    @property
    def n_given(self) -> int:
        """Number of rows given."""
        return len(self.given_inputs[0].values)

    @property
    def n_used(self) -> int:
        """Number of rows without missing values."""
        return len(self.inputs[0].values)

    @property
    def n_fitted(self) -> int:
        """Number of rows that the model was fitted to."""
        return int(self.model.report_.n_samples)

    @property
    def has_outputs(self) -> bool:
        """Whether the outputs of the rows are known."""
        return bool(len(self.outputs[0].values))

    @property
    def can_hold_out(self) -> bool:
        """Whether fits to most of these rows, without the others, are like that of the model."""
        enough = self.n_used >= max(FEWEST_ROWS, self.n_fitted / 2)
        return enough and hasattr(self.model, "refit")

    @property
    def most_refitted(self) -> int:
        """How many rows a fit without the others may have, so that it does not take long."""
        quick = self.model.report_.seconds <= _QUICK_FIT
        return MOST_FITTED if quick else _MANY_REFITTED

    @property
    def foretold(self) -> Foretold | None:
        """Held-out predictions that the model keeps, if these rows are those of its table."""
        kept: Foretold | None = getattr(self.model, "foretold_", None)
        if kept is None or not kept.is_of(self.known_outputs().reshape(self.n_used, -1)):
            return None
        return kept

    def known_outputs(self) -> Array:
        """Return the outputs of the rows that can be used, (N,) or (N, d)."""
        Y = np.column_stack([column.values for column in self.outputs])
        return Y[:, 0] if self.flat else Y

    def some_rows(self, most: int) -> Integers:
        """Return all rows that can be used, or that many drawn at random, in their order."""
        return np.sort(np.random.default_rng(0).permutation(self.n_used)[:most])

    def table(self, rows: Integers | slice = slice(None)) -> Any:
        """Return inputs as the model takes them."""
        return table_like(self.X, [column.values[rows] for column in self.inputs])

    def measured(self, n: int, held_out: bool | None) -> MeasuredRows:
        """Say which rows numbers are measured on, of which n were drawn."""
        kind, text = _which_rows(self.n_given, self.n_fitted, held_out)
        kept = self.foretold if held_out is None else None
        if kept is not None and not kept.in_turn:
            text = f"Measured on {n:,} of these rows, which were kept back from the fit."
            return MeasuredRows("held-out", n, text)
        in_turn = held_out is None and (kept is not None or self.can_hold_out)
        if in_turn:
            kind = "held-out"
            others = self.n_used - n
            most = MOST_FITTED if kept is not None else self.most_refitted
            which = "that had not seen it."
            if others > most:
                which = f"to {most:,} other rows. That of all rows will do better."
            text = (
                f"Measured on {self.n_given:,} rows, each predicted by a fit with the same "
                f"parameters {which}"
            )
        elif not held_out:
            text += self._known_test()
        if self.n_used < self.n_given:
            left_out = self.n_given - self.n_used
            text += f" {left_out:,} of them have missing or infinite values and were left out."
        if n < self.n_used:
            text += f" The scores are of {n:,} rows drawn at random from them."
        return MeasuredRows(kind, n, text, in_turn)

    def _known_test(self) -> str:
        """Return a sentence about held-out rows of the fit itself, where ``kcdo fit`` had some."""
        test = getattr(getattr(self.model, "training_", None), "test", None)
        if not test or test["log_score"] is None:  # as JSON has what is infinite
            return ""
        crps = ", ".join(
            with_unit(number(value), split_unit(name)[1]) for name, value in test["crps"].items()
        )
        return (
            f" When it was fitted, {test['rows']:,} rows that were held out had a log score of "
            f"{number(test['log_score'])} and a CRPS of {crps}."
        )

    @property
    def numbers(self) -> Integers:
        """Which rows of the data as given are used, counted from 1."""
        return self.kept + 1

    def importances(
        self, held_out: bool | None, most_queries: int = IMPORTANCE_QUERIES
    ) -> tuple[Array, str]:
        """Return how much each input matters, and the rows it was measured on.

        A model that may be asked little shows it on fewer rows.
        """
        stored = getattr(self.model.report_, "importances", None)  # of selection="auto"
        if stored:
            return np.array(list(stored.values())), "training rows"
        few = max(_FEWEST_SHUFFLED, most_queries // len(self.inputs))
        n_rows = few if most_queries < IMPORTANCE_QUERIES else None
        found = shuffled_importances(self.model.conditional, self.table(), n_rows)
        kind, _ = _which_rows(self.n_given, self.n_fitted, held_out)
        return found, f"{kind} rows"


def _which_rows(
    n_given: int, n_fitted: int, held_out: bool | None
) -> tuple[Literal["held-out", "training", "given"], str]:
    """Return what the rows are, and a sentence about them."""
    if held_out:
        return "held-out", f"Measured on {n_given:,} rows that the model was not fitted to."
    if held_out is False or n_given == n_fitted:
        guess = "" if held_out is False else " (exactly as many rows were fitted)"
        return "training", (
            f"Measured on the {n_given:,} rows that the model was fitted to{guess}: new rows will "
            "score worse."
        )
    return "given", (
        f"Measured on {n_given:,} rows; the model was fitted to {n_fitted:,}. The report was not "
        "told whether these were held out; if they were fitted, new rows will score worse."
    )


def _output_shape(model: FittedModel, X: Any, inputs: Sequence[Column]) -> tuple[bool, int]:
    """Return whether the outputs are a vector, and how many there are."""
    complete = complete_rows(inputs)
    if not len(complete):
        raise InvalidInputError("no row of X is without missing values: nothing can be shown.")
    first = table_like(X, [column.values[complete[:1]] for column in inputs])
    dist = model.conditional(first)  # knows its shape before anything is computed
    return dist.flat, dist.n_outputs

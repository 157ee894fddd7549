"""What the estimators share: encoding of inputs and outputs."""

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from kcdo.arrays import Array
from kcdo.consistency import need, shape
from kcdo.errors import InvalidInputError
from kcdo.estimators.columns import told_columns
from kcdo.estimators.display import ReportHtml
from kcdo.estimators.nested import NestedOptions
from kcdo.estimators.parameters import checked_seed
from kcdo.frames import Labels, as_known, target_names
from kcdo.inputs import GaussianInput, SampleInput
from kcdo.kernels import as_kernel
from kcdo.missing import PlausibleInputs
from kcdo.persistence.models import SavedModel
from kcdo.validation import (
    InputEncoder,
    check_outputs,
    check_range,
    check_weights,
    column_names,
    default_kernel,
)

_FITTED = (
    "_operator",
    "_plan",
    "_parameters",
    "_transform",
    "sums_",
    "report_",
    "stream_",
    "n_features_in_",
    "feature_names_in_",
    "target_names_",
    "training_",
    "foretold_",
    "_plausible",
)


class ConditionalEstimator(ReportHtml, SavedModel, NestedOptions):
    """What both operators share: encoding inputs, weights, queries."""

    kernel_x: Any
    random_state: int
    target_names_: tuple[str, ...] | None
    _encoder: InputEncoder
    _operator: Any
    _n_outputs: int
    _flat: bool
    _plausible: PlausibleInputs
    missing: str = "raise"

    @property
    def n_outputs(self) -> int:
        """Number of outputs d of the training data."""
        check_is_fitted(self)
        return self._n_outputs

    @property
    def flat(self) -> bool:
        """Whether the one output came without an axis, as y (N,): answers then have none."""
        check_is_fitted(self)
        return self._flat

    @property
    def categories(self) -> dict[int, tuple[Hashable, ...]]:
        """Values of each categorical input, by the position of its column."""
        check_is_fitted(self)
        return {column: tuple(known) for column, known in self._encoder.categories.items()}

    def _told(self) -> dict[str, Any]:
        return told_columns(self)

    def _encode(
        self, X: Any, Y: Any, sample_weight: Any, *, least: int = 2
    ) -> tuple[NDArray, Array, Array]:
        """Check the training data; return inputs, outputs and weights without rows of weight 0."""
        self._forget()
        try:
            return self._checked(X, Y, sample_weight, least)
        except Exception:
            self._forget()  # a fit that fails leaves nothing half-fitted
            raise

    def _checked(
        self, X: Any, Y: Any, sample_weight: Any, least: int
    ) -> tuple[NDArray, Array, Array]:
        if isinstance(self.kernel_x, str) and self.kernel_x != "auto":
            raise InvalidInputError(f'kernel_x must be a kernel or "auto"; got {self.kernel_x!r}.')
        X = as_known(X)
        kernel = default_kernel(X) if self._kernel_is_open else as_kernel(self.kernel_x)
        encoder = InputEncoder(kernel, missing=self.missing == "marginalise")
        inputs = encoder.fit(self, X, least=least)
        Y = as_known(Y)
        outputs, self._flat = check_outputs(Y, len(inputs))
        weights = check_weights(sample_weight, len(inputs), least=least)
        self._encoder, self._n_outputs = encoder, outputs.shape[1]
        self.target_names_ = target_names(Y)
        check_range(inputs, "X", column_names(X), more=False)
        check_range(outputs, "Y", self.target_names_, more=False)
        inputs, outputs, weights = without_absent(inputs, outputs, weights)
        if encoder.missing:
            inputs = self._filled_alone(inputs, outputs, weights)
        return inputs, outputs, weights

    def _filled_alone(self, inputs: Array, outputs: Array, weights: Array) -> Array:
        """Return inputs whose missing cells take values of these rows, as those of queries will."""
        self._plausible, filled = PlausibleInputs.of(
            inputs, outputs, weights, tuple(self._encoder.categories), self._seed()
        )
        return filled

    @property
    def _kernel_is_open(self) -> bool:
        """Whether the input kernel is left to the fit."""
        return self.kernel_x is None or isinstance(self.kernel_x, str)

    def _seed(self) -> int:
        return checked_seed(self.random_state)

    def _forget(self) -> None:
        """Drop an earlier fit."""
        for name in _FITTED:
            self.__dict__.pop(name, None)

    def _checked_more(
        self, X: Any, Y: Any, sample_weight: Any, *, learn: bool = False, alone: bool = False
    ) -> tuple[NDArray, Array, Array]:
        """Check further rows against the first ones; ``learn`` admits new categories.

        Missing cells take values of the first rows; with ``alone`` those of these rows, if there
        are any, and so do queries from then on.
        """
        X = as_known(X)
        inputs = self._encoder.transform(self, X, learn=learn)
        outputs, flat = check_outputs(Y, len(inputs))
        if flat != self._flat or outputs.shape[1] != self._n_outputs:
            raise InvalidInputError(
                f"these outputs have shape {np.shape(Y)}; the first ones had "
                f"{'no second axis' if self._flat else f'{self._n_outputs} columns'}."
            )
        check_range(inputs, "X", column_names(X), more=True)
        check_range(outputs, "Y", self.target_names_, more=True)
        weights = check_weights(sample_weight, len(inputs), least=0)
        inputs, outputs, weights = without_absent(inputs, outputs, weights)
        if alone and self._encoder.missing and not np.isnan(inputs).all(axis=0).any():
            inputs = self._filled_alone(inputs, outputs, weights)
        elif self._encoder.missing and hasattr(self, "_plausible"):
            inputs = self._plausible.filled(inputs, outputs, weights, self._seed())
        return inputs, outputs, weights

    def _queries(self, X: Any) -> NDArray | GaussianInput | SampleInput:
        check_is_fitted(self)
        if isinstance(X, GaussianInput | SampleInput):
            return self._encoder.uncertain(self, X)
        X = as_known(X)
        queries = self._encoder.transform(self, X)
        if self._encoder.missing and np.isnan(queries).any():
            return self._plausible.queries(queries)
        # answers come later: what happens to X in the meantime must not change them
        return queries.copy() if np.may_share_memory(queries, X) else queries

    def _labels(self, X: Any) -> Labels:
        """Return what a table of the answers for X takes over from X and the training data."""
        return Labels(self._encoder.library, outputs=self.target_names_).of_query(X)

    def _check_fit(self) -> None:
        """Need columns, categories and outputs in the number that the operator knows."""
        n_inputs, n_outputs = self._operator.n_inputs, self._operator.dim
        need(not self._encoder.objects, "inputs that are not numbers")
        check_columns(self, n_inputs)
        known = all(0 <= column < n_inputs for column in self._encoder.categories)
        need(known, "categories of columns that are missing")
        need(self._n_outputs == n_outputs, "the number of outputs")
        need(n_outputs == 1 or not self._flat, "several outputs without an axis")
        names = self.target_names_
        need(names is None or len(names) == n_outputs, "names of outputs")
        plausible = getattr(self, "_plausible", None)
        need((plausible is None) != self._encoder.missing, "rows for missing cells")
        if plausible is not None:
            shape(plausible.points, None, n_inputs)
        training = getattr(self, "training_", None)
        need(training is None or len(training.scales) == n_inputs, "the training table")
        foretold = getattr(self, "foretold_", None)
        need(foretold is None or foretold.outputs.shape[1] == n_outputs, "held-out predictions")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_operator")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "marginalise"
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags


def check_columns(model: Any, n_inputs: int) -> None:
    """Need as many input columns, and names of them if there are any."""
    need(model.n_features_in_ == n_inputs, "the number of input columns")
    if hasattr(model, "feature_names_in_"):
        need(model.feature_names_in_.dtype == object, "names of input columns")
        shape(model.feature_names_in_, n_inputs)


def without_absent(inputs: NDArray, outputs: Array, weights: Array) -> tuple[NDArray, Array, Array]:
    """Return the rows of positive weight; the arrays themselves where all are."""
    used = weights > 0
    if used.all():
        return inputs, outputs, weights
    return inputs[used], outputs[used], weights[used]

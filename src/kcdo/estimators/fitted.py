"""A fitted conditional density: what it keeps of a fit, and how it answers queries."""

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import RegressorTags, Tags
from sklearn.utils.validation import check_is_fitted

from kcdo.arrays import Array
from kcdo.components import (
    ChainModel,
    ChainModelParameters,
    DensityOperator,
    Mixture,
    ModelParameters,
    Univariate,
    UnivariateParameters,
    condition,
    unconditional,
)
from kcdo.consistency import kernel_fits, need, shape
from kcdo.distributed import StreamFacts, is_dask, lazily
from kcdo.distributions import ConditionalDistribution
from kcdo.errors import InvalidTypeError
from kcdo.estimators.base import ConditionalEstimator
from kcdo.estimators.parameters import check_parameters
from kcdo.estimators.report import FitReport
from kcdo.fitting import StreamPlan
from kcdo.frames import Labels
from kcdo.namespaces import in_kind
from kcdo.reports import write_report
from kcdo.systems import NystromSums, Queries, System
from kcdo.transforms import Columns, Support, strictly_inside, transform_for
from kcdo.validation import Categories, InputEncoder, check_outputs, warn_few_values


@dataclass(frozen=True, eq=False)
class FirstColumns:
    """What the first rows of a fit fix for all others: names, types, the number of outputs."""

    encoder: InputEncoder
    flat: bool
    n_outputs: int
    transform: Columns | None
    target_names: tuple[str, ...] | None
    n_features: int | None  # None of inputs that are objects
    feature_names: NDArray | None


class FittedDensity(ConditionalEstimator):
    """An estimator of conditional densities, however it was fitted.

    Outputs that have bounds are seen on the whole line by the fit, and answers are mapped back.
    """

    selection: str
    support: Support | None
    report_: FitReport
    stream_: StreamFacts
    sums_: NystromSums
    _operator: DensityOperator | Mixture | Univariate | ChainModel
    _parameters: ModelParameters | UnivariateParameters | ChainModelParameters
    _plan: StreamPlan
    _transform: Columns | None

    def conditional(self, X: Any) -> ConditionalDistribution:
        """Return the distributions of Y given each query: rows of X, or uncertain inputs."""
        if is_dask(X):
            raise InvalidTypeError(
                "conditional takes rows that are at hand; of Dask collections take predict, "
                "summary or score_samples, or map_partitions with model.conditional."
            )
        return self._given(self._queries(X)).labelled(self._labels(X))

    def marginal(self) -> ConditionalDistribution:
        """Return p(y) of the training rows, whatever the inputs, as the distribution of one query.

        It is what a model that ignores the inputs predicts, with the output side of this one.
        """
        check_is_fitted(self)
        dist = unconditional(self._operator, flat=self._flat, transform=self._transform)
        return dist.labelled(Labels(self._encoder.library, outputs=self.target_names_))

    def _given(self, queries: Queries) -> ConditionalDistribution:
        """Return the distributions of encoded queries."""
        return condition(self._operator, queries, flat=self._flat, transform=self._transform)

    def predict(self, X: Any) -> Any:
        """Return the conditional mean, (Q,) or (Q, d), as an array of the library of X."""
        if is_dask(X):
            width = None if self.flat else self.n_outputs
            return lazily().lazy_values(self._without_sums(), "predict", X, width=width)
        return in_kind(self.conditional(X).mean(), X)

    def summary(self, X: Any, columns: Sequence[str], y: Any = None) -> Any:
        """Return a table of such columns as mean, sd, q05, mode; logpdf needs y.

        The table is a frame of the library of X, pandas for arrays, and a Dask data frame if X is
        one: see :meth:`ConditionalDistribution.to_frame`.
        """
        if is_dask(X):
            check_is_fitted(self)
            return lazily().lazy_frame(self._without_sums(), X, columns, y)
        return self.conditional(X).to_frame(columns, y)

    def score_samples(self, X: Any, y: Any = None) -> Any:
        """Return log p(y[i] | X[i]), (N,); without y its expectation, minus the entropy.

        Of Dask collections they are a Dask array.
        """
        if is_dask(X):
            check_is_fitted(self)
            return lazily().lazy_values(self._without_sums(), "score_samples", X, y)
        dist = self.conditional(X)
        return -dist.entropy() if y is None else dist.logpdf_pairs(check_outputs(y, len(dist))[0])

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the mean log density of y given X."""
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average(self.score_samples(X, y), weights=weights))

    def report(self, path: str | PathLike[str], X: Any, y: Any = None, **options: Any) -> Path:
        """Write one HTML file to explore the model, see :func:`kcdo.reports.write_report`."""
        return write_report(self, path, X, y, **options)

    # --- what a fit leaves

    def _finish(
        self,
        system: System,
        operator: DensityOperator | Mixture | Univariate | ChainModel,
        n_samples: int,
        started: float,
    ) -> None:
        """Keep what predictions need of a fit, and report what was chosen."""
        plan = getattr(self, "_plan", None)
        self.report_ = FitReport.of(
            system.describe(),
            operator,
            self.selection,
            n_samples,
            time.perf_counter() - started,
            0.0 if plan is None or plan.bins is None else plan.bins.error,
        )
        self._operator = operator.without_training()

    def _without(self, *names: str) -> Self:
        """Return a copy that lacks some parts of the fit."""
        other = copy(self)
        for name in names:
            other.__dict__.pop(name, None)
        return other

    def _without_sums(self) -> Self:
        return self._without("_plan", "sums_")

    def _check_fit(self) -> None:
        super()._check_fit()
        check_parameters(self)
        operator, d = self._operator, self._operator.dim
        if self._transform is not None:
            need(len(self._transform.parts) == d, "the bounds of the outputs")
        parameters = getattr(self, "_parameters", None)
        if isinstance(operator, ChainModel) or isinstance(parameters, ChainModelParameters):
            orders = [[c.order for c in getattr(m, "chains", ())] for m in (operator, parameters)]
            need(orders[0] == orders[1], "parameters of a chain")
        elif parameters is not None:
            need({part.dim for part in parameters.components} <= {d, None}, "outputs")
            for kernel in {k for part in parameters.components for k in part.kernels}:
                kernel_fits(kernel, operator.primary.system.centres)
        else:
            need(isinstance(operator, DensityOperator), "a mixture without its parameters")
        if hasattr(self, "_plan"):
            shape(self._plan.centres, None, self.n_features_in_)
            need(self._plan.output.measure.dim == d, "the outputs of the streamed fit")
            shape(self.sums_.targets, self._plan.n_targets, len(self._plan.centres))

    # --- columns of data that come in parts

    def _first_columns(self) -> FirstColumns:
        """Return what other rows are checked against."""
        return FirstColumns(
            self._encoder,
            self._flat,
            self._n_outputs,
            self._transform,
            self.target_names_,
            getattr(self, "n_features_in_", None),
            getattr(self, "feature_names_in_", None),
        )

    def _take_columns(self, first: FirstColumns) -> None:
        """Take over what another estimator learnt from the first rows."""
        self._encoder, self._transform = first.encoder, first.transform
        self._flat, self._n_outputs = first.flat, first.n_outputs
        self.target_names_ = first.target_names
        if first.n_features is not None:
            self.n_features_in_ = first.n_features
        if first.feature_names is not None:
            self.feature_names_in_ = first.feature_names

    @property
    def _categories(self) -> Categories:
        """Codes of the values of each categorical column."""
        return self._encoder.categories

    def _take_categories(self, categories: Categories) -> None:
        """Let these be the values of the categorical columns, whatever was known before.

        The encoder is a new one: copies of this estimator may share the one before.
        """
        self._encoder = replace(self._encoder, categories=categories)

    # --- outputs with bounds

    def _checked(
        self, X: Any, Y: Any, sample_weight: Any, least: int
    ) -> tuple[NDArray, Array, Array]:
        inputs, outputs, weights = super()._checked(X, Y, sample_weight, least)
        warn_few_values(outputs, self.target_names_)
        self._take_bounds(outputs, weights)
        return inputs, self._to_unbounded(outputs), weights

    def _encode_more(
        self, X: Any, Y: Any, sample_weight: Any, *, learn: bool = False, alone: bool = False
    ) -> tuple[NDArray, Array, Array]:
        """Check further rows against the first ones, with outputs as the fit sees them."""
        inputs, outputs, weights = self._checked_more(X, Y, sample_weight, learn=learn, alone=alone)
        return inputs, self._to_unbounded(outputs), weights

    def _take_bounds(self, outputs: Array, weights: Array, ends: Array | None = None) -> None:
        """Let rows tell how near declared bounds are felt, see :func:`transform_for`."""
        self._transform = (
            None if self.support is None else transform_for(self.support, outputs, weights, ends)
        )

    def _inside(self, outputs: Array) -> Array:
        """Return outputs inside of declared bounds; raise if any lies beyond."""
        return outputs if self._transform is None else strictly_inside(self._transform, outputs)

    def _to_unbounded(self, outputs: Array) -> Array:
        """Return outputs on the whole line, where bounds were declared."""
        inside = self._inside(outputs)
        return inside if self._transform is None else self._transform.forward(inside)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "regressor"
        tags.regressor_tags = RegressorTags(poor_score=True)  # score is a log density, not R²
        return tags

"""What a model is made of: components, each fitted, predicting and held out in the same way."""

from kcdo.components.atoms import Atoms, AtomShares, class_shares, interval_masses
from kcdo.components.base import Component, ComponentParameters
from kcdo.components.chain import (
    Chain,
    ChainModel,
    ChainModelParameters,
    ChainParameters,
    link_rows,
    some_outputs,
)
from kcdo.components.conditioning import Conditioner, condition, unconditional
from kcdo.components.density import (
    DensityOperator,
    OperatorParameters,
    PlainDensity,
    Training,
)
from kcdo.components.gate import Gate
from kcdo.components.likeness import EVERY, Bandwidths, RowTable
from kcdo.components.linear import LinearParameters, LinearRegression, LinearSystem
from kcdo.components.location_map import (
    LARGEST_SQUARE,
    LocationParameters,
    LocationScaleMap,
    Regression,
    Residuals,
    Spread,
    distinct_sample,
    fit_map,
    log_squares,
    without_outliers,
)
from kcdo.components.location_scale import (
    LocationScale,
    LocationScaleParameters,
    about_location,
)
from kcdo.components.mean import MeanOperator
from kcdo.components.mixture import NAMES, Combination, Mixture, ModelParameters
from kcdo.components.near_location import (
    Location,
    Regressor,
    averaged,
    foretold_among,
    with_the_rest,
)
from kcdo.components.nearest import KeptNearest, NearestDensity, NearestParameters
from kcdo.components.node_values import MatrixValues, RowValues, SolvedValues
from kcdo.components.settings import Effort, Settings, StreamEffort
from kcdo.components.smoothed import SmoothedParameters, SmoothedRows, Smoother
from kcdo.components.tails import MarginalTail, MarginalTailParameters, student_tail
from kcdo.components.twins import Twins, drawn_to, summed
from kcdo.components.univariate import (
    AtomParameters,
    Univariate,
    UnivariateParameters,
    continuous_rows,
    unrounded,
)

__all__ = [
    "EVERY",
    "LARGEST_SQUARE",
    "NAMES",
    "AtomParameters",
    "AtomShares",
    "Atoms",
    "Bandwidths",
    "Chain",
    "ChainModel",
    "ChainModelParameters",
    "ChainParameters",
    "Combination",
    "Component",
    "ComponentParameters",
    "Conditioner",
    "DensityOperator",
    "Effort",
    "Gate",
    "KeptNearest",
    "LinearParameters",
    "LinearRegression",
    "LinearSystem",
    "Location",
    "LocationParameters",
    "LocationScale",
    "LocationScaleMap",
    "LocationScaleParameters",
    "MarginalTail",
    "MarginalTailParameters",
    "MatrixValues",
    "MeanOperator",
    "Mixture",
    "ModelParameters",
    "NearestDensity",
    "NearestParameters",
    "OperatorParameters",
    "PlainDensity",
    "Regression",
    "Regressor",
    "Residuals",
    "RowTable",
    "RowValues",
    "Settings",
    "SmoothedParameters",
    "SmoothedRows",
    "Smoother",
    "SolvedValues",
    "Spread",
    "StreamEffort",
    "Training",
    "Twins",
    "Univariate",
    "UnivariateParameters",
    "about_location",
    "averaged",
    "class_shares",
    "condition",
    "continuous_rows",
    "distinct_sample",
    "drawn_to",
    "fit_map",
    "foretold_among",
    "interval_masses",
    "link_rows",
    "log_squares",
    "some_outputs",
    "student_tail",
    "summed",
    "unconditional",
    "unrounded",
    "with_the_rest",
    "without_outliers",
]

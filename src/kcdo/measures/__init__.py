"""Reference measures ρ on the output space: nodes, and weights that sum to ρ's total mass.

Options (:class:`UniformBox`, :class:`QuasiRandomBox`, :class:`Sample`) say what is wanted;
``realise`` turns them, with the data, into the measure (:class:`Grid`, :class:`Scattered`).
"""

from kcdo.measures.nodes import Grid, Measure, Scattered
from kcdo.measures.references import MAX_NODES, QuasiRandomBox, Reference, Sample, UniformBox

__all__ = [
    "MAX_NODES",
    "Grid",
    "Measure",
    "QuasiRandomBox",
    "Reference",
    "Sample",
    "Scattered",
    "UniformBox",
]

"""What the columns of a fitted model are, as people read it."""

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from kcdo.frames import category_text
from kcdo.kernels import Kernel, leaves
from kcdo.training import TrainingTable

_KEPT = ("files", "n_rows", "n_held_out", "split", "n_calibration", "test")


def input_names(model: Any) -> list[str]:
    """Return the names of the inputs; those without one are x0, x1, ..."""
    numbered = [f"x{i}" for i in range(model.n_features_in_)]
    return [str(name) for name in getattr(model, "feature_names_in_", numbered)]


def output_names(model: Any) -> list[str]:
    """Return the names of the outputs; those without one are y, or y0, y1, ..."""
    d = model.n_outputs
    known = getattr(model, "target_names_", None)
    return [str(n) for n in known or (["y"] if d == 1 else [f"y{i}" for i in range(d)])]


def category_values(model: Any) -> dict[str, dict[str, Hashable]]:
    """Return the values of each categorical input, by their texts."""
    names = input_names(model)
    return {
        names[i]: {category_text(value): value for value in known}
        for i, known in sorted(model.categories.items())
    }


def column_periods(model: Any) -> dict[str, float]:
    """Return the period of each periodic input."""
    report = getattr(model, "report_", None)
    if report is None:
        return {}
    names = input_names(model)
    found = _periods(report.kernel_x, range(model.n_features_in_))
    return {names[i]: period for i, period in sorted(found)}


def told_columns(model: Any) -> dict[str, Any]:
    """Return what a file says of the columns and of the training table, as JSON has it."""
    training: TrainingTable | None = getattr(model, "training_", None)
    kept = None if training is None else {name: getattr(training, name) for name in _KEPT}
    return {
        "columns": {
            "given": input_names(model),
            "target": output_names(model),
            "categories": {name: list(known) for name, known in category_values(model).items()},
            "periods": column_periods(model),
        },
        "training": kept,
    }


def _periods(kernel: Kernel, columns: Sequence[int]) -> Iterator[tuple[int, float]]:
    """Yield the periodic columns of a kernel, with their periods."""
    for leaf, inside in leaves(kernel, columns):
        periods = leaf.column_periods(len(inside))
        if periods is not None:
            yield from zip(inside, periods.tolist(), strict=True)

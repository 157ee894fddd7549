"""The figures of the studies, drawn from plain arrays. Needs matplotlib when imported."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kcdo.arrays import Array
from kcdo.extras import import_extra

_COLOURS = "BuPu"
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SHOWN_DAYS = (0, 4, 6)


def _figure(width: float, height: float) -> Any:
    module = import_extra("matplotlib.figure", extra="plots", what="Figures")
    return module.Figure(figsize=(width, height), layout="constrained")


def density_panels(
    densities: Mapping[str, Array], places: Iterable[str], half_width: float = 2.0
) -> Any:
    """Densities (Q, side, side) of every method, one row per query, on the truth's colours."""
    names, places = list(densities), list(places)
    figure = _figure(2.3 * len(names), 2.5 * len(places))
    axes = figure.subplots(len(places), len(names), sharex=True, sharey=True, squeeze=False)
    extent = (-half_width, half_width, -half_width, half_width)
    for row, place in enumerate(places):
        top = densities[names[0]][row].max()
        for panel, name in zip(axes[row], names, strict=True):
            panel.imshow(
                densities[name][row].T, origin="lower", extent=extent, vmin=0.0, vmax=top,
                cmap=_COLOURS, interpolation="bilinear",
            )  # fmt: skip
            panel.set_title(name if row == 0 else "", fontsize=9)
        axes[row, 0].set_ylabel(f"{place}\n$z$")
    for panel in axes[-1]:
        panel.set_xlabel("$y$")
    return figure


def box_panels(
    data: Mapping[str, Mapping[str, Array]], label: str, columns: int, log: bool = False
) -> Any:
    """Box plots of values by method, one panel for each item."""
    count = -(-len(data) // columns)
    figure = _figure(5.0 * columns, 3.0 * count)
    panels = figure.subplots(count, columns, squeeze=False).ravel()
    for panel, (title, values) in zip(panels, data.items(), strict=False):
        _boxes(panel, values, log)
        panel.set(title=title, ylabel=label)
    for panel in panels[len(data) :]:
        panel.set_axis_off()
    return figure


def _boxes(panel: Any, values: Mapping[str, Array], log: bool = False) -> None:
    known = {name: v[np.isfinite(v)] for name, v in values.items() if np.isfinite(v).any()}
    panel.boxplot(
        list(known.values()), tick_labels=list(known), widths=0.6, medianprops={"color": "C3"},
        flierprops={"markersize": 2},
    )  # fmt: skip
    for text in panel.get_xticklabels():
        text.set(rotation=35, ha="right", fontsize=8)
    if log:
        panel.set_yscale("log")


def terrain_maps(found: Mapping[str, Mapping[str, Array]]) -> Any:
    """The terrain with contours; of each method the predicted mean, sd, and the test errors."""
    figure = _figure(15.0, 3.4 * len(found))
    axes = figure.subplots(len(found), 4, squeeze=False)
    for row, (name, maps) in zip(axes, found.items(), strict=True):
        grid = maps["x"], maps["y"]
        levels = np.linspace(maps["truth"].min(), maps["truth"].max(), 15)
        row[0].contour(*grid, maps["truth"], levels=levels, cmap="terrain", linewidths=0.8)
        row[0].set_title("terrain")
        shades = {"vmin": levels[0], "vmax": levels[-1], "cmap": "terrain"}
        figure.colorbar(row[1].pcolormesh(*grid, maps["mean"], **shades), ax=row[1])
        row[1].set_title(f"{name}: mean")
        figure.colorbar(row[2].pcolormesh(*grid, maps["sd"], cmap="viridis"), ax=row[2])
        row[2].set_title(f"{name}: sd")
        test = maps["test"].astype(bool)
        error = np.abs(maps["mean"] - maps["truth"])[test]
        top = np.quantile(error, 0.99)
        dots = row[3].scatter(
            maps["x"][test], maps["y"][test], c=error, s=3, vmin=0, vmax=top, cmap="magma_r"
        )
        figure.colorbar(dots, ax=row[3])
        row[3].set_title(f"{name}: |error|, test points")
        for panel in row:
            panel.set_aspect("equal")
            panel.set(xticks=[], yticks=[])
    return figure


def traffic_figure(found: Mapping[str, Mapping[str, Array]], title: str) -> Any:
    """Figure 3 of the paper: histograms of three days with mean ± 2 sd; box plots of errors."""
    figure = _figure(15.0, 6.0)
    left, right = figure.subfigures(1, 2, width_ratios=[1.5, 1.0])
    figure.suptitle(title)
    panels = left.subplots(1, len(_SHOWN_DAYS), sharey=True)
    history = next((a for a in found.values() if "test inputs" in a), None)
    predictor = found.get("CDO, default") or next(iter(found.values()))
    for panel, day in zip(panels, _SHOWN_DAYS, strict=True):
        if history is not None:
            _history(panel, history, day)
        here = predictor["inputs"][:, 0] == day
        hour, mean = predictor["inputs"][here, 1], predictor["mean"][here]
        sd = predictor["sd"][here]
        panel.plot(hour, mean, color="C0", label="predicted mean")
        panel.fill_between(hour, mean - 2 * sd, mean + 2 * sd, color="C0", alpha=0.25,
                           label="mean ± 2 sd")  # fmt: skip
        panel.set(title=_DAYS[day], xlabel="hour")
    panels[0].legend(fontsize=8)
    boxes = right.subplots(2, 1)
    for panel, what in zip(boxes, ("mean", "sd"), strict=True):
        _boxes(panel, {n: _positive(a[f"{what} errors, held-out"]) for n, a in found.items()}, True)
        panel.set(ylabel=f"scaled error, {what}")
    return figure


def _history(panel: Any, arrays: Mapping[str, Array], day: int) -> None:
    rows = arrays["test inputs"][:, 0] == day
    hour, value = arrays["test inputs"][rows, 1], arrays["test outputs"][rows]
    hours, member = np.unique(hour, return_inverse=True)
    step = hours[1] - hours[0]
    edges = np.r_[hours - step / 2, hours[-1] + step / 2]
    panel.hist2d(hour, value, bins=(edges, 60), cmap="Greys", cmin=1)
    panel.plot(hours, np.bincount(member, value) / np.bincount(member), color="k", lw=1,
               label="test mean")  # fmt: skip


def _positive(errors: Array) -> Array:
    return np.maximum(errors, 1e-4)  # for the logarithmic axis


def embedding_densities(problems: Mapping[str, Any], densities: Mapping[str, Mapping]) -> Any:
    """Each problem's truth beside what was recovered from its embedding."""
    flat = [name for name, problem in problems.items() if problem.grid.dim == 1]
    deep = [name for name in problems if name not in flat]
    widest = max((len(densities[name]) + 1 for name in deep), default=1)
    figure = _figure(2.6 * max(widest, 4), 3.4 * (bool(flat) + len(deep)))
    parts = np.atleast_1d(figure.subfigures(bool(flat) + len(deep), 1))
    if flat:
        for panel, name in zip(
            parts[0].subplots(1, len(flat), squeeze=False)[0], flat, strict=True
        ):
            grid = problems[name].grid
            panel.fill_between(grid.nodes[:, 0], problems[name].truth.pdf(grid.nodes), color="0.85")
            for method, values in densities[name].items():
                panel.plot(grid.nodes[:, 0], values, lw=1, label=method)
            panel.set_title(name)
            panel.legend(fontsize=6)
    for part, name in zip(parts[bool(flat) :], deep, strict=True):
        grid = problems[name].grid
        truth = problems[name].truth.pdf(grid.nodes).reshape(grid.shape)
        shown = {"truth": truth, **densities[name]}
        for panel, (method, values) in zip(
            part.subplots(1, len(shown)), shown.items(), strict=True
        ):
            panel.imshow(values.T, origin="lower", cmap=_COLOURS, vmin=0, vmax=truth.max())
            panel.set_title(method, fontsize=6)
            panel.set(xticks=[], yticks=[])
    return figure


def herding_curves(runs: Mapping[str, list[dict[str, Any]]]) -> Any:
    """RKHS distance and integration error of super-samples and draws as their number grows."""
    figure = _figure(4.5 * len(runs), 6.5)
    axes = figure.subplots(2, len(runs), squeeze=False)
    for column, (name, records) in zip(axes.T, runs.items(), strict=True):
        if not records:
            continue
        n = np.array(records[0]["scores"]["n"])
        for panel, what in zip(column, ("distance", "error"), strict=True):
            for kind in ("herding", "draws"):
                values = np.median([r["scores"][f"{what}, {kind}"] for r in records], axis=0)
                panel.loglog(n, values, marker="o", ms=3, label=kind)
                first = values[0]
            panel.loglog(n, first / np.sqrt(n), color="0.6", ls=":", label="$n^{-1/2}$")
            panel.loglog(n, first / n, color="0.6", ls="--", label="$n^{-1}$")
        column[0].set(title=name, ylabel="distance to the embedding")
        column[1].set(xlabel="points n", ylabel="integration error / sd")
    axes[0, 0].legend(fontsize=8)
    return figure

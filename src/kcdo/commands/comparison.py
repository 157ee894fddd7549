"""The methods of ``kcdo compare`` on a table, and how their results are told."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kcdo.arrays import Array
from kcdo.commands.console import counted, listed
from kcdo.commands.errors import UsageError
from kcdo.commands.fitting import labels, unfitted
from kcdo.commands.formats import Format
from kcdo.commands.naming import Wanted
from kcdo.commands.options import FitOptions
from kcdo.commands.writers import write_columns
from kcdo.commands.writing import output_file
from kcdo.comparing import Comparison, Fitter
from kcdo.rivals import CatBoost, ExactGP, NGBoost, QuantileForest

OURS = "kcdo"
RIVALS: dict[str, tuple[Callable[..., Any], str]] = {
    "forest": (QuantileForest, "quantile_forest"),
    "ngboost": (NGBoost, "ngboost"),
    "catboost": (CatBoost, "catboost"),
    "gp": (ExactGP, ""),
}
NAMES = (OURS, f"{OURS}-heuristic", *RIVALS)
_INSTALL = {"quantile_forest": "quantile-forest"}
_MOST_VALUES = 50  # of a discrete output


@dataclass(frozen=True)
class Problem:
    """A table whose one target is predicted from the other columns."""

    frame: pd.DataFrame
    wanted: Wanted
    options: FitOptions

    @property
    def y(self) -> Array:
        """The outputs, (N,)."""
        return self.frame[self.wanted.targets[0]].to_numpy(dtype=float)

    @property
    def gap(self) -> float:
        """Distance between the values of a discrete output, 0 for a continuous one."""
        values = np.unique(self.y)
        return float(np.diff(values).min()) if 1 < len(values) <= _MOST_VALUES else 0.0

    def encoded(self) -> Array:
        """Return the inputs as numbers, (N, p): categories as 0 and 1, periods as circles."""
        columns = []
        for name in self.wanted.given:
            values = self.frame[name]
            if isinstance(values.dtype, pd.CategoricalDtype):
                columns.append(pd.get_dummies(values).to_numpy(dtype=float))
            elif name in self.wanted.periods:
                angle = 2 * np.pi * values.to_numpy() / self.wanted.periods[name]
                columns.append(np.column_stack([np.cos(angle), np.sin(angle)]))
            else:
                columns.append(values.to_numpy(dtype=float)[:, None])
        return np.hstack(columns)

    def methods(self, names: list[str]) -> dict[str, Fitter]:
        """Return the methods by their names."""
        X = self.encoded()
        ours = [name for name in names if name.startswith(OURS)]
        return {name: self._ours(name) if name in ours else self._rival(name, X) for name in names}

    def _ours(self, name: str) -> Fitter:
        selection = name.partition("-")[2] or self.options.selection
        options = replace(self.options, selection=selection)
        X = self.frame[self.wanted.given]

        def fit(rows: Any, fold: int) -> Any:
            weights = np.zeros(len(X))
            weights[rows] = 1.0  # others are absent, but for the names of their categories
            kin = labels(self.frame, self.wanted) if options.chooses else {}
            if any(len(np.unique(each[rows])) < 2 for each in kin.values()):
                kin = {}  # one group alone
            model = unfitted(X, self.wanted, options).fit(X, self.y, weights, **kin)
            return _Conditioned(lambda held_out: model.conditional(X.iloc[held_out]))

        return fit

    def _rival(self, name: str, X: Array) -> Fitter:
        make, y, gap = RIVALS[name][0], self.y, self.gap

        def fit(rows: Any, fold: int) -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of others, about their own affairs
                model = make(seed=fold, gap=gap).fit(X[rows], y[rows])
            return _Conditioned(lambda held_out: model.conditional(X[held_out]))

        return fit


@dataclass(frozen=True)
class _Conditioned:
    conditional: Callable[[Any], Any]


def chosen_methods(asked: list[str]) -> tuple[list[str], list[str]]:
    """Return the methods to compare, and the packages of those that are left out."""
    unknown = [name for name in asked if name not in NAMES]
    if unknown:
        raise UsageError(f"--methods does not know {unknown[0]!r}; there are {listed(NAMES)}.")
    missing = {
        name: _INSTALL.get(package, package)
        for name, (_, package) in RIVALS.items()
        if package and find_spec(package) is None
    }
    for name in asked:
        if name in missing:
            raise UsageError(f"--methods {name} needs a package: pip install {missing[name]}")
    if asked:
        return asked, []
    usual = [name for name in NAMES if name != f"{OURS}-heuristic"]
    return [n for n in usual if n not in missing], list(missing.values())


def rows_of(comparison: Comparison) -> list[dict[str, Any]]:
    """Return one row of figures for each method, the best first."""
    best = comparison.results[0]
    rows = []
    for result in comparison.results:
        log, crps = (comparison.difference(best, result, crps=flag) for flag in (False, True))
        rows.append(
            {
                "method": result.name,
                "log_score": float(result.log_scores.mean()),
                "log_score_behind": log.mean,
                "log_score_error": log.error,
                "crps": float(result.crps.mean()),
                "crps_behind": crps.mean,
                "crps_error": crps.error,
                "coverage90": float(result.coverage),
                "width90": float(result.width),
                "fit_seconds": result.fit_seconds,
                "predict_seconds": result.predict_seconds,
            }
        )
    return rows


def table_lines(comparison: Comparison) -> list[str]:
    """Return the figures as a table of text."""
    width = max(len("method"), *(len(r.name) for r in comparison.results))
    head = f"{'method':<{width}}  {'log score':>9} {'behind by':>16}  {'CRPS':>9} {'behind by':>18}"
    lines = [f"{head}  {'in 90 %':>7}  {'fit':>7}  {'predict':>7}"]
    for i, row in enumerate(rows_of(comparison)):
        log, crps = (_behind(row, score) if i else "" for score in ("log_score", "crps"))
        lines.append(
            f"{row['method']:<{width}}  {row['log_score']:>9.4g} {log:>16}  {row['crps']:>9.4g} "
            f"{crps:>18}  {row['coverage90']:>7.1%}  {row['fit_seconds']:>5.1f} s  "
            f"{row['predict_seconds']:>5.1f} s"
        )
    return lines


def _behind(row: dict[str, Any], score: str) -> str:
    mean, error = row[f"{score}_behind"], row[f"{score}_error"]
    return f"{mean:.2g} ± {error:.1g}" if np.isfinite(mean) else "infinitely"


def write_comparison(
    comparison: Comparison, words: dict[str, Any], out: str, path: Path | None
) -> None:
    """Write a page, a picture or a table, as the name of the file ends."""
    ending = Path(out).suffix.lstrip(".").lower()
    if ending in ("html", "htm"):
        text = page(comparison, words)
        with output_file(path) as file:
            file.write(text.encode())
        return
    if ending in PICTURES:
        with output_file(path) as file:
            _figure(comparison).savefig(file, format=ending, dpi=150)
        return
    rows = rows_of(comparison)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    with output_file(path) as file:
        write_columns(file, out, Format.of(out), columns)


PICTURES = ("png", "pdf", "svg")


def page(comparison: Comparison, words: dict[str, Any]) -> str:
    """Return one HTML page with the verdict, the table and the picture, which works offline."""
    from kcdo.reports.rendering import load_template  # jinja2

    drawn = io.StringIO()
    _figure(comparison).savefig(drawn, format="svg")
    svg = drawn.getvalue()
    picture = svg[svg.index("<svg") :]
    facts = {"rows": rows_of(comparison), "picture": picture, "verdict": comparison.verdict()}
    return str(load_template("compare.html").render(**facts, **words))


def _figure(comparison: Comparison) -> Any:
    from kcdo.plotting.comparison import plot_comparison  # matplotlib

    rows = rows_of(comparison)
    panels = {
        title: (
            np.array([-row[f"{score}_behind"] for row in rows]),
            np.array([row[f"{score}_error"] for row in rows]),
        )
        for score, title in (
            ("log_score", "log score, against the best"),
            ("crps", "−CRPS, against the best"),
        )
    }
    note = "to the right is better; bars are ± 2 standard errors"
    return plot_comparison([row["method"] for row in rows], panels, note)


def said_folds(n: int, folds: int, wanted: Wanted) -> str:
    """Say how the rows were held out."""
    how = "at random"
    if wanted.time:
        how = f"forward in time by {wanted.time}"
    elif wanted.group:
        how = f"by groups of {wanted.group}"
    return f"{counted(n, 'row')}, {folds} folds {how}, every row foretold by a fit without its fold"


def notes(comparison: Comparison, problem: Problem, missing: list[str], n_rows: int) -> list[str]:
    """Say which methods failed, which are not installed, what was left out, what scores mean.

    ``n_rows`` are those of the table, of which the problem may have some.
    """
    found = [f"{name} could not be fitted: {why}" for name, why in comparison.failed.items()]
    if missing:
        found.append(
            f"Not installed, so not compared: {listed(missing)} (pip install kcdo[rivals])."
        )
    if len(problem.frame) < n_rows:
        found.append(f"{counted(n_rows, 'row')} are there; --rows takes more of them.")
    target = problem.wanted.targets[0]
    if comparison.by_crps:
        found.append(
            f"Values of {target} repeat, so that densities depend on how methods round: the "
            "order is that of the CRPS."
        )
    if problem.gap:
        found.append(f"Log scores are of the probability that {target} rounds to its value.")
    return found

"""Which method leads where: the default beside its best rival, drawn from a finished run.

Figures are medians over seeds or splits.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from experiments.markdown import markdown_table
from experiments.rows import DEFAULT, GP, KCEF, KDE, LSCDE, MAF, PAPER, REALNVP
from experiments.runner import Results
from experiments.studies import donut, terrain, traffic
from experiments.studies.traffic_data import JOINT, SHAPE

RIVALS = (GP, REALNVP, MAF, LSCDE, KCEF, KDE)
WHISKERS = (0.027, 0.050)  # of the published box of CDO, both x


def orderings(folder: Path) -> str:
    """A table of what was to be reached, the two figures, and whether it was."""
    studies = {"donut": _donut, "terrain": _terrain, "traffic": _traffic}
    rows: list[list[str]] = []
    for name, lines in studies.items():
        if (folder / name / "runs.jsonl").exists():
            rows += lines(Results(folder / name))
    return markdown_table(["to reach", "here", "beside it", "holds"], rows)


def _donut(results: Results) -> list[list[str]]:
    rows = []
    for place in donut.PLACES:
        authors, low_high = donut.SETTINGS[0].name, "{:.3f} to {:.3f}".format(*WHISKERS)
        found = _middle(results, authors, PAPER, f"joint, {place}")
        inside = WHISKERS[0] <= round(found, 3) <= WHISKERS[1]
        what = f"donut, {authors}, joint target, {place}: *paper* within the published whiskers"
        rows.append([what, _number(found), low_high, _word(inside, found)])
    for setting in donut.SETTINGS:
        for place in donut.PLACES:
            what = f"donut, {setting.name}, conditional target, {place}: *default* leads"
            rows.append(_least(results, setting.name, f"conditional, {place}", RIVALS, what))
    return rows


def _terrain(results: Results) -> list[list[str]]:
    rivals = (*RIVALS, terrain.NEIGHBOUR)
    return [
        _least(results, terrain.PROBLEM, score, rivals, f"terrain, {score}: *default* leads")
        for score in ("SMAE, centred", "SMAE, uncentred")
    ]


def _traffic(results: Results) -> list[list[str]]:
    rows = []
    for problem in results.problems():
        if problem in (JOINT, SHAPE):
            continue
        for what in ("mean", "sd"):
            score = f"{what}, held-out"
            first, second = f"{problem}, {what}: *default* ahead", f"{problem}, {what}: no worse"
            rows.append(_least(results, problem, score, (REALNVP, MAF, LSCDE), first))
            rows.append(_least(results, problem, score, (traffic.GROUPS,), second))
    joint, product = (
        _middle(results, JOINT, DEFAULT, score) for score in ("joint", "product of its marginals")
    )
    what = f"{JOINT}: log score of *default*, joint beside the product of its marginals"
    return [*rows, [what, _number(joint), _number(product), _word(joint > product, joint)]]


def _least(
    results: Results, problem: str, score: str, rivals: Iterable[str], what: str
) -> list[str]:
    """The default beside the best of some rivals; less is better."""
    ours = _middle(results, problem, DEFAULT, score)
    others = {name: _middle(results, problem, name, score) for name in rivals}
    best = min(others, key=lambda name: np.nan_to_num(others[name], nan=np.inf))
    beside = f"{_number(others[best])} ({best})"
    return [what, _number(ours), beside, _word(ours <= others[best], ours)]


def _middle(results: Results, problem: str, method: str, score: str) -> float:
    values = results.values(problem, method, score)
    return float(np.median(values)) if len(values) else np.nan


def _number(value: float) -> str:
    return f"{value:.4f}" if np.isfinite(value) else "not run"


def _word(holds: bool, value: float) -> str:
    return ("yes" if holds else "**no**") if np.isfinite(value) else "–"

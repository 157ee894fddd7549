"""Tables of the joint benchmark, and what they say: how often the default is first, or close.

A cell is the mean over splits ± its standard error; the first of a set in bold, those that no
method beats by more than its standard error with a star, as in ``benchmarks/accuracy_table.py``.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.accuracy_table import Scores, beats, markdown, score_cell, standing
from benchmarks.joint_rivals import METHODS

TITLES = {"nll": "Negative joint log score", "energy": "Energy score"}
OURS, ALONE = "kcdo", "kcdo-marginals"
_WITHIN = 0.1  # nats per output, of the truth

Record = dict[str, Any]


def page_text(records: Sequence[Record]) -> str:
    """Return all tables with headings, the verdict, and what did not run."""
    blocks = []
    for score, title in TITLES.items():
        blocks += [f"### {title}", score_table(records, score)]
    blocks += ["### Verdict", verdict(records)]
    lacking = not_run(records)
    return "\n\n".join([*blocks, lacking] if lacking else blocks)


def collect(records: Sequence[Record], score: str) -> Scores:
    """Return a score of every set, method and split; sets of other sizes are sets of their own."""
    found: Scores = defaultdict(lambda: defaultdict(dict))
    for record in records:
        if score in record:
            found[set_name(record)][record["method"]][record["split"]] = record[score]
    return found


def set_name(record: Record) -> str:
    """Return the set of a record, with its training rows and outputs."""
    return f"{record['set']} ({record['rows']:,} rows, d = {record['outputs']})"


def score_table(records: Sequence[Record], score: str) -> str:
    """Return sets by methods; for log scores also the truth, and how far ours is behind it."""
    found = collect(records, score)
    methods = [m for m in METHODS if any(m in of_set for of_set in found.values())]
    truths = {}
    if score == "nll":
        truths = collect([r for r in records if r.get("truth") is not None], "truth")
    rows = []
    for name, of_set in found.items():
        marks = standing(of_set)
        row = [name, *(score_cell(of_set.get(m, {}), marks.get(m, "")) for m in methods)]
        if truths:
            true = truths.get(name, {}).get(OURS, {})
            row += [score_cell(true, ""), _figure(gap(records, name))]
        rows.append(row)
    return markdown(["set", *methods, *(["truth", "gap per output"] if truths else [])], rows)


def gap(records: Sequence[Record], name: str) -> float | None:
    """Return how far ours is behind the truth, in nats per output; None if that is not known."""
    own = [
        (r["nll"] - r["truth"]) / r["outputs"]
        for r in records
        if r["method"] == OURS and r.get("truth") is not None and set_name(r) == name
    ]
    return float(np.mean(own)) if own else None


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def verdict(records: Sequence[Record]) -> str:
    """Return how often ours is first or close, where marginals beat it, and gaps to the truth."""
    lines = []
    for score, title in TITLES.items():
        every = collect(records, score)
        found = {name: s for name, s in every.items() if OURS in s and len(s) > 1}  # others ran too
        good = [name for name, of_set in found.items() if standing(of_set)[OURS]]
        paired = [name for name, of_set in found.items() if standing(of_set, paired=True)[OURS]]
        behind = [n for n, s in found.items() if ALONE in s and beats(s[ALONE], s[OURS])]
        share = f" ({len(good) / len(found):.0%})" if found else ""
        lines.append(
            f"- {title}: {OURS} is first or within one standard error on {len(good)} of "
            f"{len(found)} sets{share}; not on {_listed([n for n in found if n not in good])}. "
            f"By the standard error of differences on the same splits, on {len(paired)}; not on "
            f"{_listed([n for n in found if n not in paired])}. "
            f"Behind independent marginals by more than one standard error: {_listed(behind)}."
        )
    gaps = {name: gap(records, name) for name in collect(records, "nll")}
    far = [n for n, value in gaps.items() if value is not None and value > _WITHIN]
    known = sum(value is not None for value in gaps.values())
    lines.append(
        f"- Within {_WITHIN} nats per output of the truth on {known - len(far)} of {known} sets "
        f"whose truth is known; not on {_listed(far)}."
    )
    return "\n".join(lines)


def not_run(records: Sequence[Record]) -> str:
    """Return which methods were skipped or failed, where they never ran afterwards, and why."""
    ran = {(set_name(r), r["method"]) for r in records if "nll" in r}
    reasons: dict[str, list[str]] = defaultdict(list)
    for r in records:
        if "nll" not in r and (set_name(r), r["method"]) not in ran:
            reason = f"{r['method']}: {r.get('skipped') or r['error']}"
            if r["set"] not in reasons[reason]:
                reasons[reason].append(r["set"])
    return "\n".join(f"- Not run, {why} ({', '.join(sets)})" for why, sets in reasons.items())


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"

"""How scores are told; apart from how they are computed, which needs far more to be imported."""

from __future__ import annotations

from typing import Any

from kcdo.commands.console import listed


def told_in_turn(found: dict[str, Any]) -> str:
    """Say how rows of the fit were held out.

    >>> told_in_turn({"others": 20000})
    'of the fit, each foretold by a fit to 20000 others, parameters as chosen'
    >>> told_in_turn({"apart": "groups"})
    'of the fit, each foretold without its group, parameters as chosen'
    """
    how = f"by a fit to {found['others']} others" if found.get("others") else "without it"
    apart = found.get("apart")
    if apart == "groups":
        how = f"{how} of other groups" if found.get("others") else "without its group"
    elif apart == "time":
        how = f"{how} before it" if found.get("others") else "from earlier ones"
    return f"of the fit, each foretold {how}, parameters as chosen"


def _joint_lines(found: dict[str, Any]) -> list[str]:
    """Return lines that tell the joint scores, where there are any."""
    told = {
        "energy_score": ("energy", "distance of joint draws"),
        "variogram_score": ("variogram", "of differences between outputs: their dependence"),
        "dawid_sebastiani_score": ("Dawid-Seb.", "of mean and covariance"),
    }
    unit = "outputs in units of their spread; lower is better"
    lines = [
        f"{name:<10s} {found[key]:>9.4g}   {what}, {unit}"
        for key, (name, what) in told.items()
        if key in found
    ]
    if "rank_histogram" in found:
        shares = " ".join(f"{share:.0%}" for share in found["rank_histogram"])
        lines.append(f"ranks      {shares} of joint outputs in each tenth; 10% if calibrated")
    return lines


def score_lines(found: dict[str, Any]) -> list[str]:
    """Return lines that tell the scores, with their units."""
    unit = f"per unit of {listed(found['crps'])}"
    lines = [
        f"log score  {found['log_score']:>9.4g}   mean log density, {unit}; higher is better",
        f"CDE loss   {found['cde_loss']:>9.4g}   squared error of the density up to a constant, "
        f"{unit}; lower is better",
    ]
    lines += _joint_lines(found)
    for name, value in found["crps"].items():
        lines.append(f"CRPS       {value:>9.4g}   in units of {name}; lower is better")
    for name, shares in found["coverage"].items():
        inside = ", ".join(f"{share:.1%} (of {float(x):.0%})" for x, share in shares.items())
        lines.append(f"coverage   {inside} of {name} inside its intervals")
    if "rows_by_draws" in found:
        lines.append(
            f"by draws   all of these but the log score: of {found['rows_by_draws']} of the rows"
        )
    for name, shares in found.get("conformal", {}).items():
        inside = ", ".join(f"{share:.1%} (of {float(x):.0%})" for x, share in shares.items())
        lines.append(f"conformal  {inside} of {name} inside its calibrated intervals")
    return lines

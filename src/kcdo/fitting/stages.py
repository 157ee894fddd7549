"""How long the stages of a default fit take, each beside the whole."""

# Of the clock, of fits to 300 and to 1000 rows: a guide for progress, no promise.
SHARES = {
    "families": 0.12,
    "metric": 0.18,
    "transform": 0.06,
    "regression": 0.07,
    "conditional mean": 0.01,
    "location and scale": 0.16,
    "plain density": 0.13,
    "smoothed rows": 0.07,
    "weights": 0.17,
    "nearest rows": 0.02,
    "atoms": 0.01,
}

# of several outputs, whose links are fits of one output each
JOINT_SHARES = {"orders": 0.3, "chain": 0.7}

# of a fit to chunks, by the table of costs in docs/large-data.md: sums take 0.9 and 0.6 of the time
PASSES_BY_RULE = {"looking at the chunks": 0.05, "sample of the rows": 0.05, "sums": 0.9}
PASSES = {
    "looking at the chunks": 0.02,
    "sample of the rows": 0.02,
    "near rows": 0.2,
    "near rows again": 0.13,
    "keeping rows": 0.02,
    "sums": 0.47,
    "sums of residuals": 0.14,
}


def pass_shares(selection: str, *, keeps_rows: bool) -> dict[str, float]:
    """Return the passes of a fit to chunks, and the shares of the time that they usually take."""
    if selection != "auto":
        return PASSES_BY_RULE
    return {name: share for name, share in PASSES.items() if keeps_rows or name != "keeping rows"}

"""How long the stages of a default fit take, each beside the whole."""

# Of the clock, of fits to 300 and to 1000 rows: a guide for progress, no promise.
SHARES = {
    "families": 0.12,
    "metric": 0.18,
    "transform": 0.13,
    "conditional mean": 0.01,
    "location and scale": 0.16,
    "plain density": 0.13,
    "smoothed rows": 0.07,
    "weights": 0.17,
    "nearest rows": 0.02,
    "atoms": 0.01,
}

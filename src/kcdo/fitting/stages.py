"""How long the stages of a default fit take, each beside the whole."""

# Of processor time, of fits to 300 and to 1000 rows: a guide for progress, no promise.
SHARES = {
    "families": 0.12,
    "metric": 0.20,
    "transform": 0.09,
    "conditional mean": 0.01,
    "location and scale": 0.12,
    "plain density": 0.24,
    "smoothed rows": 0.03,
    "weights": 0.16,
    "nearest rows": 0.02,
    "atoms": 0.01,
}

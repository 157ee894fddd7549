"""How long the stages of a default fit take, each beside the whole."""

# Of processor time, fits of some hundred to some thousand rows: a guide for progress, no promise.
SHARES = {
    "transform": 0.30,
    "atoms": 0.02,
    "conditional mean": 0.13,
    "location and scale": 0.15,
    "plain density": 0.25,
    "smoothed rows": 0.05,
    "weights": 0.05,
    "nearest rows": 0.05,
}

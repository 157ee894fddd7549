"""Compare models on our data in the protocol of ScoringBench: five folds, seed 42.

    python -m benchmarks.scoringbench.run --sets energy yacht --models kcdo ngboost forest

Data come from the folder of KCDO_DATA. Models whose package is missing are left out.
"""

import argparse
import time
from importlib.util import find_spec

import numpy as np
from sklearn.model_selection import KFold

from benchmarks.scoringbench.kcdo_wrapper import KcdoWrapper
from benchmarks.scoringbench.rivals import RIVALS
from benchmarks.scoringbench.scores import scores
from kcdo.datasets import fetch_uci_regression

FOLDS, SEED, MOST_ROWS = 5, 42, 3000
MODELS = {
    "kcdo": ("kcdo", KcdoWrapper),
    "kcdo-heuristic": ("kcdo", lambda: KcdoWrapper(options={"selection": "heuristic"})),
    **RIVALS,
}


def fold_scores(make, X, y):
    """Return the mean scores of a model over the folds, and its seconds of fitting."""
    found, seconds = [], 0.0
    for train, test in KFold(FOLDS, shuffle=True, random_state=SEED).split(X):
        started = time.perf_counter()
        model = make().fit(X[train], y[train])
        seconds += time.perf_counter() - started
        found.append(scores(model.predict_distribution(X[test]), y[test]))
    means = {name: float(np.mean([fold[name] for fold in found])) for name in found[0]}
    return {**means, "seconds": seconds}


def main():
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=["yacht", "energy"])
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    options = parser.parse_args()
    for name in options.sets:
        data = fetch_uci_regression(name)
        rows = np.random.default_rng(SEED).permutation(len(data.data))[:MOST_ROWS]
        X, y = data.data[rows], data.target[rows]
        print(f"\n{name}, {len(y)} rows")
        header = None
        for model in options.models:
            package, make = MODELS[model]
            if find_spec(package) is None:
                print(f"| {model} | {package} is not installed |")
                continue
            row = fold_scores(make, X, y)
            if header is None:
                header = list(row)
                print("| model |", " | ".join(header), "|")
                print("|---|" + "---|" * len(header))
            print(f"| {model} |", " | ".join(f"{row[key]:.4g}" for key in header), "|", flush=True)


if __name__ == "__main__":
    main()

"""Compare models on our data in the protocol of ScoringBench: five folds, seed 42.

    python -m benchmarks.scoringbench.run --sets energy geyser yacht --models kcdo ngboost forest
    python -m benchmarks.scoringbench.run --sets slump --models kcdo kcdo-marginals forest

Data come from the folder of KCDO_DATA. Models whose package is missing are left out. Sets of
several targets (slump, edm and the others of the joint benchmark) have models of their own.
"""

import argparse
import time
import warnings
from importlib.util import find_spec

import numpy as np
from sklearn.model_selection import KFold

from benchmarks.joint_data import MULAN, joint_set
from benchmarks.joint_rivals import METHODS
from benchmarks.scoringbench.kcdo_wrapper import KcdoEnsembleWrapper, KcdoWrapper
from benchmarks.scoringbench.rivals import RIVALS
from benchmarks.scoringbench.scores import scores, scores_of_draws
from benchmarks.scoringbench.stand_ins import MultivariateSamplePrediction
from kcdo import datasets

FOLDS, SEED, MOST_ROWS = 5, 42, 3000
DRAWS = 500
MODELS = {
    "kcdo": ("kcdo", KcdoWrapper),
    "kcdo-heuristic": ("kcdo", lambda: KcdoWrapper(options={"selection": "heuristic"})),
    **RIVALS,
}


class Draws:
    """A method of the joint benchmark as a model of several targets."""

    def __init__(self, method):
        self.method = METHODS[method]()

    def fit(self, X, Y):
        self.method.fit(X, Y)
        return self

    def predict_ensemble(self, X):
        draws = self.method.sample(X, DRAWS, SEED)
        return MultivariateSamplePrediction(draws, draws.mean(axis=1))


JOINT_MODELS = {name: ("kcdo", lambda name=name: Draws(name)) for name in METHODS} | {
    "kcdo": ("kcdo", lambda: KcdoEnsembleWrapper(DRAWS))
}


def fold_scores(make, X, Y):
    """Return the mean scores of a model over the folds, and the processor seconds of its fits."""
    found, seconds = [], 0.0
    for train, test in KFold(FOLDS, shuffle=True, random_state=SEED).split(X):
        started = time.process_time()
        model = make().fit(X[train], Y[train])
        seconds += time.process_time() - started
        if Y.ndim == 1:
            found.append(scores(model.predict_distribution(X[test]), Y[test]))
        else:
            found.append(scores_of_draws(model.predict_ensemble(X[test]), Y[test]))
    means = {name: float(np.mean([fold[name] for fold in found])) for name in found[0]}
    return {**means, "seconds": seconds}


def load(name):
    """Return inputs (N, p) and targets (N,) or (N, d), at most MOST_ROWS rows."""
    if name in MULAN:
        data = joint_set(name)
        X, Y = data.X, (data.Y - data.Y.mean(axis=0)) / data.Y.std(axis=0)
    else:
        fetch = getattr(datasets, f"fetch_{name}", None)
        data = datasets.fetch_uci_regression(name) if fetch is None else fetch()
        X, Y = data.data, data.target
    rows = np.random.default_rng(SEED).permutation(len(X))[:MOST_ROWS]
    return X[rows], Y[rows]


def main():
    """Print a table for each data set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=["energy", "geyser", "yacht", "slump"])
    parser.add_argument("--models", nargs="+", help="all by default")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # of models that say how they fit
    for name in options.sets:
        X, Y = load(name)
        models = MODELS if Y.ndim == 1 else JOINT_MODELS
        print(f"\n{name}, {len(Y)} rows")
        header = None
        for model in [m for m in options.models or models if m in models]:
            package, make = models[model]
            if find_spec(package) is None:
                print(f"| {model} | {package} is not installed |")
                continue
            row = fold_scores(make, X, Y)
            if header is None:
                header = list(row)
                print("| model |", " | ".join(header), "|")
                print("|---|" + "---|" * len(header))
            print(f"| {model} |", " | ".join(f"{row[key]:.4g}" for key in header), "|", flush=True)


if __name__ == "__main__":
    main()

"""KernelCDE beside regressors of skpro, by the metrics of skpro.

    python -m benchmarks.skpro_regressors

Needs the extra skpro, ngboost, and the data folder of KCDO_DATA. One standard split of each set.
"""

import time
import warnings

import pandas as pd
from skpro.metrics import CRPS, LogLoss
from skpro.regression.ensemble import NGBoostRegressor
from skpro.regression.nonparametric import NadarayaWatsonCDE

from kcdo.adapters.skpro import KernelCDE
from kcdo.datasets import fetch_mcycle, fetch_uci_regression, standard_splits

SETS = {"yacht": lambda: fetch_uci_regression("yacht"), "mcycle": fetch_mcycle}
REGRESSORS = {
    "KernelCDE": KernelCDE,
    "NadarayaWatsonCDE": lambda: NadarayaWatsonCDE(y_kernel="gaussian"),
    "NGBoostRegressor": lambda: NGBoostRegressor(verbose=False),
}


def main():
    """Print a table."""
    warnings.filterwarnings("ignore")
    print("| set | regressor | CRPS | log loss | seconds |\n|---|---|---|---|---|")
    for name, fetch in SETS.items():
        data = fetch()
        X, y = pd.DataFrame(data.data), pd.DataFrame(data.target, columns=["y"])
        train, test = standard_splits(len(X))[0]
        for regressor, make in REGRESSORS.items():
            started = time.perf_counter()
            model = make().fit(X.iloc[train], y.iloc[train])
            proba = model.predict_proba(X.iloc[test])
            truth = y.iloc[test]
            found = [metric()(truth, proba) for metric in (CRPS, LogLoss)]
            seconds = time.perf_counter() - started
            scores = " | ".join(f"{value:.3f}" for value in found)
            print(f"| {name} | {regressor} | {scores} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()

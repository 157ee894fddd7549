"""Density forecasts of traffic by sktime, scored by the CRPS.

Occupancy of a freeway sensor, hour by hour, a day ahead: `KernelCDE` inside sktime's `YfromX`,
beside a regressor of skpro. Needs the extra skpro and the Caltrans data, see docs/datasets.md.

    python examples/ecosystem/sktime_traffic.py
"""

import warnings

import numpy as np
import pandas as pd
from skpro.regression.nonparametric import NadarayaWatsonCDE
from sktime.forecasting.compose import YfromX

import kcdo
from kcdo.adapters.skpro import KernelCDE
from kcdo.datasets import fetch_caltrans_hourly

WEEKS, DAYS = 6, 4  # of training; of forecasts, one day each


def features(time):
    """Time of day on a circle, week-ends, and what was known a day and a week before."""
    hour = 2 * np.pi * time.index.hour / 24
    return pd.DataFrame(
        {
            "sin": np.sin(hour),
            "cos": np.cos(hour),
            "weekend": (time.index.dayofweek >= 5).astype(float),
            "day_before": time.shift(24),
            "week_before": time.shift(24 * 7),
        }
    )


def crps(proba, observed):
    """Mean CRPS of a distribution of skpro: E|Y - y| - E|Y - Y'| / 2."""
    score = proba.energy(observed.to_frame()) - 0.5 * proba.energy()
    return float(score.to_numpy().mean())


def compare(series, regressors, days=DAYS):
    """Return the mean CRPS of each regressor over forecasts of the last days."""
    inputs = features(series).iloc[24 * 7 :]
    series = series.iloc[24 * 7 :]
    found = {name: [] for name in regressors}
    for back in range(days, 0, -1):
        end = len(series) - 24 * (back - 1)
        train, test = slice(0, end - 24), slice(end - 24, end)
        for name, regressor in regressors.items():
            forecaster = YfromX(regressor.clone())
            forecaster.fit(series.iloc[train], X=inputs.iloc[train], fh=range(1, 25))
            proba = forecaster.predict_proba(X=inputs.iloc[test])
            found[name].append(crps(proba, series.iloc[test]))
    return {name: float(np.mean(values)) for name, values in found.items()}


def traffic():
    """Return occupancies of one sensor, in per cent, of the last weeks before a summer."""
    data = fetch_caltrans_hourly(as_frame=True)
    series = pd.Series(100 * data.target.iloc[:, 0].to_numpy(), index=pd.DatetimeIndex(data.time))
    series = series.asfreq("h").loc[:"2015-06-14"]
    return series.iloc[-24 * 7 * (WEEKS + 1) :].rename("occupancy")


def main():
    """Print the CRPS of each regressor."""
    warnings.filterwarnings("ignore")
    rule = kcdo.ConditionalDensityOperator(selection="heuristic")
    regressors = {
        "KernelCDE": KernelCDE(),
        "KernelCDE, heuristic": KernelCDE(rule),
        "NadarayaWatsonCDE": NadarayaWatsonCDE(y_kernel="gaussian"),
    }
    for name, value in compare(traffic(), regressors).items():
        print(f"{name:22} CRPS {value:.3f}")


if __name__ == "__main__":
    main()

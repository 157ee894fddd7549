"""The tables of docs/command-line.md: 2000 rows of traffic, and 1000 more."""

import numpy as np
import pandas as pd


def traffic(n, seed):
    """Flow, hour, weather and day of some rows, and the speed: free or jammed."""
    rng = np.random.default_rng(seed)
    hour = rng.uniform(0, 24, n)
    rush = np.exp(-((hour - 8) ** 2) / 8) + np.exp(-((hour - 17) ** 2) / 8)
    flow = 200 + 1500 * rush * rng.uniform(0.6, 1.1, n) + rng.gamma(4, 40, n)
    weather = rng.choice(["dry", "rain", "snow"], n, p=[0.7, 0.25, 0.05])
    free = 120 - 0.012 * flow - 14 * (weather == "rain") - 38 * (weather == "snow")
    jammed = rng.random(n) < 0.45 / (1 + np.exp((1400 - flow) / 120))
    speed = np.where(jammed, 34, free) + np.where(jammed, 6, 8) * rng.normal(size=n)
    day = np.datetime64("2024-01-01") + np.sort(rng.integers(0, 120, n))
    return pd.DataFrame(
        {
            "day": day,
            "flow": flow.round(),
            "hour": hour.round(2),
            "weather": weather,
            "speed": np.maximum(speed, 1).round(1),
        }
    )


def write_tables(folder):
    """Write ``traffic.csv`` and ``new.csv``."""
    traffic(2000, 0).to_csv(folder / "traffic.csv", index=False)
    traffic(1000, 1).to_csv(folder / "new.csv", index=False)

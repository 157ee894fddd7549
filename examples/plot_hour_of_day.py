"""
The hour of the day
===================

Midnight follows 11 p.m. A periodic kernel knows that, and the densities join at both ends. The data
are a model of a road: free flow most of the time, jams on some days in the rush hours.
"""

import numpy as np
import pandas as pd

import kcdo

rng = np.random.default_rng(0)
n = 1500
hour = rng.uniform(0, 24, n)
weekend = rng.uniform(size=n) < 2 / 7
rush = np.exp(-(((hour - 8) / 1.3) ** 2)) + np.exp(-(((hour - 17.5) / 1.6) ** 2))
jam = ~weekend & (rng.uniform(size=n) < 0.75 * rush)
speed = np.where(jam, 35 + 7 * rng.normal(size=n), 104 - 8 * rush + 5 * rng.normal(size=n))

roads = pd.DataFrame({"hour": hour, "day": pd.Categorical(np.where(weekend, "weekend", "weekday"))})
inputs = kcdo.Periodic(24).on("hour") * kcdo.Categorical().on("day")
model = kcdo.ConditionalDensityOperator(inputs, selection="heuristic", support=(0, None))
model.fit(roads, pd.Series(speed, name="speed (km/h)"))

weekdays = roads["day"] == "weekday"
kcdo.DensityHeatmapDisplay.from_estimator(
    model, roads[weekdays], pd.Series(speed[weekdays], name="speed (km/h)"), feature="hour"
)

# %%
# At 8 a.m. on a weekday, and at the same time on a weekend.

queries = pd.DataFrame({"hour": [3.0, 8.0, 8.0], "day": ["weekday", "weekday", "weekend"]})
kcdo.RidgelineDisplay.from_estimator(
    model,
    queries,
    labels=["3:00, weekday", "8:00, weekday", "8:00, weekend"],
    output_name="speed (km/h)",
)

# %%
# The chance of a jam is a question like any other.

print("P(speed < 60):", model.conditional(queries).cdf([60.0])[:, 0].round(2))

"""Write the model files that later versions must go on loading, and what they predict.

Run it once for each new version of model files, and keep the older files:
``python -m tests.make_model_fixture``.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

import kcdo
from kcdo.persistence.metadata import VERSION

FOLDER = Path(__file__).parent / "data"
STATISTICS = ["mean", "sd", "q05", "q95"]


def traffic(n: int = 80) -> pd.DataFrame:
    """Flow, hour of the day and kind of road, with speed and noise."""
    rng = np.random.default_rng(7)
    flow, hour = rng.uniform(0.0, 2.0, n), rng.uniform(0.0, 24.0, n)
    road = np.where(rng.random(n) < 0.5, "city", "motorway")
    speed = 3.0 - flow + (road == "motorway") + 0.2 * rng.standard_normal(n)
    noise = np.cos(hour / 24.0 * 2.0 * np.pi) + 0.1 * rng.standard_normal(n)
    table = pd.DataFrame({"flow": flow, "hour": hour, "road": road, "speed": speed, "noise": noise})
    return table.astype({"road": "category"})


def queries() -> pd.DataFrame:
    """Inputs at which the predictions are kept."""
    return traffic(200)[["flow", "hour", "road"]].tail(6).reset_index(drop=True)


def streamed() -> kcdo.ConditionalDensityOperator:
    """A model of two outputs with names, categories, periods and the sums of a streamed fit."""
    data = traffic()
    kernel = (
        kcdo.Gaussian(0.5).on("flow")
        * kcdo.Periodic(24.0, 3.0).on("hour")
        * kcdo.Categorical(0.5).on("road")
    )
    model = kcdo.ConditionalDensityOperator(
        kernel,
        reference=kcdo.UniformBox(nodes=(10, 12)),
        solver=kcdo.Nystrom(8),
        selection="heuristic",
    )
    return model.fit(data[["flow", "hour", "road"]], data[["speed", "noise"]])


def automatic() -> kcdo.ConditionalDensityOperator:
    """A combination of all forms, of one output with a bound."""
    data = traffic(40)
    model = kcdo.ConditionalDensityOperator(selection="auto", support=(0.0, None))
    return model.fit(data[["flow", "hour", "road"]], data["speed"])


MODELS = {"": streamed, "-auto": automatic}


def main() -> None:
    """Write a file and its predictions for each model."""
    FOLDER.mkdir(exist_ok=True)
    for suffix, fitted in MODELS.items():
        name = f"model-{VERSION[0]}.{VERSION[1]}{suffix}"
        model = fitted()
        model.save(FOLDER / f"{name}.kcdo")
        table = model.conditional(queries()).to_frame(STATISTICS)
        text = json.dumps(table.to_dict(orient="list"), indent=1)
        (FOLDER / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()

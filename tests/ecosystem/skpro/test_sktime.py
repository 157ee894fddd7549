"""kcdo in sktime: density forecasts by reduction to regression."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import kcdo

pd = pytest.importorskip("pandas")
pytest.importorskip("skpro", reason="needs the extra skpro; make ecosystem runs it")
pytest.importorskip("sktime", reason="needs the extra skpro; make ecosystem runs it")

from sktime.forecasting.compose import YfromX, make_reduction  # noqa: E402

from kcdo.adapters.skpro import KernelCDE, KernelDistribution  # noqa: E402

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.filterwarnings("ignore:::sktime", "ignore:::skpro")


@pytest.fixture(scope="module")
def series():
    """A daily wave, hour by hour, with noise."""
    rng = np.random.default_rng(0)
    hours = pd.date_range("2024-01-01", periods=24 * 12, freq="h")
    wave = np.sin(2 * np.pi * hours.hour / 24) + 0.1 * rng.standard_normal(len(hours))
    return pd.Series(wave, index=hours, name="flow")


REGRESSOR = KernelCDE(kcdo.ConditionalDensityOperator(selection="heuristic"))


def test_direct_reduction_gives_intervals(series):
    train, test = series[:-6], series[-6:]
    forecaster = make_reduction(REGRESSOR, strategy="direct", window_length=12)
    forecaster.fit(train, fh=range(1, 7))
    limits = forecaster.predict_interval(coverage=0.9)
    inside = (limits.iloc[:, 0] <= test) & (test <= limits.iloc[:, 1])
    assert inside.mean() >= 0.5
    assert (limits.iloc[:, 1] - limits.iloc[:, 0]).max() < 1.5  # the wave goes from -1 to 1
    assert np.abs(forecaster.predict() - test).max() < 0.6


def test_forecasts_from_other_series_are_exact_distributions(series):
    hours = pd.DataFrame({"hour": series.index.hour}, index=series.index)
    train, test = slice(0, -24), slice(-24, None)
    forecaster = YfromX(REGRESSOR).fit(series[train], X=hours[train], fh=range(1, 25))
    proba = forecaster.predict_proba(X=hours[test])
    assert isinstance(proba, KernelDistribution)
    crps = proba.energy(series[test].to_frame()) - 0.5 * proba.energy()
    assert float(crps.mean().iloc[0]) < 0.16  # the noise has 0.056


def test_the_traffic_example_compares_forecasts():
    example = runpy.run_path(str(ROOT / "examples/ecosystem/sktime_traffic.py"))
    rng = np.random.default_rng(0)
    hours = pd.date_range("2024-01-01", periods=24 * 7 * 3, freq="h")
    wave = np.sin(2 * np.pi * hours.hour / 24) + 0.1 * rng.standard_normal(len(hours))
    found = example["compare"](pd.Series(wave, hours, name="flow"), {"ours": REGRESSOR}, days=1)
    assert 0.05 < found["ours"] < 0.2  # the noise has 0.056


def test_the_traffic_example_runs_on_the_shared_set(real):
    real(kcdo.datasets.fetch_caltrans_hourly)  # skips where the data are not at hand
    example = runpy.run_path(str(ROOT / "examples/ecosystem/sktime_traffic.py"))
    found = example["compare"](example["traffic"](), {"ours": REGRESSOR}, days=1)
    assert 0.1 < found["ours"] < 1.5  # per cent of occupancy; four days had 0.57

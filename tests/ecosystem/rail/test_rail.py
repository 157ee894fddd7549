"""kcdo in RAIL: stages alone, and in a pipeline of processes."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kcdo

pytest.importorskip("rail.core.stage", reason="needs the extra rail; make ecosystem runs it")

import qp
import tables_io
from rail.core.stage import RailPipeline

from kcdo.adapters.rail import KernelCDEEstimator, KernelCDEInformer

BANDS = ["mag_g_lsst", "mag_r_lsst", "mag_i_lsst"]
OPTIONS = {"selection": "heuristic"}


def catalogue(n, seed):
    rng = np.random.default_rng(seed)
    z = rng.uniform(0.1, 1.5, n)
    magnitudes = {b: 22.0 + (1.0 - 0.4 * k) * z for k, b in enumerate(BANDS)}
    noisy = {b: m + 0.05 * rng.standard_normal(n) for b, m in magnitudes.items()}
    noisy["mag_g_lsst"][:3] = 99.0  # not detected
    return {"photometry": {**noisy, "redshift": z}}


def test_stages_estimate_redshifts():
    train, test = catalogue(150, 0), catalogue(40, 1)
    informer = KernelCDEInformer.make_stage(
        name="inform_kcdo", model="kcdo.pkl", bands=BANDS, fit_options=OPTIONS, output_mode="return"
    )
    model = informer.inform(train)
    assert isinstance(model.data, kcdo.ConditionalDensityOperator)
    estimator = KernelCDEEstimator.make_stage(
        name="estimate_kcdo", model=model, bands=BANDS, output_mode="return", chunk_size=15,
        calculated_point_estimates=["zmean"],
    )  # fmt: skip
    ensemble = estimator.estimate(test).data
    assert ensemble.npdf == 40
    truth = test["photometry"]["redshift"]
    assert np.median(np.abs(ensemble.ancil["zmean"].ravel() - truth)) < 0.1
    assert set(np.ravel(ensemble.ancil["distribution_type"])) == {1}
    grid = np.linspace(0, 3, 301)
    np.testing.assert_allclose(np.trapezoid(ensemble.pdf(grid), grid), 1.0, atol=1e-6)


def test_missing_columns_are_named():
    table = catalogue(20, 0)
    del table["photometry"]["mag_r_lsst"]
    informer = KernelCDEInformer.make_stage(
        name="inform_bad", model="bad.pkl", bands=BANDS, output_mode="return"
    )
    with pytest.raises(KeyError, match="mag_r_lsst"):
        informer.inform(table)


def test_a_pipeline_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, seed in (("train", 0), ("test", 1)):
        tables_io.write(catalogue(120, seed), name, "hdf5")
    pipe = RailPipeline()
    shared = {"bands": BANDS, "hdf5_groupname": "photometry"}
    pipe.inform = KernelCDEInformer.build(aliases={"input": "train"}, fit_options=OPTIONS, **shared)
    pipe.estimate = KernelCDEEstimator.build(
        aliases={"input": "test"}, connections={"model": pipe.inform.io.model}, **shared
    )
    files = {"train": "train.hdf5", "test": "test.hdf5"}
    pipe.initialize(files, {"output_dir": ".", "log_dir": ".", "resume": False}, None)
    pipe.save("pipe.yml")
    programs = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        [programs / "ceci", "pipe.yml"],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    log = "".join(path.read_text() for path in tmp_path.glob("*.out"))
    assert done.returncode == 0, done.stdout + done.stderr + log
    assert qp.read("output_estimate.hdf5").npdf == 120

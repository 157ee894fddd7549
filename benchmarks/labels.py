"""Streamed default fits where one input acts as a label, beside the fit of all rows in memory.

``python -m benchmarks.labels --rows 100000`` prints negative log scores and root mean squared
errors of new rows. A sample of 2,000 rows does not see what the label does; near rows among all
chunks do.
"""

import argparse
import tempfile
import time

import numpy as np

import kcdo

LABELS = 400


def data(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4))
    label = rng.integers(0, LABELS, rows)
    X[:, 0] = (label - LABELS / 2) / 115.0  # sd 1
    values = np.random.default_rng(99).normal(size=LABELS)[label]
    noise = (0.2 + 0.1 * (X[:, 3] > 0)) * rng.normal(size=rows)
    return X, values * (1 + 0.3 * np.tanh(X[:, 1])) + 0.5 * np.sin(X[:, 2]) + noise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--centres", type=int, default=1000)
    parser.add_argument("--chunk-rows", type=int, default=20_000)
    parser.add_argument("--only", nargs="+", default=["stream", "stream, rows kept", "in memory"])
    options = parser.parse_args()
    X, y = data(options.rows, 0)
    starts = range(0, options.rows, options.chunk_rows)
    chunks = [(X[i : i + options.chunk_rows], y[i : i + options.chunk_rows]) for i in starts]
    queries, outputs = data(1500, 1)
    print("| fit | negative log score | RMSE | s |\n|---|---|---|---|")
    for name in options.only:
        solver = "auto" if name == "in memory" else kcdo.Nystrom(options.centres)
        model = kcdo.ConditionalDensityOperator(solver=solver)
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            if name == "in memory":
                model.fit(X, y)
            else:
                model.fit(chunks, rows_at=folder if name == "stream, rows kept" else None)
            seconds = time.perf_counter() - started
            errors = model.predict(queries) - outputs
            score = -model.score(queries, outputs)
        print(f"| {name} | {score:.3f} | {np.sqrt(np.mean(errors**2)):.3f} | {seconds:.0f} |")


if __name__ == "__main__":
    main()

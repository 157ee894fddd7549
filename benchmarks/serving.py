"""Many clients at once: does ``kcdo serve`` answer all, and does its memory stay?

    python -m benchmarks.serving [--clients 50] [--seconds 60]

Prints a sentence with requests, errors, times of answers, and the memory of the server after the
first fifth and at the end.
"""

import argparse
import http.client
import json
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd

import kcdo

JSON = {"Content-Type": "application/json"}


def make_model(path: Path) -> str:
    """Save a small model; return rows of its table as CSV."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(500, 3)).round(3), columns=["a", "b", "c"])
    y = np.sin(X["a"]) + 0.2 * rng.normal(size=500)
    kcdo.ConditionalDensityOperator(selection="heuristic").fit(X, y.rename("y")).save(path)
    return X[:200].to_csv(index=False)


def questions(table: str) -> list[tuple[str, str, dict[str, str]]]:
    at = {"a": {"value": 0.3, "sd": 0.1}, "b": 0.0, "c": 1.0}
    rows = [{"a": i / 10, "b": 0.0, "c": -1.0} for i in range(20)]
    return [
        ("/density", json.dumps({"at": at}), JSON),
        ("/sample", json.dumps({"at": at, "n": 500}), JSON),
        ("/predict", json.dumps({"rows": rows}), JSON),
        ("/predict?stats=mean,q95", table, {"Content-Type": "text/csv"}),
        ("/predict", '{"rows": [', JSON),  # bad ones too
    ]


class Load:
    """Clients that ask until the time is over."""

    def __init__(self, port: int, table: str, end: float) -> None:
        self._port, self._questions, self._end = port, questions(table), end
        self.seconds: list[float] = []
        self.errors: list[str] = []

    def client(self, seed: int) -> None:
        chosen = random.Random(seed)
        while time.monotonic() < self._end:
            path, body, headers = chosen.choice(self._questions)
            expected = 400 if body == '{"rows": [' else 200
            started = time.monotonic()
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
                connection.request("POST", path, body, headers)
                response = connection.getresponse()
                said = response.read()
                connection.close()
                if response.status != expected:
                    self.errors.append(f"{path}: {response.status} {said[:100]!r}")
            except OSError as error:
                self.errors.append(f"{path}: {error}")
            self.seconds.append(time.monotonic() - started)


def memory(pid: int) -> float:
    """Return the resident MB of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model.kcdo")
        table = make_model(model)
        command = [sys.executable, "-m", "kcdo", "serve", str(model), "--port", "0", "--json"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            port = int(re.search(r":(\d+)/", json.loads(server.stdout.readline())["url"])[1])
            load = Load(port, table, time.monotonic() + arguments.seconds)
            threads = [
                threading.Thread(target=load.client, args=[i]) for i in range(arguments.clients)
            ]
            for thread in threads:
                thread.start()
            time.sleep(arguments.seconds / 5)
            early = memory(server.pid)
            for thread in threads:
                thread.join()
            late = memory(server.pid)
        finally:
            server.terminate()
            server.wait()
    median, slow = np.quantile(load.seconds, [0.5, 0.99])
    print(
        f"{arguments.clients} clients for {arguments.seconds:g} s: {len(load.seconds)} requests, "
        f"{len(load.errors)} errors, answers after {median:.2f} s (median) and {slow:.2f} s (99 % "
        f"sooner); memory {early:.0f} MB after a fifth of the time, {late:.0f} MB at the end."
    )
    print(*load.errors[:5], sep="\n")


if __name__ == "__main__":
    main()

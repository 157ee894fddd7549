"""Random problems: data of every kind that users bring, and every option of the estimator.

A problem is described by a few words and numbers, from which its data follow; ``code`` is what to
paste, and a description with fewer rows, columns and options is a smaller problem.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import kcdo

Columns = Callable[[np.random.Generator, np.ndarray], np.ndarray]

INPUTS: dict[str, Columns] = {
    "normal": lambda rng, z: z,
    "ties": lambda rng, z: np.round(z),
    "discrete": lambda rng, z: (z > 0).astype(float),
    "heavy": lambda rng, z: np.sign(z) * np.exp(2 * np.abs(z)),
    "shifted": lambda rng, z: 1e6 + z,
    "constant": lambda rng, z: np.zeros_like(z),
    "collinear": lambda rng, z: 3.0 * z + 1.0,  # of the first column
    "duplicates": lambda rng, z: z[rng.integers(len(z), size=len(z))],
    "outlier": lambda rng, z: np.where(np.arange(len(z)) == 0, 1e4, z),
    "missing": lambda rng, z: np.where((rng.random(len(z)) < 0.2) & (z != z[0]), np.nan, z),
}
OUTPUTS: dict[str, Columns] = {
    "smooth": lambda rng, m: np.sin(m) + 0.2 * rng.normal(size=m.shape),
    "linear": lambda rng, m: m + 0.5 * rng.normal(size=m.shape),
    "two branches": lambda rng, m: rng.choice([-1.0, 1.0], m.shape) * (1 + 0.3 * m),
    "noise that varies": lambda rng, m: np.exp(0.5 * m) * rng.normal(size=m.shape),
    "heavy": lambda rng, m: m + rng.standard_t(2.0, m.shape),
    "discrete": lambda rng, m: np.round(m + rng.normal(size=m.shape)),
    "ties": lambda rng, m: np.round(m + rng.normal(size=m.shape), 1),
    "positive": lambda rng, m: rng.gamma(2.0, np.exp(0.3 * m)),
    "share": lambda rng, m: rng.beta(2.0, 2.0 + np.abs(m)),
    "zeros": lambda rng, m: rng.gamma(1.0, 1.0, m.shape) * (rng.random(m.shape) < 0.7),
    "constant": lambda rng, m: np.ones_like(m),
    "exact": lambda rng, m: m,
}
BOUNDS = {"positive": (0.0, None), "share": (0.0, 1.0), "zeros": (0.0, None)}
WEIGHTS: dict[str, Callable[[np.random.Generator, int], np.ndarray | None]] = {
    "none": lambda rng, n: None,
    "counts": lambda rng, n: rng.integers(1, 4, n).astype(float),
    "fractions": lambda rng, n: rng.uniform(0.2, 2.0, n),
    "some zero": lambda rng, n: np.maximum(rng.integers(-1, 3, n), np.arange(n) < 2).astype(float),
    "unlike": lambda rng, n: 10.0 ** rng.uniform(-6, 3, n),
}
SELECTIONS = ("heuristic", "auto", "paper")
# texts, so that they can be printed and pasted
OPTIONS: dict[str, list[str]] = {
    "kernel_x": [
        "kcdo.Gaussian()", "kcdo.Laplace()", "kcdo.Matern()", "kcdo.Matern(smoothness=2.5)",
        "kcdo.Gaussian(0.7)", "kcdo.Gaussian() + kcdo.Laplace()", "kcdo.Gaussian() * kcdo.Matern()",
        "kcdo.Nugget(kcdo.Gaussian(), 0.1)", "kcdo.Periodic(3.0, 1.0)", "kcdo.Categorical()",
        "kcdo.Warped(kcdo.Gaussian(), (0,), (0.0,), (1.0,))",
    ],
    "kernel_y": ["kcdo.Gaussian()", "kcdo.Laplace()", "kcdo.Matern()"],
    "reference": [
        "kcdo.UniformBox()", "kcdo.UniformBox(nodes=40)", "kcdo.QuasiRandomBox(n_nodes=128)",
        "kcdo.Sample(Y)",
    ],
    "filter": [
        "kcdo.Tikhonov()", "kcdo.IteratedTikhonov(3)", "kcdo.SpectralCutoff()", "kcdo.PrintedForm()"
    ],
    "alpha": ["1e-3", "0.1", "kcdo.PowerScheme()"],
    "alpha_prime": ["1e-3", "0.1"],
    "positivity": ["'clip'", "'signed'"],
    "solver": ["kcdo.Exact()", "kcdo.Nystrom(centers=8)", "kcdo.Iterative(rank=8)"],
    "joint": ["'chain'", "'grid'"],
}  # fmt: skip


@dataclass(frozen=True)
class Problem:
    """What a problem is made of; its data follow from this."""

    seed: int
    rows: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: str = "none"
    frame: str = "array"
    scales: tuple[float, float] = (1.0, 1.0)
    bounded: bool = False
    flat: bool = False
    selection: str = "heuristic"
    options: dict[str, str] = field(default_factory=dict)

    @classmethod
    def random(cls, seed: int) -> "Problem":
        """Return the problem of a seed."""
        rng = np.random.default_rng(seed)

        def pick(values: Any, p: Any = None) -> str:
            return str(rng.choice(list(values), p=p))

        columns = int(rng.choice([1, 2, 3, 5, 12, 60], p=[0.35, 0.25, 0.2, 0.1, 0.05, 0.05]))
        joint = int(rng.choice([1, 2, 3, 4], p=[0.8, 0.12, 0.04, 0.04]))
        kind = pick(OUTPUTS)
        selection = pick(SELECTIONS, [0.6, 0.3, 0.1])
        most = {"heuristic": 5.7, "auto": 4.4, "paper": 4.6}[selection] - 0.6 * (joint > 1)
        chosen = rng.choice(list(OPTIONS), rng.integers(4), replace=False)
        options = {str(name): pick(OPTIONS[str(name)]) for name in chosen}
        if joint == 3 and options.get("kernel_y", "kcdo.Gaussian()") != "kcdo.Gaussian()":
            options["reference"] = "kcdo.UniformBox(nodes=12)"  # by iterations: 64³ take minutes
        scales = tuple(10.0 ** rng.uniform(-100, 100, 2)) if rng.random() < 0.15 else (1.0, 1.0)
        return cls(
            seed,
            int(np.exp(rng.uniform(np.log(2), most))),
            tuple(pick(INPUTS) for _ in range(columns)),
            (kind,) * joint if rng.random() < 0.5 else tuple(pick(OUTPUTS) for _ in range(joint)),
            pick(WEIGHTS, [0.6, 0.1, 0.1, 0.1, 0.1]),
            pick(["array", "pandas", "polars"], [0.7, 0.2, 0.1]),
            scales,
            bool(rng.random() < 0.5),
            joint == 1 and bool(rng.random() < 0.9),
            selection,
            options,
        )

    @property
    def joint(self) -> bool:
        """Whether there are several outputs."""
        return len(self.outputs) > 1

    @property
    def missing(self) -> bool:
        """Whether some inputs may be NaN."""
        return "missing" in self.inputs

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return inputs, outputs and weights."""
        rng = np.random.default_rng([self.seed, 1])
        z = rng.normal(size=(self.rows, len(self.inputs)))
        sources = [0 if kind == "collinear" else i for i, kind in enumerate(self.inputs)]
        parts = zip(self.inputs, sources, strict=True)
        X = np.column_stack([INPUTS[kind](rng, z[:, i]) for kind, i in parts])
        middle = z[:, 0] + 0.3 * z[:, -1]
        Y = np.column_stack([OUTPUTS[kind](rng, middle) for kind in self.outputs])
        x_scale, y_scale = self.scales
        Y = Y[:, 0] if self.flat else Y
        return X * x_scale, Y * y_scale, WEIGHTS[self.weights](rng, self.rows)

    def as_frame(self, X: np.ndarray) -> Any:
        """Return inputs as the problem has them."""
        if self.frame == "array":
            return X
        columns = {f"x{i}": column for i, column in enumerate(X.T)}
        if self.frame == "pandas":
            import pandas as pd

            return pd.DataFrame(columns)
        import polars as pl

        return pl.DataFrame(columns)

    def support(self) -> Any:
        """Return bounds of the outputs, where the problem declares them."""
        if not self.bounded or not set(BOUNDS) & set(self.outputs):
            return None
        pairs = [BOUNDS.get(kind, (None, None)) for kind in self.outputs]
        scaled = [tuple(None if b is None else b * self.scales[1] for b in pair) for pair in pairs]
        return scaled[0] if len(scaled) == 1 else scaled

    def model(self, **more: Any) -> Any:
        """Return the estimator, not yet fitted."""
        names = {"kcdo": kcdo, "Y": self.data()[1]}
        options = {name: eval(text, names) for name, text in self.options.items()}
        options |= {"selection": self.selection, "support": self.support()}
        if self.missing:
            options["missing"] = "marginalise"
        return kcdo.ConditionalDensityOperator(**(options | more))

    def smaller(self) -> Iterator["Problem"]:
        """Yield problems that are simpler in one way."""
        for rows in {self.rows // 2, self.rows - 1} - {0, 1, self.rows}:
            yield replace(self, rows=rows)
        if len(self.inputs) > 1:
            yield replace(self, inputs=self.inputs[: len(self.inputs) // 2])
            yield replace(self, inputs=self.inputs[1:])
        if self.joint:
            yield replace(self, outputs=self.outputs[:-1])
        if self.scales != (1.0, 1.0):
            yield replace(self, scales=(1.0, 1.0))
        for name, plain in (("weights", "none"), ("frame", "array"), ("bounded", False)):
            if getattr(self, name) != plain:
                yield replace(self, **{name: plain})
        for name in self.options:
            rest = {key: text for key, text in self.options.items() if key != name}
            yield replace(self, options=rest)
        if self.selection == "auto":
            yield replace(self, selection="heuristic")
        if set(self.inputs) != {"normal"}:
            yield replace(self, inputs=("normal",) * len(self.inputs))

    def code(self) -> str:
        """Return the problem as code to paste, with its numbers where they are few."""
        X, Y, weights = self.data()
        options = dict(self.options) | {"selection": repr(self.selection)}
        if self.support() is not None:
            options["support"] = repr(self.support())
        if self.missing:
            options["missing"] = repr("marginalise")
        given = ", ".join(f"{name}={text}" for name, text in options.items())
        lines = ["import numpy as np, kcdo", "from numpy import nan", f"# {self!r}"]
        if X.size <= 60:
            arrays = {"X": X, "Y": Y} | ({} if weights is None else {"weights": weights})
            lines += [f"{name} = np.array({array.tolist()})" for name, array in arrays.items()]
        else:
            lines += ["from tests.fuzz.problems import Problem", f"X, Y, weights = {self!r}.data()"]
        fit = "X, Y" if weights is None else "X, Y, weights"
        return "\n".join([*lines, f"model = kcdo.ConditionalDensityOperator({given}).fit({fit})"])

"""Queries typed on the command line: ``flow=1200±50,hour=8``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from kcdo.arrays import Array
from kcdo.commands.console import listed
from kcdo.commands.errors import UsageError
from kcdo.commands.models import Model
from kcdo.commands.naming import check_names
from kcdo.distributions import ConditionalDistribution
from kcdo.inputs import GaussianInput, SampleInput
from kcdo.kernels.expectation import gaussian_draws

_PLUS_MINUS = re.compile(r"±|\+/?-")
_TAIL = 0.001  # a grid reaches to these quantiles, and a bit beyond
_MARGIN = 0.1
_FAR = 3.0  # times the usual distance between training rows, beyond which there is a note


@dataclass(frozen=True)
class Query:
    """Values of the inputs, with standard deviations where they are uncertain."""

    text: str
    values: dict[str, Any]
    sds: dict[str, float]

    @classmethod
    def parse(cls, text: str, model: Model, *, partly: bool = False) -> Query:
        """Read a query such as ``flow=1200±50,hour=8``.

        It must give every input a value, unless a slice holds some inputs only.
        """
        raw: dict[str, str] = {}
        for name, value in _assignments(text, model):
            if name in raw:
                raise UsageError(f"--at {text}: {name} has two values.")
            raw[name] = value
        check_names(list(raw), model.given, "the model", "--at")
        absent = [name for name in model.given if name not in raw]
        if absent and not partly:
            raise UsageError(f"--at {text}: the model also needs a value of {listed(absent)}.")
        parsed = {name: _value(name, raw[name], model) for name in model.given if name in raw}
        sds = {name: sd for name, (_, sd) in parsed.items() if sd > 0}
        return cls(text, {name: value for name, (value, _) in parsed.items()}, sds)

    def notes(self, model: Model) -> list[str]:
        """Say how far the query is outside the training rows, where it is."""
        seen = model.training
        if seen is None:
            return []
        numbers = [
            name
            for name in self.values
            if name not in model.categories and name not in model.periods
        ]
        ranges = {name: (seen.lower[i], seen.upper[i]) for i, name in enumerate(model.given)}
        found = [_beyond(name, self.values[name], *ranges[name]) for name in numbers]
        if not any(found) and len(self.values) == len(model.given):
            far = float(seen.novelty(model.codes(pd.DataFrame([self.values])))[0])
            if far > _FAR:
                return [
                    f"no training row is near {self.text}: the nearest is {far:.3g} times as far "
                    "as they usually are from one another."
                ]
        return [note for note in found if note]

    def words(self) -> str:
        """Return the query as words that can be broken into lines."""
        return ", ".join(
            f"{name} = {_number(value)}"
            + (f" ± {_number(self.sds[name])}" if name in self.sds else "")
            for name, value in self.values.items()
        )

    def distribution(self, model: Model) -> ConditionalDistribution:
        """Return the distribution of the targets given this query."""
        if not self.sds:
            frame = pd.DataFrame({name: [value] for name, value in self.values.items()})
            return model.estimator.conditional(model.inputs(frame))
        numeric = [name for name in model.given if name not in model.categories]
        gaussian = GaussianInput(
            np.array([[self.values[name] for name in numeric]]),
            np.array([self.sds.get(name, 0.0) ** 2 for name in numeric]),
        )
        if not model.categories:
            return model.estimator.conditional(gaussian)
        # a Gaussian has no place for labels: points drawn from it do, each with the same labels
        draws = gaussian_draws(gaussian)[0]
        points = np.empty((len(draws), len(model.given)), dtype=object)
        for i, name in enumerate(model.given):
            known = model.categories.get(name)
            points[:, i] = known[self.values[name]] if known else draws[:, numeric.index(name)]
        return model.estimator.conditional(SampleInput([points]))


def grid_points(dists: list[ConditionalDistribution], n: int, d: int) -> Array:
    """Return a grid, (n,) or (n^d, d), over nearly all the mass of all distributions."""
    tails = np.array([dist.quantile([_TAIL, 1 - _TAIL]) for dist in dists]).reshape(-1, 2, d)
    lower, upper = tails[:, 0].min(axis=0), tails[:, 1].max(axis=0)
    margin = _MARGIN * (upper - lower)
    axes = np.linspace(lower - margin, upper + margin, n).T
    if d == 1:
        return axes[0]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)


def columns_of(names: list[str], points: Array) -> dict[str, Array]:
    """Return points, (n,) or (n, d), as named columns."""
    return dict(zip(names, points.reshape(len(points), -1).T, strict=True))


def _beyond(name: str, value: float, low: float, high: float) -> str:
    """Say how far a value lies outside a range; nothing if it does not."""
    beyond = max(low - value, value - high)
    if beyond <= 0:
        return ""
    end = f"below the smallest, {low:g}," if value < low else f"above the largest, {high:g},"
    share = f" ({beyond / (high - low):.3g} times their range)" if high > low else ""
    return f"{name}={value:g} is {beyond:.4g} {end} of the training rows{share}."


def _assignments(text: str, model: Model) -> list[tuple[str, str]]:
    """Return names and values; names that the model knows may have commas and equals signs."""
    known = "|".join(map(re.escape, sorted(model.given, key=len, reverse=True)))
    starts = list(re.finditer(rf"(?:^|,)\s*({known}|[^,=]+?)\s*=", text))
    places = [*(start.start() for start in starts), len(text)]
    pairs = [(s[1], text[s.end() : e].strip()) for s, e in zip(starts, places[1:], strict=True)]
    if places[0] > 0 or not all(value for _, value in pairs):
        raise UsageError(
            f"--at takes values such as {_example(model)}; got {text[: places[0]] or text!r}."
        )
    return pairs


def _value(name: str, text: str, model: Model) -> tuple[Any, float]:
    """Return a value and its standard deviation, 0 where it is certain."""
    if name in model.categories:
        known = list(model.categories[name])
        if text not in known:
            raise UsageError(f"--at {name}={text}: the model knows {listed(known)}.")
        return text, 0.0
    value, *spread = _PLUS_MINUS.split(text, maxsplit=1)
    try:
        number, sd = float(value), float(spread[0]) if spread else 0.0
    except ValueError:
        number = sd = float("nan")
    if not (np.isfinite(number) and 0 <= sd < np.inf):
        raise UsageError(f"--at {name}={text}: give a number, such as 1200, 1200±50 or 1200+-50.")
    return number, sd


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _example(model: Model) -> str:
    return ",".join(
        f"{name}={next(iter(model.categories[name])) if name in model.categories else 1}"
        for name in model.given[:3]
    )

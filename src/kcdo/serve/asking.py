"""Questions in JSON, and their answers: densities and draws at some inputs, rows to predict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from kcdo.commands.answers import Answers
from kcdo.commands.columns import Place, with_numbers
from kcdo.commands.console import listed
from kcdo.commands.models import Model
from kcdo.commands.naming import Role, check_names
from kcdo.commands.queries import Query, columns_of, grid_points
from kcdo.distributions import ConditionalDistribution
from kcdo.errors import InvalidInputError
from kcdo.frames import category_text
from kcdo.serve.limits import Limits, RequestError

STATS = ["mean", "sd", "q05", "q50", "q95"]
_QUANTILES = ["q05", "q25", "q50", "q75", "q95"]
_GRIDS = {1: (200, 5000), 2: (50, 400)}  # values of each target: by default, at most


@dataclass(frozen=True)
class FrameChunk:
    """Rows of a request, as tables of files give them."""

    data: pd.DataFrame
    place: Place

    def frame(self, roles: dict[str, Role]) -> pd.DataFrame:
        """Return columns, those that must be numeric as floats."""
        return with_numbers(self.data[list(roles)], roles, self.place)


def rows_of(body: dict[str, Any], model: Model, limits: Limits) -> FrameChunk:
    """Return the rows in ``{"rows": [{"flow": 1200, "hour": 8}, ...]}``."""
    rows = body.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InvalidInputError('"rows" must be a list of objects, such as {"rows": [{"x": 1}]}.')
    if not rows:
        raise InvalidInputError('"rows" is empty: there is nothing to predict.')
    limits.check_rows(len(rows))
    known = [*model.given, *model.targets]
    for name in dict.fromkeys(name for row in rows for name in row):
        check_names([name], known, "the model")
    frame = pd.DataFrame(rows)
    for name in frame:
        column = frame[name]
        odd = [v for v in column if isinstance(v, dict | list | bool)]
        if odd:
            raise InvalidInputError(f"{name!r} must have a number or a text, not {odd[0]!r:.60}.")
    return FrameChunk(frame, Place("the request", 1))


def answers_of(body: dict[str, Any], model: Model) -> Answers:
    """Return what is asked about each row: ``stats``, and levels of ``conformal`` intervals."""
    stats, levels = body.get("stats", STATS), body.get("conformal", [])
    levels = levels if isinstance(levels, list) else [levels]
    if not isinstance(stats, list) or not all(isinstance(stat, str) for stat in stats):
        raise InvalidInputError('"stats" must be a list of texts, such as ["mean", "q95"].')
    return Answers(model, stats, True, [str(level) for level in levels])


def query_of(body: dict[str, Any], model: Model) -> Query:
    """Return the query in ``{"at": {"flow": {"value": 1200, "sd": 50}, "hour": 8}}``."""
    at = body.get("at")
    if not isinstance(at, dict):
        raise InvalidInputError('"at" must be an object with a value of every input.')
    check_names(list(at), model.given, "the model")
    absent = [name for name in model.given if name not in at]
    if absent:
        raise InvalidInputError(f'"at" also needs a value of {listed(absent)}.')
    found = {name: _value(name, at[name], model) for name in model.given}
    text = ",".join(_text(name, *pair) for name, pair in found.items())
    sds = {name: sd for name, (_, sd) in found.items() if sd > 0}
    return Query(text, {name: value for name, (value, _) in found.items()}, sds)


def density(body: dict[str, Any], model: Model) -> dict[str, Any]:
    """Return the density of one target, or of two jointly, on a grid, with a summary of each."""
    query = query_of(body, model)
    targets, dist = _marginal(body, model, query.distribution(model))
    d = len(targets)
    usual, most = _GRIDS[d]
    side = body.get("grid", usual)
    if isinstance(side, bool) or not isinstance(side, int) or not 2 <= side <= most:
        raise InvalidInputError(f'"grid" must be a whole number from 2 to {most}; got {side!r}.')
    points = grid_points([dist], side, d)
    axes = columns_of(targets, points)
    heights = dist.pdf(points)[0]
    if d == 2:
        first, second = (np.unique(values) for values in axes.values())
        axes = dict(zip(targets, (first, second), strict=True))
        heights = heights.reshape(len(first), len(second))
    return {
        "at": body["at"],
        "notes": query.notes(model),
        "targets": targets,
        "values": axes,
        "density": heights,
        "summary": _summaries(targets, dist),
    }


def sample(body: dict[str, Any], model: Model, limits: Limits) -> dict[str, Any]:
    """Return draws of the targets."""
    n, seed = body.get("n", 1000), body.get("seed", 0)
    for name, value, least in (("n", n, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidInputError(f'"{name}" must be a whole number of {least} or more.')
    limits.check_rows(n, "draws")
    query = query_of(body, model)
    draws = query.distribution(model).sample(n, np.random.default_rng(seed))[0]
    return {"at": body["at"], "notes": query.notes(model), **columns_of(model.targets, draws)}


def _marginal(
    body: dict[str, Any], model: Model, dist: ConditionalDistribution
) -> tuple[list[str], ConditionalDistribution]:
    """Return the targets that are asked for, one or two, and their distribution."""
    asked = body.get("target", model.targets if len(model.targets) <= 2 else model.targets[0])
    names = asked if isinstance(asked, list) else [asked]
    if not names or not all(isinstance(name, str) for name in names) or len(names) > 2:
        raise InvalidInputError('"target" must be the name of one target, or a list of two.')
    check_names(names, model.targets, "the model")
    if len(set(names)) < len(names):
        raise InvalidInputError(f'"target" names {names[0]!r} twice.')
    if model.flat or names == model.targets:
        return names, dist
    places = [model.targets.index(name) for name in names]
    return names, dist.marginal(places if len(places) > 1 else places[0])


def _summaries(targets: list[str], dist: ConditionalDistribution) -> dict[str, dict[str, Any]]:
    found = dist.summary(["mean", "sd", *_QUANTILES])
    each: dict[str, dict[str, Any]] = {
        target: {stat: np.ravel(values)[i] for stat, values in found.items()}
        for i, target in enumerate(targets)
    }
    if len(targets) == 1:
        each[targets[0]]["modes"] = dist.modes()[0].places
    return each


def _value(name: str, given: Any, model: Model) -> tuple[Any, float]:
    """Return a value and its standard deviation, 0 where it is certain."""
    value, sd = given, 0.0
    if isinstance(given, dict):
        if not {"value"} <= set(given) <= {"value", "sd"}:
            raise InvalidInputError(f'{name!r} takes {{"value": 1200, "sd": 50}}; got {given!r}.')
        value, sd = given["value"], given.get("sd", 0.0)
    if name in model.categories:
        text = category_text(value)
        if text not in model.categories[name] or sd != 0.0:
            known = listed(sorted(model.categories[name]))
            raise InvalidInputError(f"{name!r} must be one of {known}; got {given!r:.60}.")
        return text, 0.0
    if not (_is_number(value) and _is_number(sd) and sd >= 0):
        raise InvalidInputError(
            f'{name!r} must be a number, or {{"value": 1200, "sd": 50}}; got {given!r:.60}.'
        )
    return float(value), float(sd)


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def _text(name: str, value: Any, sd: float) -> str:
    if isinstance(value, str):
        return f"{name}={value}"
    return f"{name}={value:g}±{sd:g}" if sd else f"{name}={value:g}"


def as_object(body: Any) -> dict[str, Any]:
    """Return the body of a request, which must be an object."""
    if not isinstance(body, dict):
        raise RequestError(400, "the body must be a JSON object, such as {}.")
    return body

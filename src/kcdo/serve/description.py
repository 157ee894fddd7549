"""What the server says of itself: the inputs for the page, and OpenAPI for programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from kcdo._version import __version__
from kcdo.commands.models import Model
from kcdo.serve.asking import STATS
from kcdo.serve.limits import Limits
from kcdo.serve.tables import TABLES


def model_facts(model: Model, name: str) -> dict[str, Any]:
    """Return inputs with their ranges and usual values, targets, and whether it is calibrated."""
    return {
        "name": name,
        "kcdo": __version__,
        "targets": model.targets,
        "inputs": [_input(model, i) for i in range(len(model.given))],
        "calibrated": model.calibrated is not None,
    }


def _input(model: Model, i: int) -> dict[str, Any]:
    name, seen = model.given[i], model.training
    if name in model.categories:
        labels = list(model.categories[name])
        most = 0 if seen is None else int(np.bincount(seen.points[:, i].astype(int)).argmax())
        return {"name": name, "kind": "category", "labels": sorted(labels), "usual": labels[most]}
    found: dict[str, Any] = {"name": name, "kind": "number", "usual": 0.0}
    if seen is not None:
        low, high = float(seen.lower[i]), float(seen.upper[i])
        usual = float(np.median(seen.points[:, i]))
        found |= {"usual": usual, "lower": low, "upper": high}
    return found | ({"period": model.periods[name]} if name in model.periods else {})


def openapi(model: Model, name: str, limits: Limits, *, token: bool) -> dict[str, Any]:
    """Return a description of the requests in OpenAPI 3.1, with this model's columns."""
    inputs = {n: _schema(model, n, uncertain=True) for n in model.given}
    at = {"type": "object", "required": model.given, "properties": inputs}
    columns = {n: _schema(model, n) for n in model.given}
    columns |= {n: {"type": "number"} for n in model.targets}
    row = {"type": "object", "properties": columns}
    rows = {"type": "array", "minItems": 1, "maxItems": limits.rows, "items": row}
    target = {"enum": model.targets}
    one_or_two = {"oneOf": [target, {"type": "array", "items": target, "maxItems": 2}]}
    whole = {"type": "integer", "minimum": 0}
    stats = {"type": "array", "items": {"type": "string"}, "default": STATS}
    levels = {"type": "array", "items": {"type": "number"}, "default": []}
    predict = {"rows": rows, "stats": stats, "conformal": levels}
    paths = {
        "/predict": _post("Statistics of each row", ["rows"], predict, tables=True),
        "/density": _post(
            "Density of one or two targets on a grid",
            ["at"],
            {"at": at, "target": one_or_two, "grid": {"type": "integer", "minimum": 2}},
        ),
        "/sample": _post("Draws of the targets", ["at"], {"at": at, "n": whole, "seed": whole}),
        "/model": _get("Inputs, targets and their ranges"),
        "/health": _get("Whether the server is up"),
    }
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": f"kcdo: {name}", "version": __version__},
        "paths": paths,
    }
    if token:
        bearer = {"type": "http", "scheme": "bearer"}
        described["components"] = {"securitySchemes": {"token": bearer}}
        described["security"] = [{"token": []}]
    return described


def _schema(model: Model, name: str, *, uncertain: bool = False) -> dict[str, Any]:
    if name in model.categories:
        return {"enum": sorted(model.categories[name])}
    number = {"type": "number"}
    if not uncertain:
        return number
    spread = {"value": number, "sd": {"type": "number", "minimum": 0}}
    return {"oneOf": [number, {"type": "object", "required": ["value"], "properties": spread}]}


def _post(
    summary: str, required: list[str], properties: dict[str, Any], *, tables: bool = False
) -> dict[str, Any]:
    schema = {"type": "object", "required": required, "properties": properties}
    contents: dict[str, Any] = {"application/json": {"schema": schema}}
    contents |= {kind: {} for kind in TABLES} if tables else {}
    found: dict[str, Any] = {
        "summary": summary,
        "requestBody": {"required": True, "content": contents},
        "responses": _responses(list(contents)),
    }
    if tables:  # whose body has no place for what is asked
        found["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string"}}
            for name in ("stats", "conformal")
        ]
    return {"post": found}


def _get(summary: str) -> dict[str, Any]:
    return {"get": {"summary": summary, "responses": _responses(["application/json"])}}


def _responses(kinds: list[str]) -> dict[str, Any]:
    said = {"type": "object", "properties": {"error": {"type": "string"}}}
    refused = {"application/json": {"schema": said}}
    reasons = {
        "400": "The request is wrong; the message says how",
        "401": "The token is missing or wrong",
        "413": "More rows or bytes than one request may have",
        "415": "A body of another kind",
        "503": "It would take too long",
    }
    answer = {"description": "The answer", "content": {kind: {} for kind in kinds}}
    return {"200": answer} | {
        code: {"description": text, "content": refused} for code, text in reasons.items()
    }

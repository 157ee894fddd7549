"""``kcdo.toml`` in the working folder: default options, which those of the command line replace."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from kcdo.commands.console import csv_line, listed
from kcdo.commands.errors import UsageError

FILE = "kcdo.toml"
_NOT_HERE = ("force", "help", "version")  # what may do harm is asked for each time


def default_options(context: Any) -> dict[str, Any]:
    """Return the defaults of the command that a context of typer calls, by its parameters."""
    commands, invoked = context.command.commands, context.invoked_subcommand
    path = Path(FILE)
    if not path.is_file():
        return {}
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{FILE} cannot be read: {error}.") from error
    tables = {name: value for name, value in found.items() if isinstance(value, dict)}
    shared = {name: value for name, value in found.items() if name not in tables}
    known = {name: _options(command) for name, command in commands.items()}
    for name, options in tables.items():
        if name not in known:
            raise UsageError(f"{FILE}: there is no command [{name}]; {_near(name, list(known))}")
        for option in options:
            _check(option, known[name], f"[{name}]")
    every = {option: parameter for each in known.values() for option, parameter in each.items()}
    for option in shared:
        _check(option, every, "any command")
    mine = known.get(invoked, {})
    chosen = {_dashed(o): v for o, v in shared.items() if _dashed(o) in mine}
    chosen |= {_dashed(option): value for option, value in tables.get(invoked, {}).items()}
    return {mine[o].name: _text(mine[o], o, value, context) for o, value in chosen.items()}


def _options(command: Any) -> dict[str, Any]:
    """Return the parameters of a command by the long names of their options."""
    found = {}
    for parameter in command.params:
        for option in (o for o in parameter.opts if o.startswith("--")):
            found[option.removeprefix("--")] = parameter
    return {name: p for name, p in found.items() if name not in _NOT_HERE}


def _check(option: str, known: dict[str, Any], where: str) -> None:
    if _dashed(option) not in known:
        hint = _near(_dashed(option), list(known))
        if option in _NOT_HERE:
            hint = "it is given on the command line only."
        raise UsageError(f"{FILE}: {option} is no option of {where} that can be set; {hint}")


def _near(name: str, known: list[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"there are {listed(known, most=30)}."


def _dashed(option: str) -> str:
    return option.replace("_", "-")


def _text(parameter: Any, option: str, value: Any, context: Any) -> Any:
    """Return a value as it would stand on the command line, if it could."""
    flag = bool(getattr(parameter, "is_flag", False))
    parts = value if isinstance(value, list) else [value]
    if any(isinstance(part, bool) is not flag or isinstance(part, dict | list) for part in parts):
        kind = "true or false" if flag else "a text, a number, or a list of these"
        raise UsageError(f"{FILE}: {option} takes {kind}; got {value!r}.")
    if flag:
        return value
    texts = [str(part) for part in parts]
    text = texts if parameter.multiple else texts[0] if len(texts) == 1 else csv_line(texts)
    try:
        parameter.process_value(context, text)
    except Exception as error:
        # typer raises its own copy of click's exceptions, or click's, depending on its version
        if not hasattr(error, "format_message"):
            raise
        raise UsageError(f"{FILE}: {option} = {value!r}: {error.format_message()}") from error
    return text

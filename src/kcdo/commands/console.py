"""What a command says: answers on standard output, everything else on standard error."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kcdo.commands.errors import UsageError
from kcdo.progress import Progress

DIGITS = "%.8g"  # of the numbers in files


class Console:
    """What one command prints, and where.

    Parameters
    ----------
    quiet : bool
        Say nothing but errors, and answers that were asked for.
    as_json : bool
        Answer in JSON.
    """

    def __init__(self, quiet: bool = False, as_json: bool = False) -> None:
        self.quiet = quiet
        self.as_json = as_json
        self._warned: set[str] = set()
        self._diverted = False

    def leave_stdout(self) -> None:
        """Keep standard output free for a file: what was done is told on standard error."""
        if self.as_json:
            raise UsageError("--json tells on standard output what was written: give -o a name.")
        self._diverted = True

    def result(self, text: str, data: dict[str, Any]) -> None:
        """Tell what was done: as text, or as JSON."""
        if self.as_json:
            self.json(data)
        elif not self.quiet:
            print(text, file=sys.stderr if self._diverted else sys.stdout)

    def json(self, data: Any) -> None:
        """Print an answer as JSON, whose numbers are finite or null."""
        sys.stdout.write(json_line(data))

    def note(self, text: str) -> None:
        """Mention something on the side."""
        if not self.quiet:
            to_stderr(text)

    def warning(self, message: Warning | str, *_: Any) -> None:
        """Show a warning as one line, once; in place of ``warnings.showwarning``."""
        text = one_line(str(message))
        if text not in self._warned:
            self._warned.add(text)
            self.note(f"Warning: {text}")

    @contextmanager
    def progress(self, text: str, total: float | None) -> Iterator[Callable[[float], None]]:
        """Show a bar with the time left, or without ``total`` the time gone; yield what moves it.

        Without a terminal, work that takes long gets one line.
        """
        if self.quiet or not sys.stderr.isatty():
            with Progress(verbose=not self.quiet).stage(text):
                yield lambda done: None
            return
        from rich.console import Console as Terminal
        from rich.progress import Progress as Bar
        from rich.progress import TimeElapsedColumn

        columns = (*Bar.get_default_columns(), TimeElapsedColumn())
        with Bar(*columns, console=Terminal(stderr=True), transient=True) as bar:
            task = bar.add_task(text, total=total)
            yield lambda done: bar.update(task, completed=done)


def to_stderr(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr)


def one_line(text: str) -> str:
    r"""Return a message without line breaks.

    >>> one_line("too\n  long")
    'too long'
    """
    return " ".join(text.split())


def json_line(data: Any) -> str:
    """Return data as one line of JSON, whose numbers are finite or null."""
    return json.dumps(as_plain(data), ensure_ascii=False, allow_nan=False) + "\n"


def as_plain(value: Any) -> Any:
    """Return numbers, texts and their containers as JSON has them: no infinity, no arrays.

    >>> as_plain({"score": float("-inf"), "n": [1, 2.5]})
    {'score': None, 'n': [1, 2.5]}
    """
    if isinstance(value, dict):
        return {str(key): as_plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return as_plain(value.tolist())
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return value if value is None or isinstance(value, str | int) else str(value)


def listed(names: Any, most: int = 10) -> str:
    """Return names as a short list.

    >>> listed("abc")
    'a, b, c'
    >>> listed("abcd", most=2)
    'a, b, ... (4)'
    """
    known = [str(name) for name in names]
    return (
        ", ".join(known) if len(known) <= most else f"{', '.join(known[:most])}, ... ({len(known)})"
    )


def size_text(n: int) -> str:
    """Return a size in bytes in the unit that suits it.

    >>> size_text(800), size_text(34_400), size_text(1_250_000), size_text(3_000_000_000)
    ('0.8 kB', '34 kB', '1.2 MB', '3.0 GB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if n >= unit:
            return f"{n / unit:.1f} {name}"
    return f"{n / 1e3:.0f} kB" if n >= 10_000 else f"{n / 1e3:.1f} kB"


def counted(number: int, thing: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "row"), counted(12000, "row")
    ('1 row', '12000 rows')
    """
    return f"{number} {thing}{'' if number == 1 else 's'}"


def csv_line(fields: list[Any], delimiter: str = ",") -> str:
    """Return a line of CSV without its end.

    >>> csv_line(["a,b", 1])
    '"a,b",1'
    """
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="").writerow(fields)
    return out.getvalue()

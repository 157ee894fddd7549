"""How numbers and fields are written in a table of text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from kcdo.arrays import Array
from kcdo.commands.console import DIGITS
from kcdo.commands.errors import UsageError

_NAMED = {"tab": "\t", r"\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "point": "."}
_WITH_EXPONENT = r"\s*[+-]?(\d+(\.\d*)?|\.\d+)[eE][+-]?\d+\s*"


@dataclass(frozen=True)
class Style:
    """The characters of a table of text.

    Attributes
    ----------
    sep : str or None
        Between fields; None where the file is to show it.
    decimal : str
        Before the fraction of a number.
    thousands : str or None
        Between groups of three digits.
    """

    sep: str | None = None
    decimal: str = "."
    thousands: str | None = None

    @classmethod
    def of(cls, sep: str | None, decimal: str, thousands: str | None) -> Style:
        """Return the style that the options of a command ask for.

        >>> Style.of("semicolon", "comma", ".")
        Style(sep=';', decimal=',', thousands='.')
        """
        options = {"--sep": sep, "--decimal": decimal, "--thousands": thousands}
        found = {name: _NAMED.get(x, x) if x else x for name, x in options.items()}
        for name, text in found.items():
            if text is not None and (len(text) != 1 or text in '"\r\n0123456789+-eE'):
                raise UsageError(f"{name} takes one character, such as ; or tab; got {text!r}.")
        if found["--decimal"] not in (".", ","):
            raise UsageError(f"--decimal is . or , and not {decimal!r}.")
        if found["--decimal"] == found["--thousands"]:
            raise UsageError("--decimal and --thousands must differ.")
        return cls(found["--sep"], str(found["--decimal"]), found["--thousands"])

    def options(self) -> list[str]:
        """Return the options that ask for this style.

        >>> Style(";", ",").options()
        ['--sep', ';', '--decimal', ',']
        """
        return [
            *(["--sep", "tab" if self.sep == "\t" else self.sep] if self.sep else []),
            *(["--decimal", self.decimal] if self.decimal != "." else []),
            *(["--thousands", self.thousands] if self.thousands else []),
        ]

    @property
    def plain(self) -> bool:
        """Whether numbers are written as Python does."""
        return self.decimal == "." and self.thousands is None

    def parsed(self, texts: pd.Series) -> Array:
        """Return texts as numbers, NaN where they are none."""
        if self.plain:
            return _floats(texts)
        known = texts.where(texts.notna(), "").astype(str).str.strip()
        # what stands in other places than a number has it, 1.5 with --thousands . say, is none
        valid = known.str.fullmatch(self._pattern(), flags=re.IGNORECASE).to_numpy(dtype=bool)
        if self.thousands is not None:
            known = known.str.replace(self.thousands, "", regex=False)
        found = _floats(known.str.replace(self.decimal, ".", regex=False))
        return np.where(valid, found, np.nan)

    def _pattern(self) -> str:
        groups = rf"\d{{1,3}}({re.escape(self.thousands)}\d{{3}})+|" if self.thousands else ""
        point = re.escape(self.decimal)
        return rf"[+-]?((({groups}\d+)({point}\d*)?|{point}\d+)(e[+-]?\d+)?|inf(inity)?)"

    def formatted(self, values: NDArray[Any]) -> list[str]:
        """Return numbers as they are written in a field; nothing for NaN."""
        texts = ["" if np.isnan(value) else DIGITS % value for value in values]
        return texts if self.decimal == "." else [t.replace(".", self.decimal) for t in texts]


PLAIN = Style()


def _floats(texts: pd.Series) -> Array:
    numbers = pd.to_numeric(texts, errors="coerce")
    found = np.array(numbers.to_numpy(dtype=float, na_value=np.nan))
    # some versions of pandas take a number that is too large for a text
    huge = texts.astype(str).str.fullmatch(_WITH_EXPONENT).to_numpy(dtype=bool) & np.isnan(found)
    found[huge] = [float(text) for text in texts[huge]]
    return found

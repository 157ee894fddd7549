"""Words of a report: names with their units, numbers, and JSON that cannot become markup."""

import json
import math
import re
from typing import Any

_BRACKETED = re.compile(r"(?P<label>.*\S)\s*(?:\[(?P<square>[^\[\]]+)\]|\((?P<round>[^()]+)\))\s*")

# Endings that are units and hardly ever anything else; "_m", "_s" or "_min" mean too many things.
_SUFFIXES = {
    "cm": "cm",
    "days": "days",
    "degc": "°C",
    "degf": "°F",
    "eur": "EUR",
    "ft": "ft",
    "ghz": "GHz",
    "hours": "h",
    "hpa": "hPa",
    "hz": "Hz",
    "kg": "kg",
    "khz": "kHz",
    "km": "km",
    "kmh": "km/h",
    "kpa": "kPa",
    "kw": "kW",
    "kwh": "kWh",
    "mg": "mg",
    "mhz": "MHz",
    "minutes": "min",
    "ml": "ml",
    "mm": "mm",
    "mph": "mph",
    "ms": "ms",
    "mwh": "MWh",
    "pct": "%",
    "percent": "%",
    "seconds": "s",
    "usd": "USD",
    "years": "years",
}


def split_unit(name: str) -> tuple[str, str]:
    """Return a column's name without its unit, and the unit, "" if the name carries none.

    A unit stands at the end, in brackets or parentheses, or as one of a few endings.

    Examples
    --------
    >>> split_unit("speed [km/h]"), split_unit("temp (K)"), split_unit("rain_mm")
    (('speed', 'km/h'), ('temp', 'K'), ('rain', 'mm'))
    >>> split_unit("temp_min")
    ('temp_min', '')
    """
    found = _BRACKETED.fullmatch(name)
    if found:
        return found["label"], (found["square"] or found["round"]).strip()
    label, _, ending = name.rpartition("_")
    unit = _SUFFIXES.get(ending.lower(), "")
    return (label, unit) if label and unit else (name, "")


def number(value: float, digits: int = 4) -> str:
    """Return a number as people write it, to some significant digits.

    Examples
    --------
    >>> number(1234567.0), number(0.25), number(-3.0), number(1.5e-9), number(float("nan"))
    ('1,235,000', '0.25', '−3', '1.5e-09', '–')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    rounded = float(f"{value:.{digits}g}")
    size = abs(rounded)
    if size and not 1e-4 <= size < 1e9:
        return f"{value:.{digits}g}".replace("-", "−", 1 if value < 0 else 0)
    decimals = max(0, digits - 1 - math.floor(math.log10(size))) if size else 0
    text = f"{size:,.{min(decimals, 8)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"−{text}" if rounded < 0 else text


def with_unit(text: str, unit: str) -> str:
    """Return a number with its unit, which a narrow space keeps on its line."""
    space = "" if unit == "%" else "\N{NARROW NO-BREAK SPACE}"
    return f"{text}{space}{unit}" if unit else text


def script_json(data: Any) -> str:
    """Return JSON that no text in it can end early, for a script element."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")

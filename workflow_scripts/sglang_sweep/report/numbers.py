"""Writes numbers the way every report shows them: three significant digits, a unit, a sign on changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime

MISSING = "–"


def significant(value: float | None, digits: int = 3) -> str:
    """Return `value` with `digits` significant digits and no exponent between 1e-4 and 1e7."""
    if value is None or not math.isfinite(value):
        return MISSING
    if value == 0:
        return "0"
    if not 1e-4 <= abs(value) < 1e7:
        return f"{value:.{digits - 1}e}"
    magnitude = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    decimals = max(0, digits - 1 - magnitude)
    return f"{value:,.{decimals}f}"


def quantity(value: float | None, unit: str = "") -> str:
    """Return a number and its unit, `89.5 tok/s`; a missing number has no unit."""
    text = significant(value)
    return text if text == MISSING or not unit else f"{text} {unit}"


def ratio(value: float | None) -> str:
    """Return a ratio with three decimals, since what counts is its distance from one."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:.3f}"


def signed_percent(fraction: float | None) -> str:
    """Return a relative change (0.091) as `+9.1 %`, with a real minus."""
    if fraction is None or not math.isfinite(fraction):
        return MISSING
    return f"{_signed(fraction * 100)} %"


def percent(fraction: float | None) -> str:
    """Return a share (0.14) as `14.0 %`."""
    return signed_percent(fraction).lstrip("+")


def threshold(fraction: float) -> str:
    """Return a declared limit (0.02) as it was declared, `2 %`: it is exact."""
    return f"{fraction * 100:g} %"


def change_interval(ends: Sequence[float | None] | None) -> str:
    """Return both ends of an interval of ratios as changes, `+8.1 to +10.2 %`, the smaller first."""
    if not ends or len(ends) != 2 or any(end is None or not math.isfinite(end) for end in ends):
        return MISSING
    low, high = sorted(end for end in ends if end is not None)
    return f"{_signed((low - 1) * 100)} to {_signed((high - 1) * 100)} %"


def p_value(value: float | None) -> str:
    """Return a p-value with two digits; below 0.0001 only the bound is honest."""
    if value is None or not math.isfinite(value):
        return MISSING
    return "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def duration(seconds: float | None) -> str:
    """Return a duration in the largest fitting units: `42.0 s`, `3 min 20 s`, `2 h 05 min`."""
    if seconds is None or not math.isfinite(seconds):
        return MISSING
    if seconds < 100:
        return f"{significant(seconds)} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def moment(iso: str | None) -> str:
    """Return an ISO-8601 time as `2026-11-30 11:26 UTC`; a text that is no time is returned as it is."""
    if not iso:
        return MISSING
    try:
        when = datetime.fromisoformat(iso)
    except ValueError:
        return iso
    return f"{when.astimezone(UTC) if when.tzinfo else when:%Y-%m-%d %H:%M} UTC"


def count(number: int, singular: str, plural: str | None = None) -> str:
    """Return `1 dead end`, `3 dead ends`."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def _signed(value: float) -> str:
    text = f"{value:.1f}" if abs(value) < 100 else significant(value)
    if float(text.replace(",", "")) == 0:
        return "0.0"
    return f"−{text[1:]}" if text.startswith("-") else f"+{text}"

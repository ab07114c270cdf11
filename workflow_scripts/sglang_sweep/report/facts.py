"""Turns a record whose keys other steps own into labelled rows, so that nothing known is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sglang_sweep.report.numbers import MISSING, significant

Fact = tuple[str, str]


def facts(record: Any, prefix: str = "", depth: int = 3) -> list[Fact]:
    """Return `(label, text)` rows of a nested record, in its own order, absent values shown as absent."""
    if not isinstance(record, Mapping):
        return [(prefix or "value", plain(record))]
    rows: list[Fact] = []
    for key, value in record.items():
        label = f"{prefix}{'.' if prefix else ''}{key}"
        if isinstance(value, Mapping) and value and depth > 1:
            rows += facts(value, label, depth - 1)
        else:
            rows.append((label, plain(value)))
    return rows


def plain(value: Any) -> str:
    """Return a value as text: numbers with three digits, lists joined, nested records in one line."""
    if value is None or value == "":
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return significant(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {plain(item)}" for key, item in value.items()) or MISSING
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(plain(item) for item in value) or "none"
    return str(value)


def pick(record: Mapping[str, Any] | None, *paths: str) -> Any:
    """Return the first dotted path of `record` that leads to something; None if none does."""
    for path in paths:
        here: Any = record or {}
        for part in path.split("."):
            here = here.get(part) if isinstance(here, Mapping) else None
        if here not in (None, "", [], {}):
            return here
    return None

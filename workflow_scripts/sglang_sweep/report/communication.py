"""Shows what collectives cost alone beside what they cost in a step (`traces.communication`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sglang_sweep.report.facts import plain
from sglang_sweep.report.numbers import percent, quantity, significant


def communication_view(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return rows, cliffs and sentences of `{rows, cliffs, growth, figure}`; None without a record.

    `rows` are those of `communication.compare` with a `variant`, `cliffs` those of `communication.cliffs`,
    `growth` what `communication.growth` says.
    """
    if not record:
        return None
    growth = (record.get("growth") or {}).get("sentence")
    return {
        "rows": [_row(row) for row in record.get("rows") or []],
        "sentences": [_cliff(cliff) for cliff in record.get("cliffs") or []]
        + ([growth[:1].upper() + growth[1:] + "."] if growth else []),
        "figure": record.get("figure"),
    }


def size(count: float | None) -> str:
    """Return a message size in bytes as `12 KiB`, exact where it can be."""
    for limit, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if count is not None and count >= limit:
            return f"{count // limit if count % limit == 0 else significant(count / limit)} {unit}"
    return quantity(count, "B")


def _row(row: Mapping[str, Any]) -> dict[str, str]:
    batch = f" bs={row['batch_size']}" if row.get("batch_size") is not None else ""
    return {
        "variant": plain(row.get("variant")),
        "kind": f"{row.get('kind')}{batch}",
        "count": plain(row.get("count")),
        "bytes": size(row.get("bytes")),
        "alone": quantity(row.get("us_alone"), "µs"),
        "profiled": quantity(row.get("us_profiled"), "µs"),
        "predicted_step": quantity(row.get("predicted_ms"), "ms"),
        "profiled_step": quantity(row.get("profiled_ms"), "ms"),
        "unexplained": quantity(row.get("unexplained_ms"), "ms"),
        "skew": quantity(row.get("skew_ms"), "ms"),
        "share": percent(row.get("share_of_tpot")),
    }


def _cliff(cliff: Mapping[str, Any]) -> str:
    return (
        f"Cliff in {cliff.get('setting')}, {cliff.get('mode')}: from {size(cliff.get('from_bytes'))} to "
        f"{size(cliff.get('to_bytes'))} latency grows from {quantity(cliff.get('from_us'), 'µs')} to "
        f"{quantity(cliff.get('to_us'), 'µs')}, {significant(cliff.get('ratio'))} times."
    )

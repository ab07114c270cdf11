"""Turns rows of verdicts.json into texts and links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sglang_sweep.report.escape import href, log_line
from sglang_sweep.report.facts import plain
from sglang_sweep.report.numbers import change_interval, quantity, signed_percent
from sglang_sweep.report.words import label_of, unit_of

View = dict[str, Any]


def evidence_rows(rows: Sequence[Any] | None, folder: Path) -> list[View]:
    """Return evidence as `{label, href, text}`; a bare string is its own text."""
    shown = []
    for row in rows or []:
        item = row if isinstance(row, Mapping) else {"text": row}
        file, line = item.get("file"), item.get("line")
        label = f"{_short(str(file))}{f':{line}' if line else ''}" if file else ""
        shown.append(
            {
                "label": label,
                "path": f"{file}{f':{line}' if line else ''}" if file else "",
                "href": href(str(file), folder, line) if file else "",
                "text": log_line(item.get("text") or ""),
                "source": item.get("source"),
            }
        )
    return shown


def launch_row(row: Mapping[str, Any], folder: Path, unit: str) -> View:
    file = row.get("file")
    return {
        "block": row.get("block"),
        "file": str(file) if file else "",
        "href": href(str(file), folder) if file else "",
        "outcome": row.get("outcome"),
        "value": quantity(row.get("value"), unit),
        "removed": plain(row["removed"]) if row.get("removed") else "",
    }


def removed_rows(rows: Sequence[Mapping[str, Any]] | None, views: list[View], folder: Path) -> list[View]:
    """Return what the rules removed in the whole session; without that list, what the launches say."""
    if rows is None:
        return [row | {"variant": v["name"], "anchor": v["anchor"]} for v in views for row in v["removed"]]
    shown = {v["name"]: v["anchor"] for v in views}
    return [
        {
            "variant": row.get("arm"),
            "anchor": shown.get(row.get("arm"), ""),
            "block": row.get("block"),
            "removed": f"{row.get('rule')}{_window(row.get('window'))}: {row.get('saw')}",
            "href": href(str(row["file"]), folder) if row.get("file") else "",
        }
        for row in rows
    ]


def metric_row(row: Mapping[str, Any]) -> View:
    unit = row.get("unit") or unit_of(row["metric"])
    value = row.get("ratio")
    return {
        "workload": row.get("workload"),
        "metric": label_of(row["metric"]),
        "baseline": quantity(row.get("baseline_mean"), unit),
        "variant": quantity(row.get("variant_mean"), unit),
        "gain": signed_percent(None if value is None else value - 1),
        "interval": change_interval(row.get("ci95")),
        "primary": bool(row.get("primary")),
    }


def confound_row(row: Mapping[str, Any]) -> View:
    moves, declared = bool(row.get("moves_performance")), bool(row.get("declared"))
    return {
        "setting": row.get("setting"),
        "baseline": plain(row.get("baseline")),
        "variant": plain(row.get("variant")),
        "moves": "no" if not moves else "yes, but declared" if declared else "yes",
        "implied_by": plain(row["implied_by"]) if row.get("implied_by") else "",
        "pin": plain(row["pin"]) if row.get("pin") else "",
        "why": plain(row["why"]) if row.get("why") else "",
    }


def reopening(item: Any, folder: Path) -> View:
    """A condition is a sentence, or a record with its source."""
    if not isinstance(item, Mapping):
        return {"text": str(item), "source": "", "href": ""}
    text = item.get("when") or item.get("what") or item.get("why") or plain(item)
    source = str(item.get("source") or "")
    return {"text": str(text), "source": source, "href": href(source, folder) if "://" in source else ""}


def _short(file: str) -> str:
    """Return a path from the block's folder on, which tells launches of a variant apart; else the file's name."""
    parts = Path(file).parts
    block = next((i for i, part in enumerate(parts) if part.startswith("block-")), len(parts) - 1)
    return "/".join(parts[block:])


def _window(index: int | None) -> str:
    return "" if index is None else f", window {index + 1}"

"""Says whether a variant's answers were still right, from what `evidence.correctness` found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sglang_sweep.report.facts import plain
from sglang_sweep.report.numbers import percent, significant

_STATES = {
    "ok": "the answers agree with the baseline's",
    "wrong": "the answers differ from the baseline's",
    "not_comparable": "not comparable",
}


def correctness_sentences(record: Mapping[str, Any] | None) -> list[str]:
    """Return what the probe's greedy answers and the token counts say; empty where nothing was compared."""
    if not record:
        return []
    state = _STATES.get(str(record.get("state")), plain(record.get("state")))
    tolerance = f" (tolerance {record['tolerance']})" if record.get("tolerance") else ""
    reason = f": {plain(record['reason'])}" if record.get("reason") else ""
    parts = [f"{state}{tolerance}{reason}"]
    if record.get("agreement") is not None:
        parts.append(f"{percent(record['agreement'])} of tokens agree{_baseline(record)}")
    if record.get("logprob_distance") is not None:
        parts.append(f"log-probabilities {significant(record['logprob_distance'])} nats apart")
    parts += [plain(note) for note in record.get("notes") or []]
    parts += _counts(record.get("token_counts") or {})
    return [part.rstrip(".") for part in parts]


def _baseline(record: Mapping[str, Any]) -> str:
    own = record.get("baseline_agreement")
    return "" if own is None else f", of the baseline with itself {percent(own)}"


def _counts(counts: Mapping[str, Any]) -> list[str]:
    client, server = counts.get("client") or {}, counts.get("server") or {}
    if not client.get("generation") or not server.get("generation"):
        return []
    return [
        f"output tokens of the windows: the client counts {client['generation']:,.0f}, the server "
        f"{server['generation']:,.0f}"
    ]

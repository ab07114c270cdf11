"""Is another launch of this arm still worth its time? Decided from the blocks before, never from the clock."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sglang_sweep.record import read_json

CONFIRMING = 2
"""A failure is confirmed by a second launch with the same cause, then not repeated; so is a change that never engaged."""


def earlier_launches(folder: Path, block: int) -> list[dict[str, Any]]:
    """launch.json of an arm's blocks before ``block``, in order; launches that were not run are left out."""
    found = []
    for path in folder.glob("block-*/launch.json"):
        record = read_json(path)
        if record["block"] < block and record["outcome"] != "not_run":
            found.append(record | {"file": str(path)})
    return sorted(found, key=lambda record: record["block"])


def settled(earlier: Sequence[dict[str, Any]], engagement: Callable[[], str | None]) -> str | None:
    """Why the arm needs no further launch, or None.

    ``engagement`` gives the arm's engagement state from its earlier launches; it is asked only when it matters.
    """
    failed = [record for record in earlier if record["outcome"] == "failed"]
    for record in failed:
        same = [other for other in failed if other["cause"] == record["cause"]]
        if len(same) >= CONFIRMING and len(failed) == len(earlier):
            blocks = " and ".join(str(other["block"]) for other in same[:CONFIRMING])
            return f"dead end confirmed: {record['cause']} in blocks {blocks}"
    if len(earlier) >= CONFIRMING and not failed and engagement() == "not_engaged":
        blocks = " and ".join(str(record["block"]) for record in earlier[:CONFIRMING])
        return f"the change was not engaged in blocks {blocks}; more launches would measure the baseline again"
    return None

"""What to know before believing a breakdown: unknown names, unseen patterns, missing ranks, a slowed host."""

from typing import Any

import numpy as np

from sglang_sweep.traces.kernels import Meaning
from sglang_sweep.traces.ranks import Ranks

UNMATCHED_SHARE = 0.01


def unmatched(ranks: Ranks) -> list[dict[str, Any]]:
    """Names no pattern knows which take more than 1 % of a kind of step, on the first rank."""
    work = ranks.works[0]
    time = work.exclusive if work.exclusive is not None else work.end - work.start
    kinds = np.array([step.kind for step in work.steps] + ["outside"], dtype=object)[work.owner]
    listed = []
    for kind in dict.fromkeys(kinds):
        of_kind = kinds == kind
        total = float(time[of_kind].sum())
        for number, meaning in enumerate(work.meanings):
            if meaning.matched:
                continue
            own = of_kind & (work.meaning == number)
            took = float(time[own].sum())
            if took > UNMATCHED_SHARE * total:
                listed.append(
                    {
                        "kind": str(kind),
                        "name": meaning.name,
                        "share": round(took / total, 4),
                        "ms": round(took / 1e3, 4),
                        "count": int(own.sum()),
                    }
                )
    return sorted(listed, key=lambda row: (-row["share"], row["name"]))


def caveats(ranks: Ranks, version: str | None, disagreeing: list[int]) -> list[str]:
    """Sentences a reader of the numbers must know."""
    notes = list(ranks.notes)
    if len(ranks.works) == 1 and (ranks.world_size or 2) > 1 and any(ranks.works[0].of_class("all_reduce")):
        notes.append(
            "one rank only: cost and waiting cannot be told apart, so collective times here are upper "
            "bounds; give the traces of all ranks"
        )
    if disagreeing:
        notes.append(
            f"in {len(disagreeing)} steps the ranks ran different numbers of collectives; these are not "
            "matched and count as they stand"
        )
    work = ranks.works[0]
    used = {meaning for meaning in work.meanings if meaning.matched}
    read = sorted({f"{m.kernel_class} ({m.path or m.name[:40]})" for m in used if _only_read(m)})
    if read:
        notes.append(
            "recognised by a pattern that was only read, never seen in a recording: " + ", ".join(read)
        )
    foreign = sorted({m.name[:60] for m in used if not m.trusted})
    if foreign and version:
        notes.append(
            f"recognised by a pattern of another SGLang version than {version}: " + ", ".join(foreign)
        )
    if ranks.source == "cpu" and ranks.devices:
        notes.append("the GPU was not recorded: these are the host's operators, which mostly launch and wait")
    if ranks.python_stacks and ranks.source == "cpu":
        notes.append("recorded with Python stacks, which slow the host: all times are longer than in service")
    elif ranks.python_stacks:
        notes.append(
            "recorded with Python stacks, which slow the host: gaps and the length of cycles are longer than "
            "in service, kernel times are not"
        )
    return notes


def _only_read(meaning: Meaning) -> bool:
    return meaning.status == "read" and meaning.kernel_class in ("all_reduce", "other_collective")

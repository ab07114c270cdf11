"""Matches collectives across ranks. What every rank needed is cost; what one rank needed more is waiting.

A collective ends on all ranks at about the same time, so the rank that came last shows the shortest kernel
and the others wait inside theirs. The minimum over ranks is the cost; (longest - shortest) is the skew, and
it is laid at the door of the rank with the shortest kernel. No clocks are compared.
"""

from dataclasses import dataclass

import numpy as np

from sglang_sweep.traces.kernels import COLLECTIVES
from sglang_sweep.traces.work import Work


@dataclass(frozen=True)
class Matched:
    """The collectives of one step with one operation and path, in order. Arrays: [ranks, collectives], us."""

    step: int
    operation: str
    path: str
    kernel_class: str
    duration: np.ndarray
    position: np.ndarray
    message: np.ndarray

    @property
    def cost(self) -> np.ndarray:
        """The minimum over ranks, per collective."""
        return np.asarray(self.duration.min(axis=0))

    @property
    def skew(self) -> np.ndarray:
        return np.asarray(self.duration.max(axis=0) - self.duration.min(axis=0))

    @property
    def late(self) -> np.ndarray:
        """Index of the rank that came last, per collective."""
        return np.asarray(self.duration.argmin(axis=0))


def match(ranks: list[Work], steps: int) -> tuple[list[Matched], list[int]]:
    """Collectives of the first ``steps`` steps of all ranks, and the steps in which the ranks disagree.

    Matched by order within the step, operation and path. A step in which the ranks ran different numbers of
    one collective is not matched at all: one lost event would pair every later one wrongly.
    """
    masks = [work.of_class(*COLLECTIVES) for work in ranks]
    matched: list[Matched] = []
    disagreeing: list[int] = []
    for step in range(steps):
        groups = [_grouped(work, mask, step) for work, mask in zip(ranks, masks, strict=True)]
        counts = [{key: len(members) for key, members in group.items()} for group in groups]
        if any(count != counts[0] for count in counts[1:]):
            disagreeing.append(step)
            continue
        for key in groups[0]:
            position = np.array([group[key] for group in groups])
            duration = np.array(
                [work.end[row] - work.start[row] for work, row in zip(ranks, position, strict=True)]
            )
            message = ranks[0].message[position[0]]
            matched.append(Matched(step, key[0], key[1], key[2], duration, position, message))
    return matched, disagreeing


def cost_starts(ranks: list[Work], matched: list[Matched]) -> list[np.ndarray]:
    """Per rank, kernel start times with the waiting cut off the front of each matched collective."""
    starts = [work.start.copy() for work in ranks]
    for group in matched:
        for rank, work in enumerate(ranks):
            row = group.position[rank]
            starts[rank][row] = work.end[row] - group.cost
    return starts


def _grouped(work: Work, collective: np.ndarray, step: int) -> dict[tuple[str, str, str], list[int]]:
    groups: dict[tuple[str, str, str], list[int]] = {}
    for position in work.members(step):
        if collective[position]:
            meaning = work.meanings[work.meaning[position]]
            key = (meaning.operation or "other", meaning.path or "unknown", meaning.kernel_class)
            groups.setdefault(key, []).append(int(position))
    return groups

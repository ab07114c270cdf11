"""Tests one arm against its baseline on one metric, in the way the design's mode asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sglang_sweep.statistics.launches import Arms, paired_values
from sglang_sweep.statistics.ratios import Comparison, block_logs, compare, log_ratios
from sglang_sweep.statistics.sequential import repeated_interval, sequential_p, sequential_tost_p
from sglang_sweep.statistics.sign_flip import smallest_p
from sglang_sweep.statistics.verdict import Design


@dataclass(frozen=True)
class Tested:
    """A comparison (None without a usable block), its logs by block, and the blocks that were stale.

    In adaptive mode the comparison's p-values and interval count the looks taken so far.
    """

    comparison: Comparison | None
    logs: Mapping[int, Sequence[float]] = field(default_factory=dict)
    stale: frozenset[int] = frozenset()

    @property
    def exact_can_reach(self) -> float:
        """The smallest exact p that these blocks can give."""
        return smallest_p(list(self.logs.values()))


def baselines_of(arm: str, baseline: str) -> list[str]:
    """Return the arms that an arm is set against: A for A', both for every other arm."""
    prime = f"{baseline}-prime"
    return [baseline] if arm == prime else [baseline, prime]


def try_arm(arms: Arms, arm: str, key: tuple[str, str], design: Design, baseline: str) -> Tested:
    """Compare an arm with its baseline on one (workload, metric), over contemporary pairs of launches."""
    values, stale = paired_values(arms, arm, baselines_of(arm, baseline), key, design.contemporary_hours)
    logs = block_logs(values, arm, baseline, f"{baseline}-prime")
    comparison = compare(logs, design.margin)
    if comparison is not None and design.mode == "adaptive":
        comparison = _counting_looks(comparison, list(log_ratios(logs).values()), design.margin)
    return Tested(comparison, logs, frozenset(stale))


def _counting_looks(comparison: Comparison, in_order: Sequence[float], margin: float) -> Comparison:
    interval = repeated_interval(in_order)
    return replace(
        comparison,
        ci95=None if interval is None else (math.exp(interval[0]), math.exp(interval[1])),
        p_value=sequential_p(in_order) if interval else None,
        equivalence_p=sequential_tost_p(in_order, margin) if interval else None,
    )

"""Tests one arm against its baseline on one metric, in the way the design's mode asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sglang_sweep.statistics.launches import Arms, paired_values
from sglang_sweep.statistics.ratios import Comparison, block_logs, compare, log_ratios
from sglang_sweep.statistics.sequential import Look, looks, repeated_interval, sequential_p, sequential_tost_p
from sglang_sweep.statistics.sign_flip import smallest_p
from sglang_sweep.verdict.decision import Design


@dataclass(frozen=True)
class Tested:
    """A comparison (None without a usable block), its logs by block, and the blocks that were stale.

    In adaptive mode ``history`` holds the looks, the comparison's p-values and interval count them, and
    ``own_p`` is the p of a difference over all looks that shares no noise with other arms.
    """

    comparison: Comparison | None
    logs: Mapping[int, Sequence[float]] = field(default_factory=dict)
    stale: frozenset[int] = frozenset()
    history: tuple[Look, ...] = ()
    own_p: float = 0.0

    @property
    def ratios(self) -> dict[int, float]:
        """Log ratio by block."""
        return log_ratios(self.logs)

    @property
    def smallest_exact_p(self) -> float:
        """The smallest exact p that these blocks can give."""
        return smallest_p(list(self.logs.values()))


def baselines_of(arm: str, baseline: str) -> list[str]:
    """Return the arms that an arm is set against: A for A', both for every other arm."""
    prime = f"{baseline}-prime"
    return [baseline] if arm == prime else [baseline, prime]


def compare_arm(arms: Arms, arm: str, key: tuple[str, str], design: Design, baseline: str) -> Tested:
    """Compare an arm with its baseline on one (workload, metric), over contemporary pairs, as if looked at
    once."""
    values, stale = paired_values(arms, arm, baselines_of(arm, baseline), key, design.contemporary_hours)
    logs = block_logs(values, arm, baseline, f"{baseline}-prime")
    return Tested(compare(logs, design.margin), logs, frozenset(stale))


def compare_arms(
    arms: Arms, names: Sequence[str], key: tuple[str, str], design: Design, baseline: str
) -> dict[str, Tested]:
    """Test each named arm on the primary metric; in adaptive mode looks are counted and noise is shared."""
    tested = {name: compare_arm(arms, name, key, design, baseline) for name in names}
    if design.mode != "adaptive":
        return tested
    # Variance of a log ratio in launch variances: 1.5 beside A and A', 2 for A' beside A.
    factors = {name: 1 + 1 / len(baselines_of(name, baseline)) for name in names}
    return {name: _counting_looks(tested, name, factors, design.margin) for name in names}


def _counting_looks(
    tested: Mapping[str, Tested], name: str, factors: Mapping[str, float], margin: float
) -> Tested:
    mine = tested[name]
    if mine.comparison is None:
        return mine
    others = [
        {block: d * math.sqrt(factors[name] / factors[other]) for block, d in tested[other].ratios.items()}
        for other in tested
        if other != name
    ]
    history, own = looks(mine.ratios, others), mine.comparison
    interval = repeated_interval(history)
    if interval is None or own.ci95 is None or own.equivalence_p is None:  # before the first look
        return replace(mine, comparison=replace(own, ci95=None, p_value=None, equivalence_p=None))
    comparison = replace(
        own,
        ci95=(min(math.exp(interval[0]), own.ci95[0]), max(math.exp(interval[1]), own.ci95[1])),
        p_value=sequential_p(history),
        equivalence_p=max(sequential_tost_p(history, margin), own.equivalence_p),
    )
    own_p = sequential_p(looks(mine.ratios))
    return replace(mine, comparison=comparison, history=tuple(history), own_p=own_p)

"""What a variant does beside its primary metric: to requests, to windows, and to the other objectives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats

from sglang_sweep.statistics.invalidation import RULE
from sglang_sweep.statistics.launches import NOTHING_DELIVERED, Key, Measured
from sglang_sweep.statistics.metrics import METRICS

FEW_LAUNCHES = 6
"""Below this many an exact test can hardly reach alpha: then any higher share counts."""

DOES = {rule.id: rule.outcome for rule in RULE.values() if rule.outcome} | {
    NOTHING_DELIVERED: "delivers nothing on a workload"
}
"""What a variant does to requests, by what was noted of its launches."""

COLD = "cold_window"
"""Steady state is compared without it; that a variant starts cold is said beside the verdict."""


@dataclass(frozen=True)
class Outcome:
    """In how many launches something was seen, beside the baseline's; ``more_often`` by `more_often`."""

    what: str
    launches: int
    of: int
    baseline_launches: int
    baseline_of: int
    more_often: bool

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        does = DOES.get(self.what) or f"loses windows to {self.what}"
        return (
            f"{does} in {self.launches} of {self.of} launches, the baseline in {self.baseline_launches} of "
            f"{self.baseline_of}"
        )


def more_often(k: int, n: int, k0: int, n0: int, alpha: float, by_sight: bool) -> bool:
    """Whether k of n is more than k0 of n0: Fisher's exact test, one-sided; ``by_sight`` also where the baseline
    never does it, or launches are too few for a test."""
    if not n or k * n0 <= k0 * n:
        return False
    if by_sight and (k0 == 0 or n < FEW_LAUNCHES):
        return True
    return bool(stats.fisher_exact([[k, n - k], [k0, n0 - k0]], alternative="greater").pvalue <= alpha)


def outcomes(mine: Sequence[Measured], beside: Sequence[Measured], alpha: float) -> list[Outcome]:
    """Return what rules saw in completed launches of an arm, each beside the baseline's."""
    own, base = ([m for m in launches if m.outcome == "completed"] for launches in (mine, beside))
    found = []
    for what in sorted(set().union(*(m.seen for m in own))):
        k, k0 = (sum(what in m.seen for m in launches) for launches in (own, base))
        often = more_often(k, len(own), k0, len(base), alpha, by_sight=what in DOES or what == COLD)
        found.append(Outcome(what, k, len(own), k0, len(base), often))
    return found


def unseen_share(launches: int, confidence: float = 0.95) -> float:
    """Return the share of launches that something never seen may still hit: 1 - 0.05^(1/n)."""
    return 1.0 - float((1 - confidence) ** (1 / launches)) if launches else 1.0


def elsewhere(
    metrics: Sequence[Mapping[str, Any]], primary: Key, smallest_effect: float
) -> list[dict[str, Any]]:
    """Account for every objective beside the primary metric: see `records.Elsewhere`.

    Losses that cannot be excluded are told of means; a tail's interval is wide by nature.
    """
    edge, found = 1 + smallest_effect, []
    for row in metrics:
        metric = METRICS[row["metric"]]
        if row["primary"] or not (metric.objective or row["metric"] == primary[1]):
            continue
        if row["ci95"] is None:
            low = high = math.nan
            kind = None if metric.tail else "not_measured"
        else:
            low, high = row["ci95"]
            kind = "not_excluded" if low < 1 / edge and not metric.tail else None
        if high < 1 / edge:
            kind = "worse"
        elif low > edge:
            kind = "better"
        if kind:
            found.append({"kind": kind, **{k: row[k] for k in ("workload", "metric", "ratio", "ci95")}})
    return found

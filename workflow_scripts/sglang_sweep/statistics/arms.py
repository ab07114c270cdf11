"""Tests one arm against its baseline on one metric, in the way the design's mode asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from scipy import special

from sglang_sweep.statistics.design import Design
from sglang_sweep.statistics.launches import Arms, Key, Paired, paired_values
from sglang_sweep.statistics.metrics import oriented
from sglang_sweep.statistics.ratios import Comparison, block_logs, compare, log_ratios
from sglang_sweep.statistics.sequential import Look, looks, repeated_interval, sequential_p, sequential_tost_p
from sglang_sweep.statistics.sign_flip import smallest_p
from sglang_sweep.statistics.spread import Noise, pooled, variance_of


@dataclass(frozen=True)
class Tested:
    """A comparison (None without a usable block), its logs by block, the values they are of, and how many launch
    variances a log ratio has: 2 beside one baseline launch, 1.5 beside two.

    In adaptive mode ``history`` holds the looks, the comparison's p-values and interval count them, and
    ``own_p`` is the p of a difference over all looks that shares no noise with other arms.
    """

    comparison: Comparison | None
    logs: Mapping[int, Sequence[float]] = field(default_factory=dict)
    paired: Paired = field(default_factory=lambda: Paired({}))
    factor: float = 1.5
    history: tuple[Look, ...] = ()
    own_p: float = 0.0

    @property
    def ratios(self) -> dict[int, float]:
        """Log ratio by block."""
        return log_ratios(self.logs)

    @property
    def stale(self) -> frozenset[int]:
        """Blocks without a contemporary baseline."""
        return self.paired.stale

    @property
    def noise(self) -> Noise:
        """Variance of one launch, from this arm's log ratios."""
        own = variance_of(self.ratios)
        return Noise(own.variance / self.factor, own.df)

    @property
    def smallest_exact_p(self) -> float:
        """The smallest exact p that these blocks can give."""
        return smallest_p(list(self.logs.values()))

    def interval(self, confidence: float) -> tuple[float, float] | None:
        """The interval of the ratio by the test that decides, at another confidence than 95 %."""
        c = self.comparison
        if c is None or c.sd is None or c.ci95 is None:
            return None
        if self.history:
            low, high = repeated_interval(self.history, confidence) or (c.log_ratio, c.log_ratio)
            return min(_ratio(low), c.ci95[0]), max(_ratio(high), c.ci95[1])
        half = -float(special.stdtrit(c.blocks - 1, (1 - confidence) / 2)) * c.sd / math.sqrt(c.blocks)
        return _ratio(c.log_ratio - half), _ratio(c.log_ratio + half)


def _ratio(log_ratio: float) -> float:
    return math.exp(min(max(log_ratio, -50.0), 50.0))  # three blocks at a small alpha know next to nothing


def baselines_of(arm: str, baseline: str, arms: Arms) -> list[str]:
    """Return the arms that an arm is set against: A for A', every launch of the baseline for every other arm."""
    twins = [name for name in arms if name.startswith(f"{baseline}-prime") and name != arm]
    return [baseline] if arm.startswith(f"{baseline}-prime") else [baseline, *sorted(twins)]


def compare_arm(arms: Arms, arm: str, key: Key, design: Design, baseline: str) -> Tested:
    """Compare an arm with its baseline on one (workload, metric), over contemporary pairs, as if looked at
    once."""
    others = baselines_of(arm, baseline, arms)
    paired = paired_values(arms, arm, others, key, design.contemporary_hours)
    values = {
        name: {b: oriented(key[1], x) for b, x in of_blocks.items()}
        for name, of_blocks in paired.values.items()
    }
    logs = block_logs(values, arm, others)
    return Tested(compare(logs, design.margin), logs, paired, 1 + 1 / len(others))


def compare_arms(
    arms: Arms, names: Sequence[str], key: Key, design: Design, baseline: str
) -> dict[str, Tested]:
    """Test each named arm on the primary metric; in adaptive mode looks are counted and noise is shared."""
    tested = {name: compare_arm(arms, name, key, design, baseline) for name in names}
    if not design.adaptive:
        return tested
    return {name: _counting_looks(tested, name, design.margin) for name in names}


def launch_noise(tested: Mapping[str, Tested], without: str | None = None) -> Noise:
    """Return the variance of one launch from A against A' and every arm about its own mean, far noisier arms
    left out."""
    return pooled([t.noise for name, t in tested.items() if name != without])


@dataclass(frozen=True)
class Estimate:
    """An arm against the baseline by the noise of all arms: log ratio, standard error, degrees of freedom."""

    blocks: int
    log_ratio: float
    error: float
    df: int

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Interval of the log ratio; not corrected for looking at many arms or often."""
        half = -float(special.stdtrit(self.df, (1 - confidence) / 2)) * self.error
        return self.log_ratio - half, self.log_ratio + half


def estimates(
    arms: Arms, names: Sequence[str], key: Key, design: Design, baseline: str
) -> dict[str, Estimate | None]:
    """Return an estimate of each arm that one launch is enough for: what a race thins its field by.

    The noise is that of a launch on this host, from every arm with two blocks and from A against A'. An arm with
    more noise of its own than that keeps its own. None for an arm without a contemporary pair, and for all while
    no noise is known. For verdicts use `compare_arms`.
    """
    primes = [name for name in arms if name.startswith(f"{baseline}-prime")]
    tested = {n: compare_arm(arms, n, key, design, baseline) for n in dict.fromkeys([*names, *primes])}
    shared = launch_noise(tested)
    found: dict[str, Estimate | None] = dict.fromkeys(names)
    for name in names:
        t = tested[name]
        if t.comparison is not None and shared.df:
            alone = t.noise.df >= 2 and t.noise.variance > shared.variance
            noise = t.noise if alone else shared
            error = math.sqrt(noise.variance * t.factor / t.comparison.blocks)
            found[name] = Estimate(t.comparison.blocks, t.comparison.log_ratio, error, noise.df)
    return found


def _counting_looks(tested: Mapping[str, Tested], name: str, margin: float) -> Tested:
    mine = tested[name]
    if mine.comparison is None:
        return mine
    others = [
        {block: d * math.sqrt(mine.factor / other.factor) for block, d in other.ratios.items()}
        for other_name, other in tested.items()
        if other_name != name
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

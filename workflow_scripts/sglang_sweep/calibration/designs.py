"""The designs that the calibration compares, each over many simulated campaigns at once.

`ours_fixed` and `ours_adaptive` repeat what `session`, `sequential` and `stopping` do to one campaign (a
test holds them to it); the rivals do what tools that repeat windows on one launch, or one arm after
another, do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from sglang_sweep.statistics import boundary, spread
from sglang_sweep.statistics.design import MIN_BLOCKS, Design
from sglang_sweep.statistics.holm import holm_adjusted
from sglang_sweep.statistics.sign_flip import exact_p, smallest_p
from sglang_sweep.verdict.settled import HOPELESS, OPTIMISM, STEADY

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]

OPEN, WIN, LOSS, SAME = 0, 1, 2, 3
"""Codes of `Outcome.verdict`."""


UNKNOWN = 1e6
"""Variance where there is none to estimate: so large that nothing is concluded."""


@dataclass(frozen=True)
class Outcome:
    """What a design concluded: all by (replication, variant), ``launches`` by replication.

    ``claimed`` is any significant difference, before the smallest effect of interest is asked for; ``low``
    and ``high`` the 95 % interval of the log ratio when the arm stopped.
    """

    verdict: NDArray[np.int64]
    claimed: Flags
    low: Array
    high: Array
    launches: Array
    void: Flags


def contrasts(logs: Array) -> tuple[Array, Array]:
    """Return launch-mean log ratios (replication, block, variant) and A' to A (replication, block)."""
    means = logs.mean(axis=-1)
    base = means[..., :2]
    count = np.sum(~np.isnan(base), axis=-1, keepdims=True)
    baseline = np.where(count > 0, np.nansum(base, axis=-1, keepdims=True) / np.maximum(count, 1), np.nan)
    return means[..., 2:] - baseline, base[..., 1] - base[..., 0]


def ours_fixed(logs: Array, design: Design) -> Outcome:
    """Randomised blocks, paired t, Holm, TOST, looked at once."""
    ratios, aa = contrasts(logs)
    n, mean, var = _moments(ratios)
    error = np.sqrt(var / np.maximum(n, 1))
    p = np.minimum(1.0, 2 * _sf(np.abs(mean) / error, n - 1))
    same_p = np.maximum(
        _sf((mean + design.margin) / error, n - 1), _sf((design.margin - mean) / error, n - 1)
    )
    p_holm = holm_adjusted(np.where(n >= MIN_BLOCKS, p, 1.0))
    verdict = _classify(p_holm, same_p, mean, n, design, logs, ratios, np.ones_like(n, dtype=bool))
    half = special.stdtrit(n - 1, 0.975) * error
    n_aa, mean_aa, var_aa = _moments(aa[..., None])
    error_aa = np.sqrt(var_aa / np.maximum(n_aa, 1))
    p_aa = 2 * _sf(np.abs(mean_aa) / error_aa, n_aa - 1)
    beyond = np.abs(mean_aa) - special.stdtrit(n_aa - 1, 0.975) * error_aa > design.margin
    void = ((p_aa < design.aa_alpha) | beyond)[:, 0]
    verdict[void] = OPEN
    used = np.full(logs.shape[0], float(logs.shape[1] * logs.shape[2]))
    claimed = (p_holm <= design.alpha) & ~void[:, None]
    return Outcome(verdict, claimed, mean - half, mean + half, used, void)


def ours_adaptive(logs: Array, design: Design) -> Outcome:
    """The same blocks, looked at after each: settled arms stop, winners go on alone until they are steady, hopeless
    arms pause, then the campaign ends."""
    ratios, aa = contrasts(logs)
    replications, blocks, variants = ratios.shape
    everything = np.concatenate([ratios, aa[..., None]], axis=-1)  # the last column is A' to A
    looks = _Looks(np.array([1.5] * variants + [2.0]), design.margin, (replications, variants + 1))
    verdict = np.zeros((replications, variants), dtype=np.int64)
    hopeless, claimed = np.zeros((2, replications, variants), dtype=bool)
    low, high = np.full((2, replications, variants), np.nan)
    used, void = np.zeros(replications), np.zeros(replications, dtype=bool)
    tried = np.zeros((replications, variants))
    seen = np.full_like(everything, np.nan)
    for block in range(min(blocks, design.max_blocks)):
        settling = (verdict == OPEN) & ~hopeless & ~void[:, None]
        steady = (verdict == WIN) & (tried < min(STEADY, design.max_blocks)) & ~void[:, None]
        live, paired = settling | steady, settling.any(axis=1, keepdims=True)
        used += live.sum(axis=1) + 2 * paired[:, 0]
        tried += live & ~np.isnan(logs[:, block, 2:, 0])
        here = np.concatenate([live & paired, paired], axis=1)
        seen[:, block] = np.where(here, everything[:, block], np.nan)
        looks.look(seen)
        p, same_p, half = looks.p(), looks.equivalence_p()[:, :-1], looks.half()
        beyond = np.abs(looks.mean[:, -1]) - half[:, -1] > design.margin
        void |= ((p[:, -1] < design.aa_alpha) | beyond) & (looks.n[:, -1] > 0)
        p_holm = np.maximum(holm_adjusted(p[:, :-1]), looks.own_p()[:, :-1])
        mean, n = looks.mean[:, :-1], looks.n[:, :-1]
        judged = np.isin(verdict, (OPEN, WIN)) & (n > 0) & ~void[:, None]
        now = _classify(p_holm, same_p, mean, n, design, logs, seen[..., :-1], judged)
        verdict = np.where(judged, now, verdict)
        claimed |= judged & (p_holm <= design.alpha)
        low = np.where(judged, mean - half[:, :-1], low)
        high = np.where(judged, mean + half[:, :-1], high)
        undecided = np.maximum(1, (p_holm > design.alpha).sum(axis=1))
        chance = _settling_chance(mean, looks.sd[:, :-1], n, looks.now[:, :-1], undecided, design)
        hopeless = judged & (chance < HOPELESS)
    verdict[void] = OPEN
    return Outcome(verdict, claimed & ~void[:, None], low, high, used, void)


class _Looks:
    """The last look at every arm (n is 0 before the first), and the least p_n / weight(n) of each one-sided
    test."""

    def __init__(self, factor: Array, margin: float, shape: tuple[int, int]) -> None:
        self.factor, self.margin = factor, margin
        self.prior = np.full(shape, boundary.PRIOR_DF)
        self.n, self.mean = np.zeros((2, *shape))
        self.now = np.zeros(shape)
        self.sd = np.full(shape, math.sqrt(UNKNOWN))
        self.own_sd = self.sd
        self.best = {side: np.full(shape, np.inf) for side in ("up", "down", "above", "below")}
        self.own_best = {side: np.full(shape, np.inf) for side in ("up", "down")}

    def look(self, seen: Array) -> None:
        """Look at arms with a new block; ``seen`` are log ratios by (replication, block, arm)."""
        n, mean, own = _moments(seen)
        new = (n >= boundary.FIRST_LOOK) & (n > self.n)
        pooled, prior = _priors(np.where(n > 1, own / self.factor, 0.0), np.maximum(n - 1, 0))
        moderated = (prior * pooled * self.factor + (n - 1) * own) / np.maximum(prior + n - 1, 1)
        sd = np.sqrt(np.maximum(own, moderated))
        self.prior = np.where(new, np.minimum(self.prior, prior), self.prior)
        error = sd / np.sqrt(np.maximum(n, 1))
        weight = np.array([boundary.weight(k) for k in range(seen.shape[1] + 1)])[n.astype(int)]
        distances = {"up": mean, "down": -mean, "above": mean + self.margin, "below": self.margin - mean}
        own_error = np.maximum(np.sqrt(own / np.maximum(n, 1)), 1e-12)
        for best, by, more in ((self.best, error, prior), (self.own_best, own_error, 0)):
            for side in best:
                p = _sf(distances[side] / by, n - 1 + more)
                spent = np.divide(p, weight, out=np.full_like(mean, np.inf), where=new)
                best[side] = np.minimum(best[side], spent)
        last = (n, self.n), (mean, self.mean), (sd, self.sd), (np.sqrt(own), self.own_sd), (prior, self.now)
        self.n, self.mean, self.sd, self.own_sd, self.now = (np.where(new, x, before) for x, before in last)

    def p(self) -> Array:
        """Two-sided p of a difference, over all looks."""
        return np.minimum(1.0, 2 * self._crossings(np.minimum(self.best["up"], self.best["down"])))

    def _crossings(self, x: Array) -> Array:
        by_prior = [boundary.crossings(x, d) for d in boundary.PRIOR_DFS]
        return np.choose(np.searchsorted(boundary.PRIOR_DFS, self.prior), by_prior)

    def own_p(self) -> Array:
        """The same from each arm's own spread alone."""
        least = np.minimum(self.own_best["up"], self.own_best["down"])
        return np.minimum(1.0, 2 * boundary.crossings(least, 0))

    def equivalence_p(self) -> Array:
        """p of the two one-sided tests, over all looks, and not below the plain one of the arm's own
        spread."""
        error = self.own_sd / np.sqrt(np.maximum(self.n, 1))
        own = _sf((self.margin - np.abs(self.mean)) / error, self.n - 1)
        shared = self._crossings(np.maximum(self.best["above"], self.best["below"]))
        return np.maximum(shared, own)

    def half(self) -> Array:
        """Half width of the 95 % interval that holds over all looks, and not below the arm's own plain one."""
        table = np.array(
            [
                [boundary.look_level(k, 0.025, d) for k in range(int(self.n.max()) + 1)]
                for d in boundary.PRIOR_DFS
            ]
        )
        level = table[np.searchsorted(boundary.PRIOR_DFS, self.prior), self.n.astype(int)]
        df = np.maximum(self.n - 1 + self.now, 1)
        quantile = np.where(level > 0, -special.stdtrit(df, np.maximum(level, 1e-300)), np.inf)
        own = special.stdtrit(np.maximum(self.n - 1, 1), 0.975) * self.own_sd
        return np.asarray(np.maximum(quantile * self.sd, own) / np.sqrt(np.maximum(self.n, 1)), dtype=float)


def _priors(v: Array, df: Array) -> tuple[Array, Array]:
    """Vectorised `spread.prior` of every arm from the others: variances and degrees of freedom by (replication,
    arm)."""
    known = df > 0
    count = known.sum(axis=1, keepdims=True)
    at = np.maximum((count - 1) // 2, 0)
    ranked, dfs = (np.sort(np.where(known, x, np.inf), axis=1) for x in (v, df))
    low, df_low = (np.take_along_axis(x, at, 1) for x in (ranked, dfs))
    df_mid = (df_low + np.take_along_axis(dfs, np.minimum(count // 2, v.shape[1] - 1), 1)) / 2
    with np.errstate(all="ignore"):
        usual = low / special.chdtri(df_low, 0.5) * df_mid
        total = np.maximum(1, df.sum(axis=1, keepdims=True) // 2)
        kept = known & (v <= usual * special.fdtri(np.maximum(df, 1), total, 1 - spread.FAR_NOISIER))
        squares, dfs = np.where(kept, v * df, 0.0), np.where(kept, df, 0.0)
        others = dfs.sum(axis=1, keepdims=True) - dfs
        pooled = (squares.sum(axis=1, keepdims=True) - squares) / np.maximum(others, 1)
        seen, half = kept & (v > 0), np.maximum(df, 1) / 2
        logs = np.where(seen, np.log(v) - special.digamma(half) + np.log(half), 0.0)
        n = seen.sum(axis=1, keepdims=True) - seen
        first, second, chance = (
            np.where(seen, x, 0.0).sum(axis=1, keepdims=True) - np.where(seen, x, 0.0)
            for x in (logs, logs**2, special.polygamma(1, half))
        )
        excess = (second - first**2 / n) / (n - 1) - chance / n
    worth = np.zeros_like(v)
    for d in boundary.PRIOR_DFS[1:]:
        worth = np.where(special.polygamma(1, d / 2) >= excess, d, worth)
    worth = np.where(n < 3, boundary.PRIOR_DF, worth)
    return pooled, np.where(others >= 2, worth, 0.0)


def one_arm_after_another(logs: Array, design: Design, windows_as_replicates: bool = False) -> Outcome:
    """A rival: all launches of the baseline, then of each variant; Welch's t on launches, or on windows."""
    values = logs if windows_as_replicates else logs.mean(axis=-1, keepdims=True)
    samples = np.moveaxis(values, 2, 1).reshape(values.shape[0], values.shape[2], -1)
    n, mean, var = _moments(np.moveaxis(samples, 2, 1))
    difference = mean[:, 1:] - mean[:, :1]
    parts = var / np.maximum(n, 1)
    error = np.sqrt(parts[:, 1:] + parts[:, :1])
    spare = np.maximum(n - 1, 1)
    df = error**4 / (parts[:, 1:] ** 2 / spare[:, 1:] + parts[:, :1] ** 2 / spare[:, :1])
    p = np.minimum(1.0, 2 * _sf(np.abs(difference) / error, df))
    claimed = p <= design.alpha
    big = claimed & (np.abs(difference) >= design.margin)
    verdict = np.where(big, np.where(difference > 0, WIN, LOSS), OPEN)
    half = special.stdtrit(df, 0.975) * error
    used = np.full(logs.shape[0], float(logs.shape[1] * logs.shape[2]))
    return Outcome(
        verdict, claimed, difference - half, difference + half, used, np.zeros(logs.shape[0], dtype=bool)
    )


def _classify(
    p_holm: Array,
    same_p: Array,
    mean: Array,
    n: Array,
    design: Design,
    logs: Array,
    seen: Array,
    judged: Flags,
) -> NDArray[np.int64]:
    """Verdict codes by the rules of `verdict.decide`; ``seen`` tells which blocks each variant has."""
    enough = judged & (n >= MIN_BLOCKS)
    candidates = enough & (p_holm <= design.alpha) & (np.abs(mean) >= design.margin)
    for replication, variant in zip(*np.nonzero(candidates), strict=True):
        measured = ~np.isnan(seen[replication, :, variant])
        if not _exact_agrees(logs[replication, : measured.size][measured], variant, design.alpha):
            candidates[replication, variant] = False
    verdict = np.where(candidates, np.where(mean > 0, WIN, LOSS), OPEN)
    return np.asarray(
        np.where(~candidates & enough & (same_p <= design.alpha), SAME, verdict), dtype=np.int64
    )


def _exact_agrees(logs: Array, variant: int, alpha: float) -> bool:
    means = logs.mean(axis=-1)
    rows = [[v, *base[~np.isnan(base)]] for v, base in zip(means[:, variant + 2], means[:, :2], strict=True)]
    return smallest_p(rows) > alpha or exact_p(rows) <= alpha


def _settling_chance(
    mean: Array, sd: Array, n: Array, now: Array, undecided: NDArray[np.int64], design: Design
) -> Array:
    """Vectorised `settled.settling_chance`."""
    total, prior = min(design.max_blocks, boundary.LAST_LOOK), boundary.PRIOR_DF
    df, end = np.maximum(n - 1 + now, 1), total - 1 + prior
    sd = sd * np.sqrt(df / special.chdtri(df, 1 - OPTIMISM))
    with np.errstate(divide="ignore", invalid="ignore"):
        to_come, error = sd * np.sqrt(1 / n - 1 / total), sd / np.sqrt(total)
        room = np.maximum(
            0.0, design.margin - stats.t.isf(boundary.look_level(total, design.alpha, prior), end) * error
        )
        sizes = np.arange(undecided.max() + 1)
        critical = np.array(
            [stats.t.isf(boundary.look_level(total, design.alpha / max(k, 1) / 2, prior), end) for k in sizes]
        )
        needed = np.maximum(design.margin, critical[undecided][:, None] * error)
        inside = special.ndtr((room - mean) / to_come) - special.ndtr((-room - mean) / to_come)
        outside = special.ndtr((mean - needed) / to_come) + special.ndtr((-needed - mean) / to_come)
    return np.where(n >= total, 0.0, inside + outside)


def _moments(values: Array) -> tuple[Array, Array, Array]:
    """Count, mean and variance over axis 1, gaps left out."""
    n = np.sum(~np.isnan(values), axis=1).astype(float)
    total = np.nansum(values, axis=1)
    mean = np.divide(total, n, out=np.zeros_like(total), where=n > 0)
    squares = np.nansum((values - mean[:, None]) ** 2, axis=1)
    var = np.divide(squares, n - 1, out=np.full_like(total, UNKNOWN), where=n > 1)
    return n, mean, var


def _sf(t: Array, df: Array | float) -> Array:
    """Upper tail of Student's t; 1 where there are no degrees of freedom."""
    return np.where(np.asarray(df) > 0, special.stdtr(np.maximum(df, 1), -t), 1.0)

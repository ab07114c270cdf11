"""What the declared blocks can show on this host, what a wanted effect would cost, and the shortest way to it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sglang_sweep.statistics import power
from sglang_sweep.statistics.arms import compare_arm, launch_noise
from sglang_sweep.statistics.boundary import LAST_LOOK
from sglang_sweep.statistics.design import MIN_BLOCKS
from sglang_sweep.statistics.launches import Key
from sglang_sweep.statistics.spread import Components, pooled, window_noise
from sglang_sweep.verdict.analysis import blocks_to_settle, detectable_effect
from sglang_sweep.verdict.session import Examination, examine

DECODING = "mean_tpot_ms"
"""The other metric that is looked at: of decoding alone, without the luck of the first token."""

TIMED_S = (10, 20, 30, 45, 60, 90, 120, 180, 240)
"""Timed seconds of a launch that are looked at."""

LEAST_WINDOW_S = 10
"""A window of less on GPUs measures its own start."""


@dataclass(frozen=True)
class Way:
    """One way to answer the question: metric, timed windows of a launch, its noise, and what a plan costs."""

    workload: str
    metric: str
    windows: int
    window_s: float
    launch_sd: float
    plan: power.Plan

    @property
    def minutes(self) -> float:
        """Minutes of the whole campaign."""
        return self.plan.minutes or 0.0


@dataclass(frozen=True)
class Outlook:
    """``launch_sd`` (log scale) rests on ``df`` degrees of freedom; effects are relative, 0.02 is 2 %.

    ``costs`` gives for each wanted effect the plan that finds it with 80 % chance in a fixed design, or
    None where no sensible number of blocks would; an adaptive design usually needs fewer. ``open`` are the
    INCONCLUSIVE variants with the blocks that would settle each, as the report says them. ``ways`` are the present
    one and the shortest for the smallest effect, where both could be estimated; ``baselines`` a better number of them.
    """

    launch_sd: float
    df: int
    blocks: int
    detectable_effect: float | None
    costs: Mapping[float, power.Plan | None]
    open: Mapping[str, int | None]
    adaptive: bool
    ways: tuple[Way, Way] | None
    baselines: int | None = None

    def sentences(self) -> list[str]:
        """Return the outlook in words."""
        lines = [
            f"A launch varies by {self.launch_sd:.1%} (standard deviation over all arms, {self.df} degrees of"
            " freedom)."
        ]
        if self.detectable_effect is not None:
            found = f"{self.detectable_effect:.1%}"
            lines.append(f"{self.blocks} blocks find an effect of {found} or more with 80 % chance.")
        for effect, plan in self.costs.items():
            if plan is None:
                lines.append(f"An effect of {effect:.1%} is out of reach at this noise.")
                continue
            time = "" if plan.minutes is None else f", about {plan.minutes:.0f} minutes"
            lines.append(f"To find {effect:.1%}: {plan.blocks} blocks, {plan.launches} launches{time}.")
        for name, blocks in self.open.items():
            more = f"about {blocks} {'more' if self.adaptive else 'fresh'} blocks would settle it"
            lines.append(
                f"{name} is inconclusive: {more if blocks else 'no sensible number of blocks settles it'}."
            )
        if self.baselines:
            lines.append(
                f"With so many variants {self.baselines} baselines a block (design.baselines) take fewer launches."
            )
        return [*lines, *([shortest_sentence(*self.ways)] if self.ways else [])]


def shortest_sentence(present: Way, shortest: Way) -> str:
    """Say what the shortest way is and what it saves."""
    if shortest.minutes > 0.9 * present.minutes:
        return f"The present windows and metric are about the shortest way ({present.minutes:.0f} minutes)."
    beside = (
        " (with TTFT beside it, so that prefill cannot suffer unseen)" if shortest.metric == DECODING else ""
    )
    return (
        f"Shortest way: {shortest.metric} of {shortest.workload}{beside}, {shortest.windows} windows of "
        f"{shortest.window_s:.0f} s: {shortest.plan.blocks} blocks, about {shortest.minutes:.0f} minutes, against "
        f"{present.plan.blocks} and {present.minutes:.0f} with {present.metric} and {present.window_s:.1f} s."
    )


def outlook(
    launches: Sequence[Mapping[str, Any]],
    campaign_design: Mapping[str, Any],
    variants: int,
    *,
    minutes_per_launch: float | None = None,
    effects: Sequence[float] = (),
    baseline: str = "baseline",
) -> Outlook | None:
    """Plan from the noise of the launches so far: A' against A, and every other arm about its own mean; arms far
    noisier than the others are left out.

    ``effects`` default to the smallest effect of interest and twice that. None before any arm has two
    blocks.
    """
    e = examine(launches, {}, campaign_design, baseline=baseline)
    noise = launch_noise(e.tested)
    if noise.df == 0:
        return None
    wanted = effects or (e.design.smallest_effect, 2 * e.design.smallest_effect)
    return Outlook(
        noise.sd,
        noise.df,
        min(e.design.max_blocks, LAST_LOOK) if e.design.adaptive else e.design.blocks,
        detectable_effect(noise.sd, e.design, variants),
        {
            w: power.plan_for(w, noise.sd, variants, e.design.alpha, minutes_per_launch, e.design.baselines)
            for w in wanted
        },
        {
            n: blocks_to_settle(e, n)
            for n, d in e.decisions.items()
            if d.verdict == "INCONCLUSIVE" and e.facts[n].blocks >= MIN_BLOCKS
        },
        e.design.adaptive,
        shortest_way(launches, e, variants),
        power.best_baselines(variants) if variants > 1.5 * e.design.baselines**2 else None,
    )


def shortest_way(
    launches: Sequence[Mapping[str, Any]], e: Examination, variants: int, effect: float | None = None
) -> tuple[Way, Way] | None:
    """Return the present way to find an effect (default: the smallest of interest) with 80 % chance in a fixed
    design, and the one that takes the least time: the primary metric or TPOT of its workload, and how long a launch
    is timed. None where records do not tell, or no sensible number of blocks would find it.

    From records alone: the noise between launches and between windows (`components`), how long a launch took, how
    much of that was timed and what each window cost untimed.
    """
    workload, metric = e.primary
    clock = _clock(launches, workload)
    wanted = effect or e.design.smallest_effect
    if clock is None:
        return None
    ways: list[Way] = []
    for name in dict.fromkeys((metric, DECODING)):
        parts = components(e, (workload, name), clock)
        for windows, seconds in [
            (clock.windows, clock.timed),
            *((max(2, round(t / 30)), t) for t in TIMED_S),
        ]:
            if parts is None or (
                seconds != clock.timed and seconds / windows < min(LEAST_WINDOW_S, seconds / 2)
            ):
                continue
            took = clock.launch + (seconds - clock.timed) + clock.gap * (windows - clock.windows)
            sd = math.sqrt(parts.of_launch(seconds))
            plan = power.plan_for(wanted, sd, variants, e.design.alpha, took / 60, e.design.baselines)
            if plan:
                ways.append(Way(workload, name, windows, seconds / windows, sd, plan))
    present = next((w for w in ways if w.metric == metric and w.windows * w.window_s == clock.timed), None)
    return (present, min(ways, key=lambda w: w.minutes)) if present else None


def components(e: Examination, key: Key, clock: Clock) -> Components | None:
    """Return the variances of a launch and of a window for one metric, over the arms that are alike.

    A launch's own is what is left of the noise of paired launches when its windows' part is taken off.
    """
    tested = {name: compare_arm(e.arms, name, key, e.design, e.baseline) for name in e.names}
    launch, windows = launch_noise(tested), pooled([window_noise(of, key) for of in e.arms.values()])
    if launch.df == 0 or windows.df == 0:
        return None
    own = max(0.0, launch.variance - windows.variance / clock.windows)
    return Components(own, windows.variance, clock.timed / clock.windows, clock.windows, launch.df)


@dataclass(frozen=True)
class Clock:
    """Seconds of a mean launch: all of it, what it was timed for on one workload in so many windows, and what each
    window cost beside that."""

    launch: float
    timed: float
    windows: int
    gap: float


def _clock(launches: Sequence[Mapping[str, Any]], workload: str) -> Clock | None:
    found = []
    for record in launches:
        windows = record.get("windows") or []
        mine = [float(w["duration_s"]) for w in windows if w["workload"] == workload]
        whole = (record.get("timeline") or {}).get("windows_s")
        if record["outcome"] != "completed" or not mine or not whole or not record.get("finished_at"):
            continue
        began, ended = (datetime.fromisoformat(record[name]) for name in ("started_at", "finished_at"))
        gap = (whole - sum(float(w["duration_s"]) for w in windows)) / len(windows)
        found.append(Clock((ended - began).total_seconds(), sum(mine), len(mine), max(0.0, gap)))
    if not found:
        return None
    mean = Clock(
        *(sum(getattr(c, f) for c in found) / len(found) for f in ("launch", "timed", "windows", "gap"))
    )
    return replace(mean, windows=round(mean.windows))

"""What the declared blocks can show on this host, and what a wanted effect would cost: for `snakemake
plan`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sglang_sweep.statistics import power
from sglang_sweep.statistics.arms import baselines_of
from sglang_sweep.statistics.boundary import LAST_LOOK, PRIOR_DF
from sglang_sweep.statistics.sequential import levels, pooled_variance
from sglang_sweep.verdict.session import examine

LAST_BLOCK = 10**9


@dataclass(frozen=True)
class Outlook:
    """``launch_sd`` (log scale) rests on ``df`` degrees of freedom; effects are relative, 0.02 is 2 %.

    ``costs`` gives for each wanted effect the plan that finds it with 80 % chance in a fixed design, or
    None where no sensible number of blocks would; an adaptive design usually needs fewer.
    """

    launch_sd: float
    df: int
    blocks: int
    detectable_effect: float | None
    costs: Mapping[float, power.Plan | None]

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
        return lines


def outlook(
    launches: Sequence[Mapping[str, Any]],
    campaign_design: Mapping[str, Any],
    variants: int,
    *,
    minutes_per_launch: float | None = None,
    effects: Sequence[float] = (),
    baseline: str = "baseline",
) -> Outlook | None:
    """Plan from the noise of the launches so far: A' against A, and every other arm about its own mean.

    ``effects`` default to the smallest effect of interest and twice that. None before any arm has two
    blocks.
    """
    e = examine(launches, {}, campaign_design, baseline=baseline)
    in_launch_units = [
        {b: d / math.sqrt(1 + 1 / len(baselines_of(name, baseline))) for b, d in tested.ratios.items()}
        for name, tested in e.tested.items()
    ]
    variance, df = pooled_variance(in_launch_units, LAST_BLOCK)
    if df == 0:
        return None
    launch_sd, adaptive = math.sqrt(variance), e.design.mode == "adaptive"
    blocks = min(e.design.max_blocks, LAST_LOOK) if adaptive else e.design.blocks
    level, _ = levels(blocks, e.design, max(variants, 1))
    prior_df = PRIOR_DF if adaptive else 0
    wanted = effects or (e.design.smallest_effect, 2 * e.design.smallest_effect)
    return Outlook(
        launch_sd,
        df,
        blocks,
        power.detectable_effect(power.ratio_sd(launch_sd), blocks, level, prior_df=prior_df),
        {w: power.plan_for(w, launch_sd, variants, e.design.alpha, minutes_per_launch) for w in wanted},
    )

"""Draws the axis of changes: logarithmic in the ratio, labelled in percent, with the band of no interest."""

from __future__ import annotations

import math

from matplotlib.axes import Axes

from sglang_sweep.report.palette import MUTED
from sglang_sweep.report.words import Variant


def margin_band(axes: Axes, smallest_effect: float | None) -> None:
    if smallest_effect:
        axes.axvspan(1 / (1 + smallest_effect), 1 + smallest_effect, color=MUTED, alpha=0.16, linewidth=0)
    axes.axvline(1, color=MUTED, linewidth=1)


def change_axis(axes: Axes, variants: list[Variant]) -> None:
    """Give a logarithmic ratio axis ticks that are round changes in percent."""
    ends = [1.0]
    for variant in variants:
        if variant.get("ratio"):
            ends += [variant["ratio"], *(end for end in variant.get("ci95") or [] if end)]
    low, high = min(*ends, 0.96), max(*ends, 1.04)
    room = (high / low) ** 0.06
    axes.set_xscale("log")
    axes.set_xlim(low / room, high * room)
    ticks = _spread(_round_ticks(low, high), math.log(high * room / (low / room)))
    axes.set_xticks(
        ticks, [f"{round((t - 1) * 100):+d} %".replace("-", "−") if t != 1 else "0" for t in ticks]
    )
    axes.set_xticks([], minor=True)


def _round_ticks(low: float, high: float) -> list[float]:
    """Return ratios of round changes between the ends, at most nine of them, not crowding one another."""
    for step in (1, 2, 5, 10, 20, 50, 100, 200, 500):
        first = math.ceil((low - 1) * 100 / step) * step
        ticks = [
            1 + change / 100
            for change in range(first, math.floor((high - 1) * 100) + 1, step)
            if change > -100
        ]
        if len(ticks) <= 9:
            return ticks or [1.0]
    return [1.0]


def _spread(ticks: list[float], width: float) -> list[float]:
    """Leave out ticks whose labels would touch: a logarithmic axis crowds them to the right; zero is kept."""
    kept = [1.0]
    for tick in sorted(ticks, key=lambda t: abs(math.log(t))):
        if all(abs(math.log(tick / other)) > 0.15 * width for other in kept):
            kept.append(tick)
    return sorted(kept)

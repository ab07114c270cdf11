"""Draws where a step's time goes: a bar for each phase of each profiled variant, by kernel class."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from sglang_sweep.report.canvas import label, save
from sglang_sweep.report.palette import INK, MUTED, arm_style

# Drawn from the left in this order; collectives first, since they are what a sweep mostly changes.
_ORDER = (
    "all_reduce",
    "other_collective",
    "attention",
    "gemm",
    "norm_activation",
    "sampling",
    "copy",
    "other",
)


def figure_profiles(profiles: Mapping[str, Mapping[str, Any]], out_svg: Path) -> None:
    """Draw the phases of each variant's decode cycle (prefill where there is none), in ms per step.

    `profiles` is variant name -> breakdown. Classes are costed at the minimum over ranks; what is left of a
    step's time is idle gaps and waiting, drawn pale.
    """
    bars = [(name, step) for name, breakdown in profiles.items() for step in _steps(breakdown)]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        for row, (_, step) in enumerate(bars):
            left = 0.0
            for number, kernel_class in enumerate(_ORDER):
                time = ((step.get("classes") or {}).get(kernel_class) or {}).get("ms_per_step") or 0.0
                axes.barh(row, time, left=left, height=0.62, color=arm_style(number)[0], linewidth=0)
                left += time
            rest = max(0.0, (step.get("ms_per_step") or 0.0) - left)
            axes.barh(row, rest, left=left, height=0.62, color=MUTED, alpha=0.18, linewidth=0)
        axes.set_yticks(
            range(len(bars)), [f"{label(name)}\n{_kind(step)}" for name, step in bars], fontsize=8.5
        )
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("ms per step")
        if not bars:
            axes.text(0.5, 0.5, "no profile", transform=axes.transAxes, ha="center", color=MUTED)
        shown = [c for c in _ORDER if any(c in (step.get("classes") or {}) for _, step in bars)]
        handles = [
            axes.barh(0, 0, color=arm_style(_ORDER.index(c))[0], label=c.replace("_", " ")) for c in shown
        ]
        if bars:
            handles.append(axes.barh(0, 0, color=MUTED, alpha=0.18, label="idle or waiting"))
            axes.legend(
                handles=handles,
                loc="upper left",
                bbox_to_anchor=(1.01, 1),
                frameon=False,
                fontsize=8.5,
                labelcolor=INK,
            )

    save(draw, out_svg, height=0.9 + 0.46 * max(3, len(bars)), salt="profiles")


def _steps(breakdown: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the steps of the decode cycle, or all where the profile has none."""
    cycle = {phase.get("kind") for phase in (breakdown.get("cycle") or {}).get("phases") or []}
    steps = list(breakdown.get("steps") or [])
    return [step for step in steps if step.get("kind") in cycle] or steps


def _kind(step: Mapping[str, Any]) -> str:
    size = f" bs={step['batch_size']}" if step.get("batch_size") is not None else ""
    return f"{step.get('kind')}{size}"

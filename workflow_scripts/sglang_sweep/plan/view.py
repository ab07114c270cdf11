"""``snakemake plan``: what would run, why, what it costs, and what is predicted to be a dead end."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from sglang_sweep.files.launches import read_launch
from sglang_sweep.plan.schedule import Arm, Cost, Schedule


def why_missing(arm: Arm, results: Path) -> str:
    """Why an arm's launches are not there: never measured, or which part of its identity moved."""
    launches = [
        path for top in ("", "*/") for path in results.glob(f"{top}launches/{arm.name}-*/block-*/launch.json")
    ]
    of_this_name = [path for path in launches if path.parents[1].name.rpartition("-")[0] == arm.name]
    for path in sorted(of_this_name, key=lambda path: path.stat().st_mtime, reverse=True):
        earlier = read_launch(path)
        if earlier.key == arm.key:
            return "more blocks"
        moved = _moved(earlier.identity, arm.identity)
        if moved:
            return "changed: " + ", ".join(moved)
    return "never measured"


def _moved(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The parts of an identity that differ, settings by name."""
    moved = []
    for part in new:
        before, after = old.get(part), new[part]
        if before == after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            names = sorted(k for k in {*before, *after} if before.get(k) != after.get(k))
            moved += [f"{part}.{name}" for name in names]
        else:
            moved.append(part.replace("_", " "))
    return moved


def render_plan(
    schedule: Schedule,
    cost: Cost,
    results: Path,
    predictions: Mapping[str, Sequence[str]],
    notes: Sequence[str],
) -> RenderableType:
    """The plan for the terminal; ``predictions`` are sentences with their source, by variant."""
    campaign = schedule.campaign
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for column in ("variant", "key", "blocks", "to run", "why"):
        table.add_column(column, overflow="fold", justify="right" if column == "to run" else "left")
    for arm in schedule.arms:
        mine = [launch for launch in schedule.launches if launch.arm is arm]
        missing = [launch for launch in mine if not launch.exists]
        table.add_row(
            arm.name,
            arm.key,
            _ranges([launch.block for launch in mine]),
            str(len(missing)) if missing else "-",
            why_missing(arm, results) if missing else "all there",
        )
    for variant in campaign.variants:
        if variant.planned_only:
            table.add_row(variant.name, "-", "-", "-", variant.why_planned)
    parts: list[RenderableType] = [
        Text(f"\nPlan of {campaign.name}", style="bold"),
        Text(campaign.question),
        table,
        Text(
            f"{cost.launches} launches to run, about {cost.minutes:.0f} minutes (from {cost.basis})."
            if cost.launches
            else "Nothing to run: every launch is there."
        ),
    ]
    parts += [Text(note) for note in notes]
    if predictions:
        parts.append(Text("\nPredicted here, before any GPU time", style="bold"))
        for name, sentences in predictions.items():
            parts += [Text(f"  {name}: {sentence}") for sentence in sentences]
    return Group(*parts)


def _ranges(numbers: list[int]) -> str:
    """``[1, 2, 3, 7]`` as ``1-3, 7``."""
    groups: list[list[int]] = []
    for number in sorted(numbers):
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ", ".join(f"{g[0]}-{g[-1]}" if len(g) > 1 else str(g[0]) for g in groups)


def console() -> Console:
    """Plain text, as wide as the terminal; 110 columns where there is none."""
    return Console(file=sys.stdout, highlight=False, width=None if sys.stdout.isatty() else 110)

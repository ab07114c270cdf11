"""What the plan says beside its launches: what the blocks can show, what was left out, what to think over first."""

from pathlib import Path

from sglang_sweep.campaign.model import Campaign
from sglang_sweep.files import places
from sglang_sweep.files.launches import read_launch
from sglang_sweep.plan.declaration import declared_design
from sglang_sweep.plan.predictions import planned_elsewhere, reopened_dead_ends
from sglang_sweep.plan.schedule import estimate
from sglang_sweep.plan.sweep import RESULTS, Sweep
from sglang_sweep.verdict.planning import outlook


def notes(sweep: Sweep, results: Path = RESULTS) -> list[str]:
    """Sentences for the plan: the effect that the declared blocks can detect, and launches left out earlier."""
    lines = warnings(sweep.campaign) + resolution(sweep, results)
    if planned_elsewhere(sweep):
        meant = sweep.campaign.meant_for or {}
        lines.append(f"This host has no GPU: predictions are for {meant['gpu_count']}x {meant['gpu']}.")
    skipped = [x for x in sweep.schedule.launches if x.exists and read_launch(x.path).outcome == "not_run"]
    if skipped:
        lines.append(
            f"{len(skipped)} launches were left out because their verdict was settled; delete to measure them:"
        )
        lines += [f"  {x.path}" for x in skipped[:5]] + (["  ..."] if len(skipped) > 5 else [])
    lines += [
        f"Reopened: {row['variant']} ({row['verdict']} for {row['held_for']}): {row['why']}"
        for row in reopened_dead_ends(sweep, results)
    ]
    return lines


def warnings(campaign: Campaign) -> list[str]:
    """What is allowed and hardly meant."""
    lines, blocks = [], campaign.design.planned_blocks
    if blocks < 3:
        times = "once" if blocks == 1 else f"{blocks} times"
        lines.append(
            f"Warning: an arm is launched {times}: noise can hardly be told from an effect. Six blocks are usual."
        )
    for workload in campaign.workloads:
        if workload.concurrency > workload.requests:
            lines.append(
                f"Warning: {workload.name} sends {workload.requests} requests and allows {workload.concurrency} at a"
                f" time, so never that many run together. Raise prompts, or lower concurrency."
            )
    return lines


def resolution(sweep: Sweep, results: Path) -> list[str]:
    """What the declared blocks can show, and what it would cost to show more, from the noise measured so far."""
    made = [
        read_launch(path).as_read()
        for arm in sweep.schedule.arms
        for path in places.launch_files(results, arm.folder).values()
    ]
    seen = outlook(
        [x for x in made if x["outcome"] == "completed"],
        declared_design(sweep.campaign.design),
        sum(not variant.planned_only for variant in sweep.campaign.variants),
        minutes_per_launch=estimate(sweep.schedule, results).minutes_per_launch,
        baseline=sweep.campaign.baseline.name,
    )
    return seen.sentences() if seen else []

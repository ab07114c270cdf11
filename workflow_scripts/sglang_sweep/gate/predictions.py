"""What is known before anything runs: predicted dead ends, what a new stack reopens, what the blocks can show."""

from pathlib import Path
from typing import Any

from sglang_sweep.campaign.model import Variant
from sglang_sweep.evidence.knowledge import load
from sglang_sweep.files import places
from sglang_sweep.files import records as record
from sglang_sweep.files.launches import read_launch
from sglang_sweep.gate.limits import Prediction, host_facts, predict
from sglang_sweep.gate.reopening import Place, reopened
from sglang_sweep.plan.declaration import declared_design
from sglang_sweep.plan.schedule import estimate
from sglang_sweep.plan.sweep import RESULTS, Sweep
from sglang_sweep.verdict.planning import outlook


def predicted(sweep: Sweep) -> dict[str, list[Prediction]]:
    """Limits that each variant meets on this host, by variant; from config/knowledge/limits.yaml."""
    knowledge = load()
    found = {}
    for variant in sweep.campaign.variants:
        version = sweep.stacks[variant.stack].sglang_version if variant.stack in sweep.stacks else None
        asked = {"flags": variant.flags, "env": variant.env, "change": variant.change.as_dict()}
        limits = predict(asked, version, _host_of(sweep, variant), knowledge)
        if limits:
            found[variant.name] = limits
    return found


def _host_of(sweep: Sweep, variant: Variant) -> dict[str, Any]:
    """The facts that limits speak of: this host's, or on a host without GPUs those the campaign is meant for."""
    facts = host_facts(sweep.host, variant.flags)
    if planned_elsewhere(sweep) and facts["platform"] == "cuda":
        meant = {name: value for name, value in (sweep.campaign.meant_for or {}).items() if name != "gpu"}
        facts |= meant | {"compute_major": int(float(meant["compute_capability"]))}
    return facts


def planned_elsewhere(sweep: Sweep) -> bool:
    """The campaign is for GPUs and this host has none."""
    return sweep.campaign.meant_for is not None and not sweep.host.get("gpus")


def predictions(sweep: Sweep) -> dict[str, list[str]]:
    """The same, one sentence a limit, with its source and what would reopen it."""
    return {
        name: [f"{p.sentence} Reopens when {p.reopens_when}" for p in limits]
        for name, limits in predicted(sweep).items()
    }


def reopened_dead_ends(sweep: Sweep, results: Path = RESULTS) -> list[dict[str, Any]]:
    """Dead ends of earlier stacks or hosts that the present ones reopen, and why (``host.reopening``)."""
    baseline = sweep.schedule.arms[0]
    stack = sweep.stacks[baseline.variant.stack]
    here = Place(stack.name, stack.sglang_version, sweep.host, stack.digest)
    rows = []
    for path in sorted((results / sweep.campaign.name / "history").glob("*.json")):
        if path.stem != baseline.key:
            rows += reopened(record.read_json(path), here)
    return rows


def notes(sweep: Sweep, results: Path = RESULTS) -> list[str]:
    """Sentences for the plan: the effect that the declared blocks can detect, and launches left out earlier."""
    lines = resolution(sweep, results)
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

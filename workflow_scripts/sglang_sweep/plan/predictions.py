"""What is known before anything runs: predicted dead ends, and what a new stack reopens."""

from pathlib import Path
from typing import Any

from sglang_sweep.campaign.model import Variant
from sglang_sweep.evidence.knowledge import load
from sglang_sweep.files import records as record
from sglang_sweep.gate.limits import Prediction, host_facts, predict
from sglang_sweep.gate.reopening import Place, reopened
from sglang_sweep.plan.sweep import RESULTS, Sweep


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

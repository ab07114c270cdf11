"""What a campaign declares, as plain data: all that evidence, verdicts and report know of it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sglang_sweep.campaign.declared import Design
from sglang_sweep.campaign.model import Campaign, Variant
from sglang_sweep.files import places
from sglang_sweep.files.digest import canonical_json, digest
from sglang_sweep.files.redaction import redacted_environment, redacted_flags
from sglang_sweep.host.host_class import host_identity
from sglang_sweep.plan import schedule as plan
from sglang_sweep.plan.sweep import Sweep


def declaration(sweep: Sweep) -> dict[str, Any]:
    """What the campaign says as a whole, as plain data for verdicts and report."""
    campaign = sweep.campaign
    return {
        "campaign": campaign.name,
        "question": campaign.question,
        "arms": {arm.folder: declared(sweep, arm) for arm in sweep.schedule.arms},
        "planned": [{"name": v.name} | _asked(v, campaign) for v in campaign.variants if v.planned_only],
        "design": declared_design(campaign.design),
        "communication": campaign.communication and _in_key_order(campaign.communication),
        "workloads": [_in_key_order(workload.model_dump(mode="json")) for workload in campaign.workloads],
        "host": host_identity(sweep.host),
        "stacks": {
            name: {
                "digest": s.digest,
                "sglang": s.sglang_version,
                "cuda": s.cuda,
                "python": s.python_version,
            }
            for name, s in sweep.stacks.items()
        },
    }


def collectives_file(results: Path, baseline: str, asked: Mapping[str, Any] | None) -> Path | None:
    """Where ``results`` holds the collectives measured alone as ``asked``; None if they are not. ``baseline`` is the
    baseline arm's folder."""
    return places.collectives_file(results, baseline, digest(asked)) if asked is not None else None


def declared_design(design: Design) -> dict[str, Any]:
    """The design as the campaign writes it, for the statistics."""
    return design.model_dump(mode="json")


def declared(sweep: Sweep, arm: plan.Arm) -> dict[str, Any]:
    """What the campaign says about an arm, as plain data for evidence and report."""
    variant = arm.variant
    return {
        "name": arm.name,
        "key": arm.key,
        **_asked(variant, sweep.campaign),
        "sglang_version": sweep.stacks[variant.stack].sglang_version,
        "proof": list(variant.proof),
        "tolerance": variant.tolerance,
        "declares": list(variant.declares),
    }


def _asked(variant: Variant, campaign: Campaign) -> dict[str, Any]:
    """What is asked of a variant, launched or only planned, with what it inherits."""
    return {
        "hypothesis": variant.hypothesis,
        "change": _in_key_order(_shown(change_from_baseline(variant, campaign.baseline))),
        "flags": _in_key_order(redacted_flags(variant.flags)),
        "env": _in_key_order(redacted_environment(variant.env, digest=True)),
        "stack": variant.stack,
        "model": plan.model_name(variant.model),
        "speculation": variant.speculation,
    }


def change_from_baseline(variant: Variant, baseline: Variant) -> dict[str, Any]:
    """A variant's change as it would be declared on the baseline itself, whatever parent it starts from.

    A flag or variable that was taken away is None. What the variant declares is named even where the baseline says
    the same.
    """
    declared = variant.change
    change: dict[str, Any] = {}
    for part, mine, base, own in (
        ("flags", variant.flags, baseline.flags, declared.flags),
        ("env", variant.env, baseline.env, declared.env),
    ):
        moved = {name for name in {*mine, *base} if mine.get(name) != base.get(name)}
        if names := sorted(moved.union(own)):
            change[part] = {name: mine.get(name) for name in names}
    if variant.stack != baseline.stack:
        change["stack"] = variant.stack
    if variant.model != baseline.model:
        change["model"] = plan.model_name(variant.model)
    return change | ({"patch": declared.patch} if declared.patch else {})


def _shown(change: dict[str, Any]) -> dict[str, Any]:
    return change | {part: redacted_flags(change[part]) for part in ("flags", "env") if part in change}


def _in_key_order(value: dict[str, Any]) -> dict[str, Any]:
    """The same data, mappings sorted: Snakemake compares parameters as texts, and order in YAML means nothing."""
    ordered: dict[str, Any] = json.loads(canonical_json(value))
    return ordered

"""What a campaign declares, as plain data: all that evidence, verdicts and report know of it."""

import json
from typing import Any

from sglang_sweep import plan
from sglang_sweep.campaign import Design, Variant
from sglang_sweep.digest import canonical_json
from sglang_sweep.host.host_class import host_identity
from sglang_sweep.sweep import Sweep


def declaration(sweep: Sweep) -> dict[str, Any]:
    """What the campaign says as a whole, as plain data for verdicts and report."""
    campaign = sweep.campaign
    return {
        "campaign": campaign.name,
        "question": campaign.question,
        "arms": {arm.folder: declared(sweep, arm) for arm in sweep.schedule.arms},
        "planned": [{"name": v.name} | _asked(v) for v in campaign.variants if v.planned_only],
        "design": declared_design(campaign.design),
        "workloads": [_in_key_order(vars(workload)) for workload in campaign.workloads],
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


def declared_design(design: Design) -> dict[str, Any]:
    """The design as the campaign writes it, for the statistics."""
    shown = vars(design)
    primary = {"workload": shown["primary_workload"], "metric": shown["primary_metric"]}
    return {k: v for k, v in shown.items() if not k.startswith("primary_")} | {"primary": primary}


def declared(sweep: Sweep, arm: plan.Arm) -> dict[str, Any]:
    """What the campaign says about an arm, as plain data for evidence and report."""
    variant = arm.variant
    return {
        "name": arm.name,
        "key": arm.key,
        "parent": variant.parent,
        **_asked(variant),
        "sglang_version": sweep.stacks[variant.stack].sglang_version,
        "proof": list(variant.proof),
        "tolerance": variant.tolerance,
        "declares": list(variant.declares),
    }


def _asked(variant: Variant) -> dict[str, Any]:
    """What is asked of a variant, launched or only planned, with what it inherits."""
    return {
        "hypothesis": variant.hypothesis,
        "change": _in_key_order(variant.change.as_dict()),
        "flags": _in_key_order(variant.flags),
        "env": _in_key_order(variant.env),
        "stack": variant.stack,
        "model": plan.model_name(variant.model),
        "speculation": variant.speculation,
    }


def _in_key_order(value: dict[str, Any]) -> dict[str, Any]:
    """The same data, mappings sorted: Snakemake compares parameters as texts, and order in YAML means nothing."""
    ordered: dict[str, Any] = json.loads(canonical_json(value))
    return ordered

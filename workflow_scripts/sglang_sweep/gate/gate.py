"""The environment gate: can what was asked for run on this host, and would its numbers mean anything?"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sglang_sweep.campaign.model import Variant
from sglang_sweep.gate.findings import Finding
from sglang_sweep.gate.host_checks import check_host
from sglang_sweep.gate.stack_checks import check_stack
from sglang_sweep.gate.subjects import stack_view, variant_view
from sglang_sweep.gate.variant_checks import check_variant


def gate(
    fp: Mapping[str, Any],
    stacks: Mapping[str, Mapping[str, Any]],
    variants: Sequence[Variant],
    *,
    weights_gib: Mapping[str, float] | None = None,
    server_env: Mapping[str, str] | None = None,
) -> list[Finding]:
    """All findings: of the host, of each stack, of each variant.

    ``stacks`` maps a name to the stack's declaration; under its key ``built`` the contents of stack.json,
    or None. ``weights_gib`` gives a variant's weights in GiB over all ranks. Variants that still need a
    source patch are left out: nothing of theirs can run.
    """
    views = {name: stack_view(name, facts) for name, facts in stacks.items()}
    subjects = [
        variant_view(variant, views[variant.stack], server_env, (weights_gib or {}).get(variant.name))
        for variant in variants
        if not variant.planned_only and variant.stack in views
    ]
    on_gpu = [subject.name for subject in subjects if subject.on_gpu]
    on_many = [subject.name for subject in subjects if subject.on_gpu and subject.gpus > 1]
    found = check_host(fp, on_gpu, on_many)
    for name, view in views.items():
        inside = [subject.name for subject in subjects if subject.stack == name]
        found += check_stack(fp, view, inside, [subject for subject in on_many if subject in inside])
    for subject in subjects:
        found += check_variant(fp, subject, views[subject.stack])
    return found


def fatal(findings: Sequence[Finding], requested: Collection[str] | None = None) -> list[Finding]:
    """Findings that forbid running what was asked for: failed, of severity ``fail``, and about it.

    ``requested`` are names of variants; None means all.
    """
    return [
        finding
        for finding in findings
        if finding.failed
        and finding.severity == "fail"
        and any(requested is None or name in requested for name in finding.concerns)
    ]


def runnable(findings: Sequence[Finding], variants: Sequence[Variant]) -> dict[str, list[Finding]]:
    """For every variant the findings that forbid it; an empty list means that it can run here."""
    return {variant.name: fatal(findings, {variant.name}) for variant in variants if not variant.planned_only}

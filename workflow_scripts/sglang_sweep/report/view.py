"""Gathers what both documents show, in reading order, so that Markdown and HTML cannot disagree."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sglang_sweep.report.answer import answer, fastest
from sglang_sweep.report.change import command_lines
from sglang_sweep.report.communication import communication_view
from sglang_sweep.report.environment import environment_rows
from sglang_sweep.report.escape import href
from sglang_sweep.report.expectations import gate_view, predicted
from sglang_sweep.report.facts import facts, plain
from sglang_sweep.report.method import design_sentences, noise_sentences
from sglang_sweep.report.profiles import profile_view
from sglang_sweep.report.rows import removed_rows
from sglang_sweep.report.sections import Sections
from sglang_sweep.report.speculation import speculation_view
from sglang_sweep.report.stacks import comparison_view, reopened_view
from sglang_sweep.report.variant_view import variant_view
from sglang_sweep.report.words import (
    label_of,
    primary_of,
    reading_order,
)

View = dict[str, Any]


def report_view(verdicts: Mapping[str, Any], folder: Path, sections: Sections, *, anchors: str = "") -> View:
    """Return everything a template needs; links are relative to `folder`, where the document will lie.

    `anchors` is put before the anchors of variants, which may be called like a section of the document.
    """
    variants = reading_order(list(verdicts["variants"]))
    views = [variant_view(v, verdicts, folder, sections, anchors) for v in variants]
    best = fastest(verdicts)
    session = verdicts.get("session") or {}
    return {
        "campaign": verdicts["campaign"],
        "question": verdicts.get("question"),
        "answer": answer(verdicts),
        "best": best["name"] if best else None,
        "metric": _metric_words(verdicts),
        "variants": views,
        "baseline": _baseline(verdicts.get("baseline")),
        "void": bool(session.get("void")),
        "void_reasons": [str(reason) for reason in session.get("reasons") or []],
        "noise": noise_sentences(verdicts),
        "rules": [f"{rule.get('id')}: {rule.get('description')}" for rule in session.get("rules") or []],
        "removed": removed_rows(session.get("removed"), views, folder),
        "host": facts(verdicts.get("host") or {}),
        "environment": environment_rows(sections.environment) if sections.environment else [],
        "stacks": [(str(name), plain(stack)) for name, stack in (verdicts.get("stacks") or {}).items()],
        "design": design_sentences(verdicts.get("design") or {}),
        "generated_from": _sources(list(map(str, verdicts.get("generated_from") or []))),
        "gate": gate_view(sections.gate),
        "speculation": _with_figure(speculation_view(sections.speculation), folder),
        "communication": _with_figure(communication_view(sections.communication), folder),
        "comparison": comparison_view(sections.stacks),
        "reopened": reopened_view(sections.reopened),
        "predictions": predicted(sections),
        "notes": (sections.notes or "").strip(),
        "profiled": _profiled(sections.profiles or {}, [v["name"] for v in variants]),
    }


def _with_figure(view: View | None, folder: Path) -> View | None:
    """Add the link to a section's figure; the page puts the picture itself in its place."""
    return view and view | {"figure_href": href(str(view["figure"]), folder) if view["figure"] else ""}


def _profiled(profiles: Mapping[str, Any], order: Sequence[str]) -> list[View]:
    """The profiles by name: the baseline's, which all others are read against, then in reading order."""
    names = sorted(profiles, key=lambda name: order.index(name) if name in order else -1)
    return [{"name": name, "profile": view} for name in names if (view := profile_view(profiles[name]))]


def _baseline(arm: Mapping[str, Any] | None) -> View | None:
    lines = command_lines(arm)
    if not arm or not lines:
        return None
    return {
        "name": arm.get("name") or "baseline",
        "key": arm.get("key"),
        "lines": lines,
        "hypothesis": arm.get("hypothesis"),
    }


def _metric_words(verdicts: Mapping[str, Any]) -> str:
    workload_name, metric = primary_of(verdicts)
    if not metric:
        return ""
    workload = f" on workload {workload_name}" if workload_name else ""
    orientation = ", baseline over variant, so that more is better" if metric.endswith("_ms") else ""
    return f"{label_of(metric)}{workload}{orientation}"


def _sources(paths: Sequence[str]) -> str:
    """Say what the verdicts were computed from: a few files by name, many by their number and folder."""
    if len(paths) <= 3:
        return ", ".join(paths) or "verdicts.json"
    folder = "" if any(map(os.path.isabs, paths)) else f" under {os.path.commonpath(paths)}"
    return f"{len(paths)} files{folder}"

"""Gathers what both documents show, in reading order, so that Markdown and HTML cannot disagree."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sglang_sweep.report.answer import answer, fastest
from sglang_sweep.report.change import change_lines, command_lines
from sglang_sweep.report.communication import communication_view
from sglang_sweep.report.correctness import correctness_sentences
from sglang_sweep.report.environment import environment_rows
from sglang_sweep.report.escape import anchor, href, log_line
from sglang_sweep.report.facts import facts, plain
from sglang_sweep.report.method import design_sentences, noise_sentences
from sglang_sweep.report.numbers import (
    MISSING,
    change_interval,
    count,
    p_value,
    percent,
    quantity,
    ratio,
    ratio_interval,
    signed_percent,
)
from sglang_sweep.report.profiles import explanation_view, profile_view
from sglang_sweep.report.sections import Sections
from sglang_sweep.report.speculation import speculation_view
from sglang_sweep.report.stacks import comparison_view, reopened_view
from sglang_sweep.report.words import (
    BELIEVED,
    GLYPHS,
    Variant,
    features,
    is_noise_arm,
    label_of,
    meaning,
    primary_of,
    reading_order,
    undeclared,
    unit_of,
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
        "removed": _removed(session.get("removed"), views, folder),
        "host": facts(verdicts.get("host") or {}),
        "environment": environment_rows(sections.environment) if sections.environment else [],
        "stacks": _stack_rows(verdicts.get("stacks")),
        "design": design_sentences(verdicts.get("design") or {}),
        "generated_from": _sources(list(map(str, verdicts.get("generated_from") or []))),
        "gate": _gate(sections.gate),
        "speculation": _with_figure(speculation_view(sections.speculation), folder),
        "communication": _with_figure(communication_view(sections.communication), folder),
        "comparison": comparison_view(sections.stacks),
        "reopened": reopened_view(sections.reopened),
        "predictions": _predictions(sections),
        "notes": (sections.notes or "").strip(),
        "profiled": [v for v in views if v["profile"]],
    }


def variant_view(
    v: Variant, verdicts: Mapping[str, Any], folder: Path, sections: Sections, anchors: str = ""
) -> View:
    """Return one variant as texts, rows and links."""
    name = str(v["name"])
    smallest = (verdicts.get("design") or {}).get("smallest_effect")
    engagement = v.get("engagement") or {}
    launches = [_launch_row(row, folder, _primary_unit(verdicts)) for row in v.get("launches") or []]
    holds = v.get("holds_for") or {}
    proofs: list[View] = [
        {
            "feature": f.get("feature"),
            "state": str(f.get("state")).replace("_", " "),
            "note": plain(f["note"]) if f.get("note") else "",
            "source": plain(f["source"]) if f.get("source") else "",
            "evidence": _evidence(f.get("evidence"), folder),
        }
        for f in features(v)
    ]
    shown_below = [row for proof in proofs for row in proof["evidence"]]
    return {
        "name": name,
        "anchor": anchors + anchor(name),
        "key": v.get("key"),
        "noise_arm": is_noise_arm(v),
        "verdict": v["verdict"],
        "glyph": GLYPHS.get(v["verdict"], " "),
        "meaning": meaning(v, smallest),
        "hypothesis": v.get("hypothesis"),
        "measured": v.get("ratio") is not None,
        "ratio": ratio(v.get("ratio")),
        "ratio_interval": ratio_interval(v.get("ci95")),
        "gain": signed_percent(None if v.get("ratio") is None else v["ratio"] - 1),
        "gain_interval": change_interval(v.get("ci95")),
        "blocks": v.get("blocks") or MISSING,
        "statistic": _statistic(v),
        "more_blocks": v.get("more_blocks"),
        "reasons": [str(reason) for reason in v.get("reasons") or []],
        "diff": change_lines(v.get("change"), (verdicts.get("baseline") or {})),
        "outcome": str(v.get("outcome") or "not_run").replace("_", " "),
        "cause": v.get("cause"),
        "evidence": [row for row in _evidence(v.get("evidence"), folder) if row not in shown_below],
        "shown_by": _shown_by(v, folder, f"#{anchors}{anchor(name)}"),
        "prediction": next((p for p in _predictions(sections) if p["variant"] == name), None),
        "engagement": str(engagement.get("state") or "").replace("_", " "),
        "engagement_note": engagement.get("note"),
        "features": proofs,
        "confounds": [_confound(c) for c in v.get("confounds") or []],
        "correctness": correctness_sentences(v.get("correctness")),
        "metrics": [_metric_row(row) for row in v.get("metrics") or []],
        "launches": launches,
        "removed": [row for row in launches if row["removed"]],
        "reopen_when": [_reopen(item, folder) for item in v.get("reopen_when") or []],
        "holds_for": ", ".join(
            f"{key.replace('_', ' ')} {plain(value)}" for key, value in holds.items() if value
        ),
        "remedies": [plain(item) for item in v.get("remedies") or []],
        "profile": profile_view((sections.profiles or {}).get(name)),
        "explanation": explanation_view((sections.explanations or {}).get(name)),
    }


def _removed(rows: Sequence[Mapping[str, Any]] | None, views: list[View], folder: Path) -> list[View]:
    """Return what the rules removed in the whole session; without that list, what the launches say."""
    if rows is None:
        return [row | {"variant": v["name"], "anchor": v["anchor"]} for v in views for row in v["removed"]]
    shown = {v["name"]: v["anchor"] for v in views}
    return [
        {
            "variant": row.get("arm"),
            "anchor": shown.get(row.get("arm"), ""),
            "block": row.get("block"),
            "removed": f"{row.get('rule')}{_window(row.get('window'))}: {row.get('saw')}",
            "href": href(str(row["file"]), folder) if row.get("file") else "",
        }
        for row in rows
    ]


def _window(index: int | None) -> str:
    return "" if index is None else f", window {index + 1}"


def _statistic(v: Variant) -> str:
    """Return the numbers a verdict on speed rests on, in one line."""
    if v.get("ratio") is None:
        return ""
    parts = [
        f"{ratio(v['ratio'])} {ratio_interval(v.get('ci95'))} over {count(v.get('blocks') or 0, 'block')}",
        f"p {p_value(v.get('p_value'))}",
        f"Holm p {p_value(v.get('p_holm'))}",
        f"exact p {p_value(v.get('p_exact'))}",
        f"equivalence p {p_value(v.get('equivalence_p'))}",
    ]
    return "; ".join(part for part in parts if MISSING not in part)


def _with_figure(view: View | None, folder: Path) -> View | None:
    """Add the link to a section's figure; the page puts the picture itself in its place."""
    return view and view | {"figure_href": href(str(view["figure"]), folder) if view["figure"] else ""}


def _shown_by(v: Variant, folder: Path, here: str) -> View:
    """Return the one thing a verdict rests on, labelled and linked: a line, a setting or a statistic."""
    idle = [f for f in features(v) if f.get("state") == "not_engaged"]
    lines = _evidence((idle[0].get("evidence") if idle else None) or v.get("evidence"), folder)
    verdict = v["verdict"]
    if verdict in ("DEAD_END", "NO_OP") and lines and lines[0]["href"]:
        return {"label": lines[0]["label"].split("/")[-1], "href": lines[0]["href"]}
    if verdict == "CONFOUNDED" and undeclared(v):
        first = undeclared(v)[0]
        return {
            "label": f"{first['setting']} {plain(first.get('baseline'))} → {plain(first.get('variant'))}",
            "href": here,
        }
    if verdict == "WRONG_OUTPUT" and (v.get("correctness") or {}).get("agreement") is not None:
        return {"label": f"{percent(v['correctness']['agreement'])} of tokens agree", "href": here}
    if verdict in BELIEVED and v.get("ratio") is not None:
        if verdict == "NO_DIFFERENCE":
            return {"label": f"equivalence p {p_value(v.get('equivalence_p'))}", "href": here}
        holm = v.get("p_holm")
        return {
            "label": f"p {p_value(v.get('p_value'))}" if holm is None else f"Holm p {p_value(holm)}",
            "href": here,
        }
    launches = v.get("launches") or []
    if launches:
        return {"label": count(len(launches), "launch", "launches"), "href": here}
    return {"label": "", "href": ""}


def _evidence(rows: Sequence[Any] | None, folder: Path) -> list[View]:
    """Return evidence as `{label, href, text}`; a bare string is its own text."""
    shown = []
    for row in rows or []:
        item = row if isinstance(row, Mapping) else {"text": row}
        file, line = item.get("file"), item.get("line")
        label = f"{_short(str(file))}{f':{line}' if line else ''}" if file else ""
        shown.append(
            {
                "label": label,
                "path": f"{file}{f':{line}' if line else ''}" if file else "",
                "href": href(str(file), folder, line) if file else "",
                "text": log_line(item.get("text") or ""),
                "source": item.get("source"),
            }
        )
    return shown


def _short(file: str) -> str:
    """Return a path from the block's folder on, which tells launches of a variant apart; else the file's name."""
    parts = Path(file).parts
    block = next((i for i, part in enumerate(parts) if part.startswith("block-")), len(parts) - 1)
    return "/".join(parts[block:])


def _launch_row(row: Mapping[str, Any], folder: Path, unit: str) -> View:
    file = row.get("file")
    return {
        "block": row.get("block"),
        "file": str(file) if file else "",
        "href": href(str(file), folder) if file else "",
        "outcome": row.get("outcome"),
        "value": quantity(row.get("value"), unit),
        "removed": plain(row["removed"]) if row.get("removed") else "",
    }


def _metric_row(row: Mapping[str, Any]) -> View:
    unit = row.get("unit") or unit_of(row["metric"])
    value = row.get("ratio")
    return {
        "workload": row.get("workload"),
        "metric": label_of(row["metric"]),
        "baseline": quantity(row.get("baseline_mean"), unit),
        "variant": quantity(row.get("variant_mean"), unit),
        "gain": signed_percent(None if value is None else value - 1),
        "interval": change_interval(row.get("ci95")),
        "primary": bool(row.get("primary")),
    }


def _confound(row: Mapping[str, Any]) -> View:
    moves, declared = bool(row.get("moves_performance")), bool(row.get("declared"))
    return {
        "setting": row.get("setting"),
        "baseline": plain(row.get("baseline")),
        "variant": plain(row.get("variant")),
        "moves": "no" if not moves else "yes, but declared" if declared else "yes",
        "implied_by": plain(row["implied_by"]) if row.get("implied_by") else "",
        "pin": plain(row["pin"]) if row.get("pin") else "",
        "why": plain(row["why"]) if row.get("why") else "",
    }


def _reopen(item: Any, folder: Path) -> View:
    """A condition is a sentence, or a record with its source."""
    if not isinstance(item, Mapping):
        return {"text": str(item), "source": "", "href": ""}
    text = item.get("when") or item.get("what") or item.get("why") or plain(item)
    source = str(item.get("source") or "")
    return {"text": str(text), "source": source, "href": href(source, folder) if "://" in source else ""}


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


def _primary_unit(verdicts: Mapping[str, Any]) -> str:
    return unit_of(primary_of(verdicts)[1] or "")


def _stack_rows(stacks: Any) -> list[tuple[str, str]]:
    if isinstance(stacks, Mapping):
        return [(str(name), plain(stack)) for name, stack in stacks.items()]
    rows = []
    for stack in stacks or []:
        if isinstance(stack, Mapping):
            rest = {key: value for key, value in stack.items() if key != "name"}
            rows.append((str(stack.get("name")), plain(rest)))
        else:
            rows.append((str(stack), ""))
    return rows


def _gate(findings: Sequence[Mapping[str, Any]] | None) -> View | None:
    """Return what the gate found: what failed or could not be decided, the worst first, and what passed."""
    if not findings:
        return None
    rank = {"fail": 0, "warn": 1, "info": 2}
    rows: list[View] = [
        {
            key: plain(f.get(key))
            for key in ("severity", "id", "title", "scope", "found", "why", "remedy", "source")
        }
        | {"passed": f.get("passed") is True}
        for f in findings
    ]
    rows.sort(key=lambda row: rank.get(row["severity"], 3))
    return {
        "open": [row for row in rows if not row["passed"]],
        "passed": [row for row in rows if row["passed"]],
    }


def _predictions(sections: Sections) -> list[View]:
    """Return what was expected before any launch: as given, or what the gate says against a variant."""
    if sections.predictions is not None:
        return [_prediction(row) for row in sections.predictions]
    return [
        _prediction(
            f | {"variant": str(f["scope"]).partition(":")[2], "why": f"{f.get('found')}: {f.get('why')}"}
        )
        for f in map(dict, sections.gate or [])
        if f.get("passed") is False
        and f.get("severity") == "fail"
        and str(f.get("scope")).startswith("variant:")
    ]


def _sources(paths: Sequence[str]) -> str:
    """Say what the verdicts were computed from: a few files by name, many by their number and folder."""
    if len(paths) <= 3:
        return ", ".join(paths) or "verdicts.json"
    return f"{len(paths)} files under {os.path.commonpath(paths)}"


def _prediction(row: Mapping[str, Any]) -> View:
    """`row` is a prediction of `evidence.limits` with its `variant`, or has the same keys."""
    return {
        "variant": row.get("variant"),
        "verdict": row.get("verdict") or "DEAD_END",
        "cause": row.get("cause"),
        "why": plain(row.get("why")),
        "source": plain(row.get("source")),
        "known": "seen" if row.get("seen") else "read",
        "remedy": plain(row["remedy"]) if row.get("remedy") else "",
        "reopens_when": plain(row["reopens_when"]) if row.get("reopens_when") else "",
    }

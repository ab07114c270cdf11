"""Shows one variant: its verdict, what it rests on, and what would reopen it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sglang_sweep.report.change import change_lines
from sglang_sweep.report.correctness import correctness_sentences
from sglang_sweep.report.escape import anchor
from sglang_sweep.report.expectations import predicted
from sglang_sweep.report.facts import plain
from sglang_sweep.report.numbers import (
    MISSING,
    change_interval,
    count,
    p_value,
    percent,
    ratio,
    ratio_interval,
    signed_percent,
)
from sglang_sweep.report.profiles import explanation_view
from sglang_sweep.report.rows import confound_row, evidence_rows, launch_row, metric_row, reopening
from sglang_sweep.report.sections import Sections
from sglang_sweep.report.words import (
    BELIEVED,
    GLYPHS,
    Variant,
    features,
    is_noise_arm,
    meaning,
    primary_of,
    undeclared,
    unit_of,
)

View = dict[str, Any]


def variant_view(
    v: Variant, verdicts: Mapping[str, Any], folder: Path, sections: Sections, anchors: str = ""
) -> View:
    """Return one variant as texts, rows and links."""
    name = str(v["name"])
    smallest = (verdicts.get("design") or {}).get("smallest_effect")
    engagement = v.get("engagement") or {}
    launches = [
        launch_row(row, folder, unit_of(primary_of(verdicts)[1] or "")) for row in v.get("launches") or []
    ]
    holds = v.get("holds_for") or {}
    proofs: list[View] = [
        {
            "feature": f.get("feature"),
            "state": str(f.get("state")).replace("_", " "),
            "note": plain(f["note"]) if f.get("note") else "",
            "source": plain(f["source"]) if f.get("source") else "",
            "evidence": evidence_rows(f.get("evidence"), folder),
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
        "evidence": [row for row in evidence_rows(v.get("evidence"), folder) if row not in shown_below],
        "shown_by": _shown_by(v, folder, f"#{anchors}{anchor(name)}"),
        "prediction": next((p for p in predicted(sections) if p["variant"] == name), None),
        "engagement": str(engagement.get("state") or "").replace("_", " "),
        "engagement_note": engagement.get("note"),
        "features": proofs,
        "confounds": [confound_row(c) for c in v.get("confounds") or []],
        "correctness": correctness_sentences(v.get("correctness")),
        "metrics": [metric_row(row) for row in v.get("metrics") or []],
        "launches": launches,
        "removed": [row for row in launches if row["removed"]],
        "reopen_when": [reopening(item, folder) for item in v.get("reopen_when") or []],
        "holds_for": ", ".join(
            f"{key.replace('_', ' ')} {plain(value)}" for key, value in holds.items() if value
        ),
        "remedies": [plain(item) for item in v.get("remedies") or []],
        "explanation": explanation_view((sections.explanations or {}).get(name)),
    }


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


def _shown_by(v: Variant, folder: Path, here: str) -> View:
    """Return the one thing a verdict rests on, labelled and linked: a line, a setting or a statistic."""
    idle = [f for f in features(v) if f.get("state") == "not_engaged"]
    lines = evidence_rows((idle[0].get("evidence") if idle else None) or v.get("evidence"), folder)
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

"""Says in a few sentences how the numbers were made and how noisy the session was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sglang_sweep.report.numbers import change_interval, count, p_value, percent, signed_percent, threshold
from sglang_sweep.report.words import is_noise_arm, label_of, primary_of


def design_sentences(design: Mapping[str, Any]) -> list[str]:
    """Return how this campaign was measured, with its own figures, for a reader who knows no statistics."""
    seed = f" from seed {design['seed']}" if design.get("seed") is not None else ""
    windows = f"{design['windows']} timed windows" if design.get("windows") else "timed windows"
    sentences = [
        "The unit is a launch: one fresh server process tree, from spawn to proven-gone. "
        f"Its {windows} are averaged to one number, never counted as replicates.",
        "Each block launches every live variant once and the baseline twice (A and A'), in an order drawn "
        f"at random{seed}, so that drift of the host falls on all arms alike.",
        "Per block, a variant is set against the mean of A and A' on the log scale; the ratio is the "
        "geometric mean over blocks, with a paired t interval at 95 %. p is that of the paired t-test, "
        "corrected over the campaign's variants by Holm's method; where the blocks suffice, the exact "
        "sign-flip p must agree.",
    ]
    if design.get("blocks"):
        sentences.insert(1, _blocks(design))
    if design.get("mode") == "adaptive":
        sentences.append(
            "Arms stop when settled: intervals and p-values count every look, and the spread of an arm is "
            "moderated by that of all others (Smyth 2004)."
        )
    if design.get("smallest_effect"):
        sentences.append(
            f"The smallest effect of interest is {threshold(design['smallest_effect'])}: WIN and LOSS must "
            "reach it, and NO_DIFFERENCE must be shown by two one-sided tests (TOST) to lie within it."
        )
    if design.get("alpha"):
        sentences.append(f"The error rate over all variants is {threshold(design['alpha'])}.")
    workload_name, metric = primary_of({"design": design})
    if metric:
        workload = f" of workload {workload_name}" if workload_name else ""
        sentences.append(
            f"Verdicts rest on {label_of(metric)}{workload} alone; the other metrics are shown, not mined."
        )
    sentences.append(
        "Rules that remove a launch or a window are fixed beforehand, blind to the result and equal for "
        "all arms; what they removed is listed."
    )
    return sentences


def noise_sentences(verdicts: Mapping[str, Any]) -> list[str]:
    """Return what the baseline against itself (A'/A) says about the session."""
    aa = (verdicts.get("session") or {}).get("aa") or {}
    arm: Mapping[str, Any] = next((v for v in verdicts["variants"] if is_noise_arm(v)), {})
    value = aa.get("ratio") or arm.get("ratio")
    if value is None:
        return ["The baseline was not measured against itself: the noise of this session is unknown."]
    interval = change_interval(aa.get("ci95") or arm.get("ci95"))
    blocks = aa.get("blocks") or arm.get("blocks") or 0
    p = aa["p_value"] if aa.get("p_value") is not None else arm.get("p_value")
    sentences = [
        f"A' against A: {signed_percent(value - 1)} {interval} over {count(blocks, 'block')}, "
        f"p {p_value(p)}. Both arms are the same command, so this is what chance and drift alone do here."
    ]
    sentences += _gpus((verdicts.get("session") or {}).get("gpus") or [])
    if aa.get("launch_sd") is not None:
        sentences.append(
            f"A launch of the baseline varies by {percent(aa['launch_sd'])} (standard deviation of its logarithm,"
            " from A' and A)."
        )
    if aa.get("detectable_effect") is not None:
        effect = percent(aa["detectable_effect"])
        sentences.append(
            f"At this noise, the declared blocks find a change of {effect} four times in five; a noisier variant"
            " needs more."
        )
    return sentences


def _gpus(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return which blocks ran on which set of GPUs, where there was more than one."""
    if len(rows) < 2:
        return []
    named = [
        f"{'block' if len(row['blocks']) == 1 else 'blocks'} {', '.join(map(str, row['blocks']))} on "
        + (f"the GPUs {row['gpus']}" if row["gpus"] else "GPUs that the records do not name")
        for row in rows
    ]
    return [f"Launches ran on {len(rows)} sets of GPUs: {'; '.join(named)}."]


def _blocks(design: Mapping[str, Any]) -> str:
    mode = design.get("mode") or "fixed"
    limit = f", at most {design['max_blocks']}" if mode == "adaptive" and design.get("max_blocks") else ""
    return f"Declared: {count(design['blocks'], 'block')} ({mode}{limit})."

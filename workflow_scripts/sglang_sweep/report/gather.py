"""Collects what a report shows beside the verdicts from where the other steps left it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sglang_sweep.campaign.checks import PRIME
from sglang_sweep.campaign.flags import ranks
from sglang_sweep.campaign.model import Variant
from sglang_sweep.costs.communication import read_curves
from sglang_sweep.costs.communication_model import report as communication_report
from sglang_sweep.costs.link import explain_difference
from sglang_sweep.costs.speculation_arms import speculation_of
from sglang_sweep.errors import UserError
from sglang_sweep.files.launches import read_launch
from sglang_sweep.files.records import read_json
from sglang_sweep.plan.predictions import predicted, reopened_dead_ends
from sglang_sweep.plan.sweep import Sweep
from sglang_sweep.report.record import ReportData
from sglang_sweep.statistics import curves
from sglang_sweep.statistics.launches import Measured, by_arm

Record = dict[str, Any]


def report_data(
    sweep: Sweep,
    verdicts: Mapping[str, Any],
    launches: Sequence[Path],
    profiles: Sequence[Path],
    communication: Path | None,
) -> ReportData:
    """What is there; a part that was not made is left out."""
    records = [read_launch(path).as_read() for path in launches]
    breakdowns = {
        record["variant"]: record["breakdown"]
        for record in (read_launch(p).as_read() for p in profiles)
        if record["breakdown"]
    }
    return ReportData.model_validate(
        {
            "environment": sweep.host,
            "gate": gate_findings(sweep),
            "profiles": {name: found["decode"] for name, found in breakdowns.items() if "decode" in found},
            "explanations": explanations(sweep, verdicts, breakdowns),
            "speculation": speculation(sweep, records, breakdowns),
            "ladders": ladders(sweep, records),
            "communication": collectives(sweep, verdicts, communication, breakdowns),
            "notes": sweep.campaign.notes or "",
            "reopened": reopened_dead_ends(sweep) or [],
            "predictions": [
                p.as_dict() | {"variant": name} for name, found in predicted(sweep).items() for p in found
            ],
        }
    )


def gate_findings(sweep: Sweep) -> list[Record]:
    """The gate's answers; what cannot be told here, where a stack may be missing, as the measuring host told it."""
    found = [finding.as_dict() for finding in sweep.gate_findings()]
    told = read_json(sweep.ready)["gate"] if sweep.ready.exists() else []
    then = {(answer["id"], answer["scope"]): answer for answer in told if answer["passed"] is not None}
    return [then.get((row["id"], row["scope"]), row) if row["passed"] is None else row for row in found]


def explanations(
    sweep: Sweep, verdicts: Mapping[str, Any], breakdowns: Mapping[str, Any]
) -> dict[str, Record]:
    """For every WIN and LOSS, which phase or kernel class moved, where both arms were profiled."""
    baseline = breakdowns.get(sweep.campaign.baseline.name)
    found = {}
    for row in verdicts["variants"]:
        if row["verdict"] in ("WIN", "LOSS"):
            if baseline and row["name"] in breakdowns:
                found[row["name"]] = explain_difference(baseline, breakdowns[row["name"]], row["ratio"])
            else:
                unprofiled = row["name"] if baseline else sweep.campaign.baseline.name
                sentence = f"No profile of {unprofiled}: which kernels moved is not known (profile: true)."
                found[row["name"]] = {"sentence": sentence, "moved": [], "explained": False}
    return found


def speculation(sweep: Sweep, records: Sequence[Record], breakdowns: Mapping[str, Any]) -> Record | None:
    """The economics of the variants that say how they speculate, at the primary workload; None without any."""
    arms: dict[int, list[Variant]] = {}
    for variant in sweep.campaign.variants:
        if variant.speculation and not variant.planned_only:
            arms.setdefault(int(variant.flags.get("speculative-num-steps", 1)), []).append(variant)
    if not arms:
        return None
    # One draft length at a time: the cost of a cycle depends on it. The one with most arms tells most.
    steps, variants = max(arms.items(), key=lambda item: len(item[1]))
    workload = next(w for w in sweep.campaign.workloads if w.name == sweep.campaign.design.primary.workload)
    baseline = sweep.campaign.baseline.name
    profiled = next((breakdowns[v.name] for v in variants if v.name in breakdowns), None)
    try:
        return speculation_of(
            [r for r in records if r["variant"].partition(PRIME)[0] == baseline],
            {v.name: [r for r in records if r["variant"] == v.name] for v in variants},
            workload=workload.name,
            concurrency=workload.concurrency,
            n_steps=steps,
            simulated=[v.name for v in variants if v.speculation == "simulated"],
            profiles={"variant": profiled} if profiled else None,
        )
    except UserError:
        return None


def ladders(sweep: Sweep, records: Sequence[Record]) -> list[Record]:
    """The curve of each arm on each ladder of the campaign, what it carries, and where it crosses the baseline."""
    arms: dict[str, list[Measured]] = {}
    for name, launches in by_arm(records).items():
        arms.setdefault(name.partition(PRIME)[0], []).extend(launches)
    baseline, found = sweep.campaign.baseline.name, []
    gpus = max(1, ranks(sweep.campaign.baseline.flags))
    for ladder in dict.fromkeys(w.ladder for w in sweep.campaign.workloads if w.ladder):
        steps = [w for w in sweep.campaign.workloads if w.ladder == ladder]
        by_rate = len({w.request_rate for w in steps}) > 1
        levels = [(float((w.request_rate if by_rate else w.concurrency) or 0), w.name) for w in steps]
        rows = [
            row
            for arm, launches in arms.items()
            for load, name in levels
            if (row := _level(arm, load, name, launches, gpus))
        ]
        rates = {
            f"{row['arm']} {row['load']}": (row["per_user"], row["per_gpu"])
            for row in rows
            if row["per_user"] and row["per_gpu"]
        }
        best = curves.pareto(rates)
        for row in rows:
            row["best"] = f"{row['arm']} {row['load']}" in best
        carried = []
        for arm, launches in arms.items():
            most = curves.capacity(launches, levels)
            cross = None
            if arm != baseline:
                cross = curves.crossing(launches, arms.get(baseline, []), levels, "output_throughput")
            if most or cross:
                where = {"crosses": cross[0], "crosses_ci95": cross[1]} if cross else {}
                carried.append({"arm": arm, **(asdict(most) if most else {}), **where})
        if rows:
            unit = "requests a second" if by_rate else "requests at once"
            found.append({"name": ladder, "unit": unit, "levels": rows, "carried": carried})
    return found


def _level(arm: str, load: float, name: str, launches: Sequence[Measured], gpus: int) -> Record | None:
    throughput = curves.level_values(launches, name, "output_throughput")
    if not throughput:
        return None
    row: Record = {"arm": arm, "load": load, "launches": len(throughput), "per_user": None}
    row["per_gpu"], row["per_gpu_ci95"] = curves.mean_of([value / gpus for value in throughput])
    if tpot := curves.level_values(launches, name, "mean_tpot_ms"):
        row["per_user"], row["per_user_ci95"] = curves.mean_of([1000 / value for value in tpot])
    if ttft := curves.level_values(launches, name, "p99_ttft_ms"):
        row["p99_ttft_ms"] = curves.mean_of(ttft)[0]
    met = [launch.raw[(name, "attainment")] for launch in launches if (name, "attainment") in launch.raw]
    return row | ({"attainment": sum(met) / len(met)} if met else {})


def collectives(
    sweep: Sweep, verdicts: Mapping[str, Any], measured: Path | None, breakdowns: Mapping[str, Any]
) -> Record | None:
    """Predicted, profiled and share of TPOT, side by side; None when the collectives were not measured."""
    hidden = sweep.hidden_size(sweep.campaign.baseline)
    if measured is None or not measured.exists() or hidden is None:
        return None
    tpot = {
        row["name"]: metric["variant_mean"]
        for row in verdicts["variants"]
        for metric in row["metrics"]
        if metric["metric"] == "mean_tpot_ms" and metric["workload"] == sweep.campaign.design.primary.workload
    }
    drafts = [int(v.flags["speculative-num-draft-tokens"]) for v in sweep.campaign.variants if v.speculation]
    try:
        curves = read_curves(measured)
        setting = next((c.setting for c in curves if c.setting in ("default", "baseline")), curves[0].setting)
        return communication_report(
            curves, breakdowns, hidden, setting=setting, num_draft_tokens=max(drafts, default=1), tpot_ms=tpot
        )
    except UserError:
        return None

"""verdicts.json: the statistics of a campaign joined with the evidence of each arm."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sglang_sweep.campaign.checks import PRIME
from sglang_sweep.files import records as record
from sglang_sweep.files.launches import read_launch
from sglang_sweep.verdict.analysis import analyse
from sglang_sweep.verdict.records import Verdicts


def build_verdicts(
    declared: Mapping[str, Any],
    launches: Sequence[Path],
    evidence: Sequence[Path],
) -> Verdicts:
    """``declared`` is what ``declaration.declaration`` returns; the paths are launch.json and evidence files.

    Paths in the result are relative to the working directory, so that every one can be opened from there.
    """
    host = declared["host"]
    records = [{**read_launch(path).as_read(), "file": str(path)} for path in launches if path.exists()]
    by_name = {item["name"]: item for item in map(record.read_json, evidence)}
    arms = {arm["name"]: arm for arm in declared["arms"].values()}
    baseline = next(iter(arms))
    numbers = analyse(
        records,
        by_name,
        declared["design"],
        variants=[name for name in arms if name != baseline and not name.startswith(baseline + PRIME)]
        + [variant["name"] for variant in declared["planned"]],
        baseline=baseline,
    )
    rows = []
    for row in numbers["variants"]:
        arm = arms.get(row["name"]) or next(v for v in declared["planned"] if v["name"] == row["name"])
        shown = by_name.get(row["name"], {})
        rows.append(
            {
                **row,
                "key": arm.get("key"),
                "change": arm["change"],
                "hypothesis": arm["hypothesis"],
                "speculation": arm.get("speculation"),
                **{
                    name: shown[name]
                    for name in ("engagement", "confounds", "correctness", "evidence", "remedies")
                    if name in shown
                },
                "cause": row.get("cause") or shown.get("cause"),
                "reopen_when": shown.get("reopen_when", []),
                "holds_for": {
                    "stack": arm["stack"],
                    "sglang_version": arm["sglang_version"],
                    "stack_digest": declared["stacks"][arm["stack"]]["digest"],
                    "host_class": host["class_digest"],
                    **measured_on([r for r in records if r["variant"] == row["name"]]),
                }
                if "key" in arm  # what is only planned holds for nothing yet
                else {},
            }
        )
    return Verdicts(
        **{
            "schema_version": Verdicts.VERSION,
            "campaign": declared["campaign"],
            "question": declared["question"],
            "baseline": {
                name: arms[baseline][name]
                for name in ("name", "key", "flags", "env", "stack", "model", "hypothesis")
            },
            "host": dict(host),
            "stacks": dict(declared["stacks"]),
            "design": dict(declared["design"]),
            "generated_from": sorted(os.fspath(path) for path in [*launches, *evidence]),
            "session": numbers["session"],
            "variants": rows,
        }
    )


def measured_on(launches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The hosts and GPUs that launches ran on, by name and by digest of the UUIDs: a verdict was shown on no other."""
    ran = [launch["host"] for launch in launches if launch["outcome"] != "not_run"]
    hosts, gpus = (
        sorted({host[name] for host in ran if host.get(name)}) for name in ("hostname", "gpus_digest")
    )
    if not ran:
        return {}
    told = f", GPUs {', '.join(gpus)}" if gpus else ""
    many = len(gpus) > 1 or len(hosts) > 1
    unsaid = (
        "; some launches do not say on which GPUs"
        if gpus and any(not h.get("gpus_digest") for h in ran)
        else ""
    )
    where = f"{', '.join(hosts)}{told}{unsaid}"
    return {
        "hosts": hosts,
        "gpus": gpus,
        "measured_on": where if many or unsaid else f"one host only: {where}",
    }

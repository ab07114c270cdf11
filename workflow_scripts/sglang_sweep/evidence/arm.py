"""One arm of a campaign: everything its launches show, as the evidence file that verdict and report read."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.version import Version

from sglang_sweep.errors import UserError
from sglang_sweep.evidence import cause, confounds, correctness
from sglang_sweep.evidence.artifacts import Artifacts, metrics_of, of_launch
from sglang_sweep.evidence.engagement import DeclaredChange, EngagementReport, assess
from sglang_sweep.evidence.knowledge import Knowledge, known_version, load
from sglang_sweep.evidence.scanner import scan
from sglang_sweep.files.launches import read_launch

Launch = dict[str, Any]

# Changes that move messages or requests but no arithmetic: their greedy outputs must be the same.
_EXACT = (
    "all-reduce",
    "allreduce",
    "symm-mem",
    "mscclpp",
    "nccl",
    "schedule",
    "radix",
    "max-running",
    "chunked-prefill",
)
_EXACT_ENV = ("NCCL_", "SGLANG_ENABLE_PCIE_IPC", "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE")


def first_cause(
    log: Path, sglang_version: str | None, exit_code: int | None
) -> tuple[str, str | None, list[dict[str, Any]]]:
    """Cause, reason and evidence of a failed launch, for the launch step: see ``cause.first_cause``."""
    return cause.first_cause(log, sglang_version, exit_code, load())


def assess_arm(
    variant: Mapping[str, Any],
    launches: Sequence[Path],
    baseline_launches: Sequence[Path],
    profile: Path | None = None,
    knowledge: Knowledge | None = None,
) -> dict[str, Any]:
    """Outcome, cause, engagement, confounds and correctness of one variant, with evidence and remedies.

    ``variant`` is what the campaign declares (name, change, flags, env, sglang_version, proof, tolerance,
    declares, ...); the paths are launch.json files, ``profile`` a profile.json of the same key.
    """
    knowledge = knowledge or load()
    ours, theirs = _read(launches), _read(baseline_launches)
    tried = [(path, launch) for path, launch in ours if launch.get("outcome") != "not_run"]
    completed = [(path, launch) for path, launch in tried if launch.get("outcome") == "completed"]
    base = [(path, launch) for path, launch in theirs if launch.get("outcome") == "completed"]
    change = declared_change(variant)
    version, note = known_version(variant.get("sglang_version") or _version(tried))
    failed = _failure(tried, version, knowledge)
    report = EngagementReport("unproven", note="no launch completed")
    rows: list[confounds.Confound] = []
    evidence: list[dict[str, Any]] = failed["evidence"]
    if completed:
        measured = of_launch(completed[-1][0], knowledge)
        reference = of_launch(base[-1][0], knowledge, "baseline launch") if base else None
        seen = [measured, *([of_launch(profile, knowledge, "profile launch")] if profile else [])]
        report = assess(change, seen, version, knowledge)
        if reference is not None:
            rows = _confounds(
                variant, change, measured, reference, completed[-1][1], base[-1][1], version, knowledge
            )
        evidence = evidence + [shown.as_dict() for part in report.features for shown in part.evidence]
    return {
        "name": variant.get("name"),
        "key": variant.get("key"),
        "outcome": "completed" if completed else "failed" if tried else "not_run",
        "cause": failed["cause"] if not completed else None,
        "reason": failed["reason"] if not completed else None,
        "engagement": report.as_dict(),
        "confounds": [row.as_dict() for row in rows],
        "confounded": any(row.confounding for row in rows),
        "correctness": _correctness(variant, change, completed, base),
        "evidence": evidence,
        "remedies": failed["remedies"],
        "notes": [text for text in (note,) if text],
    }


def declared_change(variant: Mapping[str, Any]) -> DeclaredChange:
    """The change against the baseline, whatever parent the variant starts from: see ``declaration``."""
    change = variant.get("change") or {}
    return DeclaredChange(
        flags=change.get("flags") or {},
        env=change.get("env") or {},
        stack=change.get("stack"),
        sglang_version=variant.get("sglang_version"),
        model=change.get("model"),
        patch=change.get("patch"),
        proof=tuple(variant.get("proof") or ()),
    )


def _read(paths: Sequence[Path]) -> list[tuple[Path, Launch]]:
    return [(path, read_launch(path).as_read()) for path in map(Path, paths) if path.exists()]


def _version(launches: Sequence[tuple[Path, Launch]]) -> str | None:
    versions = [(launch.get("stack") or {}).get("sglang_version") for _, launch in launches]
    return next((version for version in versions if version), None)


def _failure(
    tried: Sequence[tuple[Path, Launch]], version: Version | None, knowledge: Knowledge
) -> dict[str, Any]:
    """The commonest recorded cause of the failed launches, with the log lines of the last one that had it."""
    failed = [(path, launch) for path, launch in tried if launch.get("outcome") == "failed"]
    if not failed:
        return {"cause": None, "reason": None, "evidence": [], "remedies": []}
    commonest = Counter(launch.get("cause") for _, launch in failed).most_common(1)[0][0] or "unknown"
    path, launch = next(pair for pair in reversed(failed) if (pair[1].get("cause") or "unknown") == commonest)
    remedies = [knowledge.causes.get(commonest, knowledge.causes["unknown"])["remedy"]]
    evidence: list[dict[str, Any]] = []
    log = path.parent / str((launch.get("files") or {}).get("server_log") or "")
    reason = launch.get("reason")
    try:
        found = cause.diagnose(scan(log, knowledge), knowledge, version)
    except UserError:
        found = cause.Diagnosis("unknown")
    if found.cause == commonest:
        remedies, reason = found.remedies, found.reason or reason
    if found.cause == commonest or found.cause is None:
        evidence = [{"file": str(log), "line": line.number, "text": line.text} for line in found.evidence]
    return {"cause": commonest, "reason": reason, "evidence": evidence, "remedies": remedies}


def _confounds(
    variant: Mapping[str, Any],
    change: DeclaredChange,
    measured: Artifacts,
    reference: Artifacts,
    launch: Launch,
    baseline: Launch,
    version: Version | None,
    knowledge: Knowledge,
) -> list[confounds.Confound]:
    if not measured.server_info or not reference.server_info:
        return []
    environments = (launch.get("environment") or {}, baseline.get("environment") or {})
    return confounds.compare(
        measured.server_info,
        reference.server_info,
        change,
        knowledge,
        declares=variant.get("declares") or (),
        version=version,
        environment=environments,
    )


def _correctness(
    variant: Mapping[str, Any],
    change: DeclaredChange,
    completed: Sequence[tuple[Path, Launch]],
    base: Sequence[tuple[Path, Launch]],
) -> dict[str, Any]:
    if not completed or not base:
        return {"ok": None, "state": "not_comparable", "reason": "no completed launch of both arms"}
    tolerance = variant.get("tolerance") or default_tolerance(change)
    mine = [launch for _, launch in completed]
    if change.model:
        return {"ok": None, "state": "not_comparable", "reason": "another model answers differently"}
    result = correctness.judge(
        mine,
        [launch for _, launch in base],
        tolerance,
        dummy_weights=str((variant.get("flags") or {}).get("load-format")) == "dummy",
        simulated="SGLANG_SIMULATE_ACC_LEN" in {**(variant.get("env") or {}), **change.env},
    )
    counts = correctness.token_counts(completed[-1][1].get("windows") or [], _served(*completed[-1]))
    usual = correctness.token_counts(base[-1][1].get("windows") or [], _served(*base[-1]))
    if counts["problems"]:
        result.notes += counts["problems"]
        # What the baseline does too says something of workload or tokenizer, nothing of the variant.
        if result.ok and not usual["problems"]:
            result.ok, result.reason = False, counts["problems"][0]
    return {**result.as_dict(), "token_counts": counts}


def default_tolerance(change: DeclaredChange) -> str:
    """``exact`` when everything changed is communication or scheduling, else ``numeric``."""
    exact = all(any(word in flag for word in _EXACT) for flag in change.flags)
    exact = exact and all(name.startswith(_EXACT_ENV) for name in change.env)
    return "exact" if exact and not (change.stack or change.model or change.patch) else "numeric"


def _served(path: Path, launch: Launch) -> dict[str, float] | None:
    """Prompt and generation tokens that the server counted between its two /metrics snapshots, over all labels (ranks,
    engines). None where it also served others: their windows are void already."""
    if any("foreign_load" in (window.get("invalid") or ()) for window in launch.get("windows") or ()):
        return None
    files = launch.get("files") or {}
    if not files.get("metrics_before") or not files.get("metrics_after"):
        return None
    before, after = Counter[str](), Counter[str]()
    for total, name in ((before, "metrics_before"), (after, "metrics_after")):
        for sample in metrics_of(path.parent / str(files[name])):
            total[sample.metric] += sample.value  # type: ignore[assignment]
    names = {"prompt": "sglang:prompt_tokens_total", "generation": "sglang:generation_tokens_total"}
    if not all(name in after for name in names.values()):
        return None
    return {kind: after[name] - before[name] for kind, name in names.items()}

"""Everything one server log says about its launch, as plain data."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from packaging.version import Version

from sglang_sweep.evidence.artifacts import Artifacts, counted
from sglang_sweep.evidence.cause import Diagnosis, diagnose
from sglang_sweep.evidence.features import Finding, asked_by, find, resolved_evidence
from sglang_sweep.evidence.knowledge import Feature, Knowledge, known_version, load
from sglang_sweep.evidence.log import LogScan
from sglang_sweep.evidence.scanner import scan

STATE = {"on": "engaged", "off": "not_engaged", "unknown": "unproven"}

COMPILING = (
    "it was compiling kernels when the log ends, or still is: compilers (nvcc, cicc, ptxas, ninja) among the server's "
    "child processes tell a slow compile from a hang; a first start takes minutes, the next uses the cache"
)
STARTING = (
    "the log ends before the server was ready, with no error: was it stopped early, or is it still starting? "
    "A growing log, processor time or compiler processes mean progress"
)


@dataclass
class Explanation:
    """What happened to a server. Times are seconds since the first phase, memory in GB as SGLang prints it."""

    file: str
    lines: int
    sglang_version: str | None
    outcome: str
    phase: str | None
    cause: str | None
    meaning: str | None
    reason: str | None
    evidence: list[dict[str, Any]]
    engaged: dict[str, dict[str, Any]]
    remedies: list[str]
    notes: list[str] = field(default_factory=list)
    memory: dict[str, Any] = field(default_factory=dict)
    graphs: dict[str, Any] = field(default_factory=dict)
    serving: dict[str, Any] = field(default_factory=dict)
    collectives: list[dict[str, Any]] = field(default_factory=list)
    timeline: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)


def explain(path: Path, sglang_version: str | None = None, knowledge: Knowledge | None = None) -> Explanation:
    """Explains a server log. Raises UserError when the file is missing, empty or no text."""
    knowledge = knowledge or load()
    return of_scan(scan(path, knowledge), sglang_version, knowledge)


def of_scan(log: LogScan, sglang_version: str | None, knowledge: Knowledge) -> Explanation:
    """Explains a log that has been read."""
    version, note = known_version(sglang_version) if sglang_version else (None, None)
    found = diagnose(log, knowledge, version)
    engaged = _features(log, knowledge, version)
    compiling = found.outcome == "starting" and _compiling(log, knowledge, version)
    return Explanation(
        file=str(log.path),
        lines=log.lines,
        sglang_version=sglang_version or infer_version(log.arguments, knowledge),
        outcome=found.outcome,
        phase="compiling" if compiling else (log.marks[-1].phase if log.marks else None),
        cause=found.cause,
        meaning=knowledge.causes[found.cause]["meaning"] if found.cause else None,
        reason=found.reason,
        evidence=[{"line": line.number, "text": line.text} for line in found.evidence],
        engaged=engaged,
        remedies=found.remedies or _advice(found, bool(compiling)),
        notes=[*([note] if note else []), *_notes(log, knowledge, found)],
        memory=_memory(log),
        graphs=_graphs(log),
        serving=_serving(log),
        collectives=_collectives(log),
        timeline=_timeline(log),
    )


def infer_version(arguments: dict[str, Any], knowledge: Knowledge) -> str | None:
    """A version range such as ``>=0.5.16,<0.5.18`` from the arguments that exist; None when none were printed."""
    if len(arguments) < 50:
        return None
    lower: list[Version] = []
    upper: list[Version] = []
    for mark in knowledge.log["versions"]:
        present = mark["field"] in arguments
        if "since" in mark:
            if present:
                lower.append(Version(mark["since"]))
            elif "below" not in mark:
                upper.append(Version(mark["since"]))
        if "below" in mark:
            if present:
                upper.append(Version(mark["below"]))
            elif "since" not in mark:
                lower.append(Version(mark["below"]))
    bounds = [f">={max(lower)}"] if lower else []
    bounds += [f"<{min(upper)}"] if upper else []
    return ",".join(bounds) or None


def _features(log: LogScan, knowledge: Knowledge, version: Version | None) -> dict[str, dict[str, Any]]:
    one = Artifacts("log", log=log)
    rows = {}
    for name, feature in knowledge.features.items():
        found = find(feature, [one], version)
        if not _worth_a_line(feature, found, log):
            continue
        asked = asked_by(feature, log.arguments)
        shown = found.evidence[0] if found.evidence else None
        if shown is None and asked is not None:
            shown = resolved_evidence(one, asked, log.arguments[asked])
        rows[name] = {
            "state": STATE[found.means],
            "line": shown.line if shown else None,
            "text": shown.text if shown else None,
            "note": found.note or _silence(feature, found),
            "title": feature.title,
        }
    return rows


def _silence(feature: Feature, found: Finding) -> str | None:
    if found.means != "unknown":
        return None
    return (
        "asked for; it is compiled on first use and had not reported when the log ends"
        if feature.data.get("jit")
        else "asked for, and no line says whether it is active"
    )


def _worth_a_line(feature: Feature, found: Finding, log: LogScan) -> bool:
    if asked_by(feature, log.arguments) is not None:
        return True
    if found.means == "on":
        return not feature.data.get("quiet") or found.entry in log.hits
    if not found.evidence or feature.data.get("quiet"):
        return False
    if found.entry is None:  # what the feature needs is not there, and nobody asked for it
        return False
    return bool(feature.data.get("default")) or found.entry in log.hits


def _compiling(log: LogScan, knowledge: Knowledge, version: Version | None) -> bool:
    """The log stops where something that is compiled on first use was asked for and has not reported yet."""
    hit = log.hits.get("compiling")
    if hit is not None and hit.first.number > log.lines - 20:
        return True
    if log.mark("memory-pool-done") is None:
        return False
    one = Artifacts("log", log=log)
    return any(
        feature.data.get("jit")
        and asked_by(feature, log.arguments) is not None
        and find(feature, [one], version).means == "unknown"
        for feature in knowledge.features.values()
    )


def _advice(found: Diagnosis, compiling: bool) -> list[str]:
    if found.outcome == "starting":
        return [COMPILING if compiling else STARTING]
    if found.outcome == "unknown":
        return ["no line of a known SGLang server log is in this file: is it the server's output?"]
    return []


def _notes(log: LogScan, knowledge: Knowledge, found: Diagnosis) -> list[str]:
    notes = []
    for entry in knowledge.facts:
        if entry.data.get("note") and (hit := log.hits.get(entry.id)):
            times = f" ({hit.count} times)" if hit.count > 1 else ""
            notes.append(f"line {hit.first.number}{times}: {entry.data['note']}")
    if found.outcome == "ready" and log.stopping_line:
        notes.append(
            f"line {log.stopping_line}: asked to stop; what its processes print after that is no crash"
        )
    return notes


def _number(text: str) -> float | int | str:
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def _memory(log: LogScan) -> dict[str, Any]:
    names = (
        "gpu_free_before_load_gb",
        "weights_gb",
        "kv_tokens",
        "kv_sizes",
        "gpu_free_after_pool_gb",
        "graph_gb",
        "gpu_free_gb",
    )
    found = {name: _number(log.facts[name][0]) for name in names if name in log.facts}
    if "mem_fraction_static" in log.arguments:
        found["mem_fraction_static"] = log.arguments["mem_fraction_static"]
    return found


def _graphs(log: LogScan) -> dict[str, Any]:
    sizes = log.facts.get("graph_batch_sizes")
    if sizes is None:
        return {}
    batch_sizes = [int(size) for size in sizes[0].split(",") if size.strip()]
    return {"batch_sizes": batch_sizes, "largest": max(batch_sizes, default=None), "line": sizes[1].number}


def _serving(log: LogScan) -> dict[str, Any]:
    facts = counted(log, log.arguments)
    names = (
        "decode_batches",
        "most_running",
        "decode_outside_graph",
        "share_outside_graph",
        "accept_length",
        "prompt_tokens",
        "cached_tokens",
        "max_total_num_tokens",
        "max_running_requests",
        "nccl_version",
    )
    return {
        name: _number(str(facts[name][0])) for name in names if name in facts and facts[name][0] is not None
    }


def _collectives(log: LogScan) -> list[dict[str, Any]]:
    """NCCL's choices, runs of message sizes with one algorithm and protocol put together."""
    rows: list[dict[str, Any]] = []
    for one in sorted(log.collectives.values(), key=lambda c: (c.function, c.size_bytes, c.algorithm)):
        last = rows[-1] if rows else {}
        same = all(last.get(name) == getattr(one, name) for name in ("function", "algorithm", "protocol"))
        if same:
            last["to_bytes"] = one.size_bytes
            last["count"] += one.count
            last["channels"] = [
                min(last["channels"][0], one.channels),
                max(last["channels"][1], one.channels),
            ]
        else:
            rows.append(
                {
                    "function": one.function,
                    "from_bytes": one.size_bytes,
                    "to_bytes": one.size_bytes,
                    "algorithm": one.algorithm,
                    "protocol": one.protocol,
                    "channels": [one.channels, one.channels],
                    "count": one.count,
                    "line": one.line.number,
                }
            )
    return rows


def _timeline(log: LogScan) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for mark in log.marks:
        if any(row["phase"] == mark.phase for row in rows):
            continue
        elapsed = (mark.time - log.first_time).total_seconds() if mark.time and log.first_time else None
        rows.append({"phase": mark.phase, "title": mark.title, "seconds": elapsed, "line": mark.line.number})
    return rows

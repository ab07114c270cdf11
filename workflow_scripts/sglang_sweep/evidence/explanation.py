"""Everything one server log says about its launch, as plain data."""

import re
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import Any

from packaging.version import Version

from sglang_sweep.evidence.artifacts import Artifacts, counted
from sglang_sweep.evidence.cause import Diagnosis, diagnose
from sglang_sweep.evidence.features import Finding, asked_by, find, resolved_evidence
from sglang_sweep.evidence.knowledge import Feature, Knowledge, known_version, load
from sglang_sweep.evidence.log import Hit, Line, LogScan
from sglang_sweep.evidence.scanner import scan_servers

STATE = {"on": "engaged", "off": "not_engaged", "unknown": "unproven"}

COMPILING = (
    "it was compiling kernels when the log ends, or still is: compilers (nvcc, cicc, ptxas, ninja) among the server's "
    "child processes tell a slow compile from a hang; a first start takes minutes, the next uses the cache"
)
HUNG_OR_CUT = (
    "the log ends before the server was ready, with no error. If the server still runs it hangs: py-spy dump --pid of "
    "each rank shows where; a rank whose last line is earlier than the others' is the one to look at. If it does not "
    "run, something ended it from outside: dmesg, the container's exit status, the scheduler's time limit"
)

RETRACTION_STORM = 5
"""Retractions from which they are a trouble of the server and not of one long request."""

FULL_STEPS = 10
"""Logged decode steps in a row with a full KV cache and requests waiting."""

FELL = 0.5
"""Share of its first rate, at the same number of running requests, below which throughput has fallen."""

PROBLEMS = {
    "http_error": "requests were answered with an error",
    "health_check_failed": "health checks failed: an orchestrator may restart the server",
    "kv_transfer_failed": "KV transfers between prefill and decode failed",
    "transport_failed": "the transport under the KV transfer could not connect",
    "retraction": "requests were evicted from the KV cache and done again",
    "slow_forward": "a forward pass took longer than the soft watchdog allows",
    "kv_cache_full": "the KV cache stayed full while requests waited",
    "throughput_fell": "throughput fell and stayed down at the same number of requests",
}
"""What can be wrong with a server that is up."""


@dataclass
class Explanation:
    """What happened to a server. Times are seconds since the first phase, memory in GB as SGLang prints it."""

    file: str
    lines: int
    first_line: int
    server: str
    node: tuple[int, int] | None
    sglang_version: str | None
    outcome: str
    headline: str
    phase: str | None
    ranks: list[str]
    of_ranks: int | None
    cause: str | None
    meaning: str | None
    reason: str | None
    evidence: list[dict[str, Any]]
    engaged: dict[str, dict[str, Any]]
    remedies: list[str]
    service: dict[str, Any] | None = None
    frames: list[str] = field(default_factory=list)
    cascade: list[dict[str, Any]] = field(default_factory=list)
    last_of_rank: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    memory: dict[str, Any] = field(default_factory=dict)
    graphs: dict[str, Any] = field(default_factory=dict)
    serving: dict[str, Any] = field(default_factory=dict)
    collectives: list[dict[str, Any]] = field(default_factory=list)
    timeline: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)


def explain(
    path: Path, sglang_version: str | None = None, knowledge: Knowledge | None = None
) -> list[Explanation]:
    """Explains every server in a log, the one to look at first. Raises UserError for no text file."""
    knowledge = knowledge or load()
    return by_urgency([of_scan(log, sglang_version, knowledge) for log in scan_servers(path, knowledge)])


def by_urgency(found: list[Explanation]) -> list[Explanation]:
    """Failures before what only lost its peer, then what hangs, what serves badly, what serves; newest first."""
    return sorted(found, key=lambda one: (_urgency(one), _first_trouble(one)))


def _first_trouble(found: Explanation) -> int:
    """Of servers that serve badly the one that did so first; of others the newest."""
    problems = found.service["problems"] if found.service else []
    return problems[0]["first_line"] if problems else -found.first_line


def _urgency(found: Explanation) -> int:
    if found.outcome == "failed":
        return 1 if found.cause == "peer_lost" else 0
    if found.outcome == "ready":
        return 4 if found.service and found.service["state"] == "degraded" else 5
    return {"hung_or_cut": 2, "compiling": 3}.get(found.outcome, 6)


def of_scan(log: LogScan, sglang_version: str | None, knowledge: Knowledge) -> Explanation:
    """Explains a log that has been read."""
    version, note = known_version(sglang_version) if sglang_version else (None, None)
    found = diagnose(log, knowledge, version)
    if found.outcome == "hung_or_cut" and _compiling(log, knowledge, version):
        found = replace(found, outcome="compiling", phase="compiling")
    service = _service(log) if log.ready else None
    node = _node(log)
    return Explanation(
        file=str(log.path),
        lines=log.lines - log.began + 1,
        first_line=log.began,
        server=log.source,
        node=node,
        sglang_version=sglang_version or infer_version(log.arguments, knowledge),
        outcome=found.outcome,
        headline=_headline(log, found, service, node, knowledge),
        phase=found.phase or (log.marks[-1].phase if log.marks else None),
        ranks=sorted(found.ranks, key=_in_order),
        of_ranks=_ranks_here(log),
        cause=found.cause,
        meaning=knowledge.causes[found.cause]["meaning"] if found.cause else None,
        reason=found.reason,
        evidence=[_plain(line) for line in found.evidence],
        engaged=_features(log, knowledge, version),
        remedies=found.remedies or _advice(found, service),
        service=service,
        frames=found.frames,
        cascade=[_plain(line) for line in found.cascade],
        last_of_rank={rank: _plain(line) for rank, line in log.ranks.items()}
        if found.outcome in ("hung_or_cut", "compiling")
        else {},
        settings=_settings(log),
        notes=[*([note] if note else []), *_notes(log, knowledge, found)],
        memory=_memory(log),
        graphs=_graphs(log),
        serving=_serving(log),
        collectives=_collectives(log),
        timeline=_timeline(log),
    )


def _plain(line: Line) -> dict[str, Any]:
    return {"line": line.number, "text": line.text}


def _in_order(rank: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", rank)]


def _size(log: LogScan, *names: str) -> int:
    value = next((log.arguments[name] for name in names if log.arguments.get(name)), 1)
    return value if isinstance(value, int) and value > 0 else 1


def _ranks_here(log: LogScan) -> int | None:
    """Ranks on this node; None where no arguments were printed."""
    if not log.arguments:
        return None
    replicas = 1 if log.arguments.get("enable_dp_attention") else _size(log, "dp_size")
    return max(1, _size(log, "tp_size") * _size(log, "pp_size") * replicas // _size(log, "nnodes"))


def _node(log: LogScan) -> tuple[int, int] | None:
    """This node's rank and the number of nodes, of a server on several."""
    nodes = _size(log, "nnodes")
    rank = log.arguments.get("node_rank")
    return (rank if isinstance(rank, int) else 0, nodes) if nodes > 1 else None


def _on_ranks(log: LogScan, ranks: list[str]) -> str:
    here = _ranks_here(log) or len(log.ranks)
    if not ranks or here <= 1:
        return ""
    if len(ranks) == here:
        return f" on all {here} ranks"
    return f" on {', '.join(sorted(ranks, key=_in_order))} of {here} ranks"


def _headline(
    log: LogScan,
    found: Diagnosis,
    service: dict[str, Any] | None,
    node: tuple[int, int] | None,
    knowledge: Knowledge,
) -> str:
    """Outcome, when, on which ranks of how many, and why: one sentence that can be pasted."""
    on = _on_ranks(log, found.ranks)
    of_node = f" (node {node[0]} of {node[1]})" if node else ""
    if found.outcome == "failed":
        why = f"{found.cause}: {knowledge.causes[found.cause or 'unknown']['meaning']}"
        return f"FAILED{of_node} {_when(log, found, knowledge)}{on}: {why}"
    if found.outcome == "ready":
        worker = log.mark("worker-ready") and not log.mark("ready")
        up = "READY as a further node; its server answers on node 0" if worker else "READY"
        problems = service["problems"] if service else []
        if not problems:
            return f"{up}{of_node}" + ("" if worker else ": the server came up and served")
        return f"{up}{of_node}, but " + "; ".join(_problem(problem) for problem in problems[:3])
    if found.outcome == "compiling":
        return f"COMPILING{of_node}: kernels are being compiled, with no error so far"
    if found.outcome == "hung_or_cut":
        last = log.marks[-1] if log.marks else None
        since = f", since {last.time:%H:%M:%S}" if last and last.time else ""
        several = f" on {len(log.ranks)} ranks" if len(log.ranks) > 1 else ""
        where = f"in phase {last.title!r}{since}{several}" if last else "before any phase of a launch"
        return f"HUNG OR CUT{of_node}: the log ends {where}, with no error"
    return "UNKNOWN: this does not look like the log of an SGLang server"


def _when(log: LogScan, found: Diagnosis, knowledge: Knowledge) -> str:
    ready = log.ready
    after = found.evidence and ready and found.evidence[0].number > ready.line.number
    if ready and after:
        if found.time and ready.time and (seconds := (found.time - ready.time).total_seconds()) > 0:
            minutes = f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"
            return f"after {minutes} of serving"
        return "while serving"
    if found.phase in ("http", "serving"):
        return "at start, at the warm-up request"
    title = next((entry.data["title"] for entry in knowledge.phases if entry.id == found.phase), None)
    return f"at start, in phase {title!r}" if title else "at start"


def _problem(problem: dict[str, Any]) -> str:
    """``5 x 503 at /health (line 17, 05:43:42 to 05:49:34)``."""
    named = problem["kind"].replace("_", " ") + (f" {problem['detail']}" if problem["detail"] else "")
    span = f", {problem['from'][11:]} to {problem['to'][11:]}" if problem["from"] and problem["to"] else ""
    return f"{problem['count']} x {named} (from line {problem['first_line']}{span})"


def _service(log: LogScan) -> dict[str, Any]:
    """How a server that is up serves: healthy, or degraded by the problems listed."""
    problems = [
        _trouble("http_error", f"{status} at {path}", a.count, a.first, a.last, a.began, a.ended)
        for (status, path), a in log.answers.items()
    ]
    by_kind: dict[str, list[Hit]] = {}
    for entry in load().facts:
        if (hit := log.hits.get(entry.id)) and "problem" in entry.data:
            by_kind.setdefault(entry.data["problem"], []).append(hit)
    compiling = log.hits.get("compiling")
    for kind, hit in ((kind, hit) for kind, hits in by_kind.items() for hit in hits):
        last = hit.last or hit.first
        while_compiling = compiling and compiling.first.number < last.number
        detail = "while kernels were compiled" if kind == "health_check_failed" and while_compiling else ""
        if kind != "retraction" or hit.count >= RETRACTION_STORM:
            problems.append(_trouble(kind, detail, hit.count, hit.first, last, hit.began, hit.ended))
    batches = log.batches
    first = batches.first.get("decode_in_graph") or batches.first.get("decode_outside_graph")
    if first and batches.full >= FULL_STEPS:
        problems.append(_trouble("kv_cache_full", "", batches.full, first, first, None, None))
    for running, rates in batches.rates.items():
        early, late = median(rates[:8]), median(rates[-8:])
        if first and len(rates) >= 30 and late < FELL * early:
            detail = f"from {early:.0f} to {late:.0f} tok/s at {running} running"
            problems.append(_trouble("throughput_fell", detail, 1, first, first, None, None))
    problems.sort(key=lambda problem: int(problem["first_line"]))
    return {"state": "degraded" if problems else "healthy", "problems": problems}


def _trouble(
    kind: str,
    detail: str,
    count: int,
    first: Line,
    last: Line,
    began: datetime | None,
    ended: datetime | None,
) -> dict[str, Any]:
    return {
        "kind": kind,
        "detail": detail,
        "count": count,
        "first_line": first.number,
        "last_line": last.number,
        "text": first.text,
        "from": str(began) if began else None,
        "to": str(ended) if ended else None,
    }


SETTINGS = {
    "attention backend": ("attention_backend", "decode_attention_backend"),
    "dtype": ("dtype",),
    "quantisation": ("quantization",),
    "KV cache type": ("kv_cache_dtype",),
    "tensor parallel": ("tp_size",),
    "pipeline parallel": ("pp_size",),
    "data parallel": ("dp_size",),
    "expert parallel": ("ep_size",),
    "disaggregation": ("disaggregation_mode",),
    "speculation": ("speculative_algorithm",),
}


def _settings(log: LogScan) -> dict[str, Any]:
    """What the server was asked to be, where it says so and it is not the trivial answer."""
    shown = {}
    for title, names in SETTINGS.items():
        value = next((log.arguments[name] for name in names if log.arguments.get(name) is not None), None)
        if value not in (None, 1, "null"):
            shown[title] = value
    return shown


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


_REMEDIES = {
    "http_error": "read the log around the first of them",
    "health_check_failed": "warm the server up before it takes traffic (kernels compiled beforehand, "
    "`sglang.compile_deep_gemm`), or give the probe a longer time-out",
    "transport_failed": "this is the first sign, what failed after it follows from it: look at open connections and "
    "the ephemeral port range, or use another --disaggregation-transfer-backend",
    "kv_transfer_failed": "read the first failing line of the transport, on the prefill side as well",
    "retraction": "lower --max-running-requests, raise --mem-fraction-static, or raise --schedule-conservativeness",
    "slow_forward": "look for compilation or a very long prefill at that time",
    "kv_cache_full": "lower --max-running-requests or raise --mem-fraction-static",
    "throughput_fell": "compare clocks, foreign load and the number of cached tokens before and after",
}


def _advice(found: Diagnosis, service: dict[str, Any] | None) -> list[str]:
    if found.outcome in ("compiling", "hung_or_cut"):
        return [COMPILING if found.outcome == "compiling" else HUNG_OR_CUT]
    if service and service["problems"]:
        kinds = dict.fromkeys(problem["kind"] for problem in service["problems"])
        return [f"{PROBLEMS[kind]}: {_REMEDIES[kind]}" for kind in kinds if kind in _REMEDIES]
    if found.outcome == "unknown":
        return ["no line of a known SGLang server log is in this file: is it the server's output?"]
    return []


def _notes(log: LogScan, knowledge: Knowledge, found: Diagnosis) -> list[str]:
    notes = []
    for entry in knowledge.facts:
        if entry.data.get("note") and (hit := log.hits.get(entry.id)):
            times = f" ({hit.count} times)" if hit.count > 1 else ""
            notes.append(f"line {hit.first.number}{times}: {entry.data['note']}")
    if log.mixed:
        notes.append(
            "a second server wrote into this log and nothing tells their lines apart: what is said is of both"
        )
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
    found: dict[str, Any] = {name: _number(log.facts[name][0]) for name in names if name in log.facts}
    if "mem_fraction_static" in log.arguments:
        found["mem_fraction_static"] = log.arguments["mem_fraction_static"]
    if log.graphs:
        found |= {"graphs_gb": dict(log.graphs)}
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
    """The phases with the seconds that each took, until the next one; None for the last."""
    firsts = list({mark.phase: mark for mark in reversed(log.marks)}.values())[::-1]
    rows: list[dict[str, Any]] = []
    for mark, after in zip_longest(firsts, firsts[1:]):
        took = (after.time - mark.time).total_seconds() if after and after.time and mark.time else None
        rows.append({"phase": mark.phase, "title": mark.title, "seconds": took, "line": mark.line.number})
    return rows

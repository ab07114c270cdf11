"""Outcome and cause of a launch from its log: the first real exception over all ranks decides."""

import re
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from packaging.version import Version

from sglang_sweep.errors import UserError
from sglang_sweep.evidence.conditions import holds
from sglang_sweep.evidence.knowledge import Entry, Knowledge, known_version
from sglang_sweep.evidence.log import Hit, Line, LogScan
from sglang_sweep.evidence.scanner import scan
from sglang_sweep.evidence.tracebacks import Block, Raised

Outcome = Literal["ready", "failed", "compiling", "hung_or_cut", "unknown"]
"""``hung_or_cut``: the log ends before the server was ready, without an error and without a compiler at work."""


@dataclass(frozen=True)
class Diagnosis:
    """How a launch ended, why, and the lines that show it; ``entries`` are the ids of the knowledge used."""

    outcome: Outcome
    cause: str | None = None
    reason: str | None = None
    evidence: list[Line] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)
    entries: list[str] = field(default_factory=list)
    ranks: list[str] = field(default_factory=list)
    """The ranks on which it was seen; none named where the log has one process only."""
    phase: str | None = None
    time: datetime | None = None
    frames: list[str] = field(default_factory=list)
    """The innermost frames of a failure that nothing explains, SGLang's own first, innermost last."""
    cascade: list[Line] = field(default_factory=list)
    """What followed from it on this rank and others: no reason of its own."""


@dataclass(frozen=True)
class _Match:
    signature: Entry
    order: int
    line: int
    evidence: Line
    reason: str
    block: Block | None = field(default=None, compare=False)
    groups: dict[str, str] = field(default_factory=dict, compare=False)

    @property
    def secondary(self) -> bool:
        return bool(self.signature.data.get("secondary"))


def diagnose(log: LogScan, knowledge: Knowledge, version: Version | None = None) -> Diagnosis:
    """The outcome and cause that a log shows.

    The log of a server that was asked to stop stays ``ready``, whatever its processes print while they go.
    """
    signatures = [(order, s) for order, s in enumerate(knowledge.signatures) if s.known_for(version)]
    stop = log.stopping_line if log.stopping_line is not None else log.lines + 1
    ready = log.ready
    blocks = [block for block in log.blocks if block.line < stop and _fatal(block, log, knowledge)]
    candidates = [_of_block(block, signatures, knowledge, log) for block in blocks]
    deciding = [
        _Match(s, order, hit.first.number, hit.first, hit.first.text, None, hit.groups)
        for order, s in signatures
        if s.data["where"] == "line"
        and s.data.get("decides")
        and (hit := _hit(s, log))
        and hit.first.number < stop
    ]
    if not candidates and not deciding:
        if ready:
            return Diagnosis("ready", evidence=[ready.line])
        if log.marks or _looks_like_sglang(log):
            last = log.marks[-1].line if log.marks else log.last_line
            phase = log.marks[-1].phase if log.marks else None
            return Diagnosis("hung_or_cut", evidence=[last] if last else [], phase=phase, time=log.last_time)
        return Diagnosis("unknown", evidence=[log.last_line] if log.last_line else [])
    return _decide(candidates, deciding, signatures, knowledge, log, stop)


def _hit(signature: Entry, log: LogScan) -> Hit | None:
    if not all(
        holds(log.arguments.get(name), want) for name, want in signature.data.get("arguments", {}).items()
    ):
        return None
    return log.hits.get(signature.id)


def _looks_like_sglang(log: LogScan) -> bool:
    return any(word in (log.last_line.text if log.last_line else "") for word in ("sglang", "server_args"))


def _fatal(block: Block, log: LogScan, knowledge: Knowledge) -> bool:
    """A traceback ends the launch when a process says so, or when the interpreter printed it and nothing came after."""
    if block.of_arguments or re.search(knowledge.log["tracebacks"]["fatal"], block.header):
        return True
    if block.header or any(mark.line.number > block.line for mark in log.marks):
        return False
    # Below a logger's line it may be that line's exc_info; then the process went on and logged more.
    return not block.before.startswith("[") or log.last_stamped < block.line


def _of_block(
    block: Block, signatures: list[tuple[int, Entry]], knowledge: Knowledge, log: LogScan
) -> tuple[Block, list[_Match]]:
    hint = re.compile(knowledge.log["tracebacks"]["hint"])
    matches = []
    for order, signature in signatures:
        if signature.data["where"] != "exception":
            continue
        for raised in block.exceptions:
            if _applies(signature, raised, block, hint, log):
                evidence = Line(raised.line, raised.text)
                groups = _groups(signature, raised)
                matches.append(_Match(signature, order, block.line, evidence, raised.text, block, groups))
                break
    return block, matches


def _groups(signature: Entry, raised: Raised) -> dict[str, str]:
    assert signature.pattern is not None
    match = signature.pattern.search(f"{raised.type}: {raised.message}".encode())
    return {k: v.decode("utf-8", "replace") for k, v in match.groupdict().items() if v} if match else {}


def _applies(signature: Entry, raised: Raised, block: Block, hint: re.Pattern[str], log: LogScan) -> bool:
    data: dict[str, Any] = signature.data
    message = hint.split(raised.message)[0]
    subject = f"{raised.type}{': ' if message else ''}{message}\n{block.header}".encode()
    assert signature.pattern is not None
    match = signature.pattern.search(subject)
    if match is None:
        return False
    if "phase" in data and block.phase not in data["phase"]:
        return False
    if "needs_line" in data and data["needs_line"] not in log.hits:
        return False
    if "frames" in data and not re.search(data["frames"], "\n".join(raised.frames)):
        return False
    groups = {name: value.decode() for name, value in match.groupdict().items() if value is not None}
    if not all(holds(groups.get(name), wanted) for name, wanted in data.get("when", {}).items()):
        return False
    return all(holds(log.arguments.get(name), wanted) for name, wanted in data.get("arguments", {}).items())


def _decide(
    candidates: list[tuple[Block, list[_Match]]],
    deciding: list[_Match],
    signatures: list[tuple[int, Entry]],
    knowledge: Knowledge,
    log: LogScan,
    stop: int,
) -> Diagnosis:
    foremost = [(block, min(found, key=lambda match: match.order)) for block, found in candidates if found]
    ranked: list[tuple[int, _Match]] = [
        (block.line, match) for block, match in foremost if not match.secondary
    ]
    ranked += [(match.line, match) for match in deciding if not match.secondary]
    first_unexplained = next((block for block, found in candidates if not found), None)
    if ranked:
        line, chosen = min(ranked, key=lambda pair: pair[0])
        if first_unexplained is None or line <= first_unexplained.line:
            return _explain(chosen, candidates, signatures, knowledge, log, stop)
    if first_unexplained is not None:
        return _placed(_unknown(first_unexplained, knowledge), first_unexplained, candidates, log, stop)
    noise = [match for _, found in candidates for match in found] + deciding
    return _explain(
        min(noise, key=lambda match: (match.order, match.line)), candidates, signatures, knowledge, log, stop
    )


def _unknown(block: Block, knowledge: Knowledge) -> Diagnosis:
    last = block.exceptions[-1]
    lines = [Line(raised.line, raised.text) for raised in block.exceptions]
    own = [frame for frame in block.exceptions[0].frames if "sglang" in frame][-2:]
    frames = list(dict.fromkeys([*own, *block.exceptions[0].frames[-2:]]))
    remedies = [knowledge.causes["unknown"]["remedy"]]
    return Diagnosis("failed", "unknown", last.text, lines, remedies, frames=frames)


def _placed(
    found: Diagnosis,
    block: Block | None,
    candidates: list[tuple[Block, list[_Match]]],
    log: LogScan,
    stop: int,
) -> Diagnosis:
    """With the ranks that failed alike, when it was, and what followed from it."""
    if block is None:
        return found
    said = block.exceptions[-1].type
    alike = [other for other, _ in candidates if any(raised.type == said for raised in other.exceptions)]
    ranks = list(dict.fromkeys(other.rank for other in alike if other.rank))
    followed = [
        Line(o.line, o.exceptions[-1].text) for o, _ in candidates if o not in alike and o.line > block.line
    ]
    return replace(found, ranks=ranks, phase=block.phase, time=block.time, cascade=followed[:4])


def _explain(
    chosen: _Match,
    candidates: list[tuple[Block, list[_Match]]],
    signatures: list[tuple[int, Entry]],
    knowledge: Knowledge,
    log: LogScan,
    stop: int,
) -> Diagnosis:
    """Adds to the deciding signature what supports it: lines of its cause, and its traceback's other exceptions."""
    cause = chosen.signature.data["cause"]
    supporting = [
        _Match(s, order, hit.first.number, hit.first, hit.first.text, None, hit.groups)
        for order, s in signatures
        if s.data["where"] == "line"
        and not s.data.get("decides")
        and s.data["cause"] == cause
        and (hit := _hit(s, log))
        and hit.first.number < stop
    ]
    own = next((found for _, found in candidates if chosen in found), [chosen])
    matches = sorted({*supporting, *own, chosen}, key=lambda match: match.order)
    leading = next((m for m in supporting if m.signature.data.get("leads") and m.line < chosen.line), None)
    first = leading or chosen
    evidence = {match.evidence.number: match.evidence for match in [first, chosen, *matches]}
    said = [
        _quoting(match.signature.data["remedy"], match.groups)
        for match in ([leading] if leading else matches)
        if match.signature.data["cause"] == cause and "remedy" in match.signature.data
    ]
    found = Diagnosis(
        "failed",
        cause,
        first.reason,
        list(evidence.values()),
        list(dict.fromkeys(said)) or [knowledge.causes[cause]["remedy"]],
        [match.signature.id for match in matches],
    )
    if chosen.signature.id == "scheduler-watchdog":
        found = _where_they_stood(found, chosen, log, knowledge)
    if chosen.block is not None:
        found = _placed(found, chosen.block, candidates, log, stop)
    else:
        hit = log.hits.get(chosen.signature.id)
        phase = (
            "serving" if log.ready and log.ready.line.number < chosen.line else _phase_at(log, chosen.line)
        )
        found = replace(
            found, phase=phase, time=hit.began if hit else None, ranks=found.ranks or _rank_in(first)
        )
    noise = [
        hit.first
        for _, s in signatures
        if s.data["where"] == "line"
        and s.data.get("secondary")
        and (hit := _hit(s, log))
        and chosen.line < hit.first.number < stop
        and s is not chosen.signature
    ]
    cascade = {line.number: line for line in sorted([*found.cascade, *noise], key=lambda line: line.number)}
    return replace(found, cascade=list(cascade.values())[:6])


def _quoting(remedy: str, groups: dict[str, str]) -> str:
    """A remedy with the pattern's groups in it: ``{port}`` is the port that the line names."""
    for name, value in groups.items():
        remedy = remedy.replace(f"{{{name}}}", value)
    return remedy


def _rank_in(match: _Match) -> list[str]:
    found = re.search(
        r"^\[\d{4}-\d\d-\d\d [\d:]{8} ([A-Z][\w ]*)\]|^\[rank(\d+)\]|\[Rank (\d+)\]", match.evidence.text
    )
    return [next(filter(None, found.groups()))] if found else []


def _phase_at(log: LogScan, line: int) -> str | None:
    before = [mark for mark in log.marks if mark.line.number <= line]
    return before[-1].phase if before else None


IN_COLLECTIVE = re.compile(
    r"all_?reduce|all_?gather|reduce_scatter|broadcast|barrier|all_?to_?all|nccl|gloo|c10d|process_?group|recv_object"
    r"|\brecv\b|\bsend\b|dist\.|distributed_c10d",
    re.IGNORECASE,
)
"""Frames of a process that waits for others."""

INNERMOST = 6
"""Frames from the innermost one that say where a process stands."""


def _where_they_stood(found: Diagnosis, chosen: _Match, log: LogScan, knowledge: Knowledge) -> Diagnosis:
    """A watchdog says that a step did not return. The stack dumps tell ranks that wait from ranks that work."""
    stacks = {stack.rank: stack for stack in log.stacks if stack.frames}
    waiting = {r: s for r, s in stacks.items() if any(IN_COLLECTIVE.search(f) for f in s.frames[:INNERMOST])}
    others = {r: s for r, s in stacks.items() if r not in waiting}
    if not stacks:
        return found
    if not waiting:
        places = sorted({stack.frames[0] for stack in stacks.values()})
        lines = [Line(s.line.number, f"{s.line.text} {s.frames[0]}") for s in stacks.values()]
        reason = f"{'every rank stands' if len(stacks) > 1 else 'it stands'} in {', '.join(places[:3])}"
        remedies = [knowledge.causes["forward_hang"]["remedy"]]
        if any(re.search("spec|verify|draft|eagle", place, re.IGNORECASE) for place in places):
            remedies.append(
                "it is part of speculation: try without --speculative-algorithm, or another sampling backend"
            )
        return replace(
            found,
            reason=reason,
            evidence=[chosen.evidence, *lines[:8]],
            ranks=list(stacks),
            remedies=remedies,
        )
    lines = [
        Line(s.line.number, f"{s.line.text} {s.frames[0]}") for s in [*others.values(), *waiting.values()]
    ]
    missing = ", ".join(f"{rank or 'one'} in {stack.frames[0]}" for rank, stack in others.items())
    reason = (
        f"{', '.join(r or 'one rank' for r in waiting)} wait in a collective; not there: {missing}"
        if others
        else "every rank waits in a collective"
    )
    remedies = (
        [knowledge.causes["collective_hang"]["remedy"]]
        if not others
        else [
            f"look at what {', '.join(r or 'that rank' for r in others)} was doing: the others only wait for it"
        ]
    )
    return replace(
        found, cause="collective_hang", reason=reason, evidence=[chosen.evidence, *lines[:8]], remedies=remedies,
        ranks=list(others or waiting),
    )  # fmt: skip


def first_cause(
    log: Path, sglang_version: str | None, exit_code: int | None, knowledge: Knowledge
) -> tuple[str, str, list[dict[str, Any]]]:
    """Cause, reason and evidence of a launch that is known to have failed.

    The exit code only supports: 2 is the command line, -9 and 137 say "killed" and nothing of why.
    """
    version, _ = known_version(sglang_version)
    try:
        found = diagnose(scan(log, knowledge), knowledge, version)
    except UserError as error:
        return "unknown", f"no log to read: {error.message}; exit code {exit_code}", []
    evidence = [{"file": str(log), "line": line.number, "text": line.text} for line in found.evidence]
    if found.cause is not None:
        return found.cause, found.reason or "", evidence
    if exit_code == 2:
        return (
            "bad_flag",
            "exit code 2 is the argument parser's, though its message is not in the log",
            evidence,
        )
    if exit_code in (-9, 137):
        reason = "killed (SIGKILL) with no exception in the log; the kernel's OOM killer is the usual reason, see dmesg"
        return "crashed", reason, evidence
    return "unknown", f"no exception in the log; exit code {exit_code}", evidence


_TOOLCHAIN = (
    "nvcc cicc ptxas ninja cudafe++ fatbinary nvlink cc1 cc1plus g++ gcc clang clang++ c++ ld as hipcc cmake"
)
COMPILERS = frozenset(_TOOLCHAIN.split())
"""Process names that mean kernels are being compiled."""

BUSY_SHARE = 0.2
"""Of one processor, over the samples: above it something works."""


def classify_stall(samples: list[dict[str, Any]]) -> Literal["compiling", "progressing", "hung"]:
    """What a server that is not ready yet is doing, from samples of {t, log_bytes, cpu_s, children}.

    ``t`` and ``cpu_s`` are seconds (processor time of the whole process tree), ``children`` process names.
    A compiler child means compiling. Log growth or processor time means progressing: triton and
    torch.inductor compile inside Python processes. Only silence in all three is a hang; ranks that spin in a
    collective look busy, and are left to the launch time limit and SGLang's own watchdog. Fewer than two
    samples prove nothing and are called progressing.
    """
    if len(samples) < 2:
        return "progressing"
    names = {str(name).split("/")[-1] for sample in samples[-3:] for name in sample.get("children", ())}
    if any(name in COMPILERS or name.startswith(("nvcc", "ptxas", "cicc")) for name in names):
        return "compiling"
    first, last = samples[0], samples[-1]
    if last["log_bytes"] > first["log_bytes"]:
        return "progressing"
    elapsed = max(last["t"] - first["t"], 1e-9)
    return "progressing" if (last["cpu_s"] - first["cpu_s"]) / elapsed > BUSY_SHARE else "hung"

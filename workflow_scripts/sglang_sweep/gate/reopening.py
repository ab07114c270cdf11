"""Which dead ends a new stack or host reopens, and why: findings are neither lost nor believed for ever."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sglang_sweep.evidence.conditions import holds
from sglang_sweep.evidence.knowledge import Entry, Knowledge, known_version, load
from sglang_sweep.gate.limits import host_facts, predict, speaks_of

DEAD = frozenset({"DEAD_END", "NO_OP", "WRONG_OUTPUT"})


@dataclass(frozen=True)
class Place:
    """Where findings hold: a stack, and a host as fingerprinted (environment.json)."""

    stack: str
    sglang_version: str | None
    fingerprint: Mapping[str, Any]
    stack_digest: str | None = None


def reopened(
    verdicts: Mapping[str, Any], new: Place, knowledge: Knowledge | None = None
) -> list[dict[str, Any]]:
    """Dead ends of ``verdicts`` (verdicts.json) that are worth another launch at ``new``.

    Rows of ``variant``, ``verdict``, ``because`` (sentences), ``why`` (the same in one line), ``source`` and
    ``held_for``. A dead end that a limit explained reopens when the limit's SGLang versions or its host
    conditions no longer hold; one that no limit explains reopens when SGLang, the stack or the host's class
    has changed. None reopens while some limit predicts the same variant to be dead at ``new`` as well.
    """
    knowledge = knowledge or load()
    rows = []
    for finding in verdicts["variants"]:
        if finding["verdict"] not in DEAD:
            continue
        because, source = why_reopened(finding, verdicts.get("baseline") or {}, new, knowledge)
        if because:
            rows.append(
                {
                    "variant": finding["name"],
                    "verdict": finding["verdict"],
                    "because": because,
                    "why": "; ".join(because),
                    "source": source,
                    "held_for": finding["holds_for"],
                }
            )
    return rows


def why_reopened(
    finding: Mapping[str, Any], baseline: Mapping[str, Any], new: Place, knowledge: Knowledge
) -> tuple[list[str], str]:
    """Sentences (none: it stays closed), and the sources of the limits they rest on."""
    variant = resolved(finding, baseline)
    host = host_facts(new.fingerprint, variant["flags"])
    if any(p.verdict in DEAD for p in predict(variant, new.sglang_version, host, knowledge)):
        return [], ""
    old_version, _ = known_version(finding["holds_for"].get("sglang_version"))
    explained = [
        limit
        for limit in knowledge.limits
        if limit.data["verdict"] == finding["verdict"]
        and limit.data.get("cause") in (None, finding.get("cause"))
        and limit.known_for(old_version)
        and speaks_of(limit, variant)
    ]
    because = [sentence for limit in explained if (sentence := _ended(limit, new, host))]
    if because:
        return because, "; ".join(source for limit in explained for source in limit.data["source"])
    return _moved(finding, new), ""


def resolved(finding: Mapping[str, Any], baseline: Mapping[str, Any]) -> dict[str, Any]:
    """A finding's variant as limits look at it: the baseline's flags and environment with the change over them."""
    change = finding.get("change") or {}
    merged = {part: {**(baseline.get(part) or {}), **(change.get(part) or {})} for part in ("flags", "env")}
    return {
        "change": change,
        **{part: {k: v for k, v in values.items() if v is not None} for part, values in merged.items()},
    }


def unmet(limit: Entry, host: Mapping[str, Any]) -> list[str]:
    """The host conditions of a limit that are known not to hold, in words."""
    return [
        f"{name} is {_word(host[name])}, the limit is for {_word(condition)}"
        for name, condition in limit.data.get("host", {}).items()
        if name in host and not holds(host[name], condition)
    ]


def _ended(limit: Entry, new: Place, host: Mapping[str, Any]) -> str | None:
    """Why an explanation no longer holds at ``new``."""
    until = f" ({limit.data['reopens_when']})"
    version, _ = known_version(new.sglang_version)
    if not limit.known_for(version):
        versions = f"SGLang {limit.data['versions']}; {new.stack} has {new.sglang_version}"
        return f"the limit {limit.id} is known for {versions}{until}"
    if gone := unmet(limit, host):
        return f"the limit {limit.id} does not apply to this host: {', '.join(gone)}{until}"
    return None


def _moved(finding: Mapping[str, Any], new: Place) -> list[str]:
    """Nothing explains it: then it holds for where it was seen, and for nowhere else."""
    held = finding["holds_for"]
    changes = [
        f"{what} was {old}, now {now}"
        for what, old, now in (
            ("SGLang", held.get("sglang_version"), new.sglang_version),
            ("the stack", held.get("stack"), new.stack),
            ("the stack's digest", held.get("stack_digest"), new.stack_digest),
            ("the host's class", held.get("host_class"), new.fingerprint["class_digest"]),
        )
        if None not in (old, now) and old != now
    ]
    if not changes:
        return []
    return [f"no known limit explains it, so it holds for where it was seen only: {', '.join(changes)}"]


def _word(value: Any) -> str:
    if isinstance(value, list):
        return " or ".join(map(_word, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)

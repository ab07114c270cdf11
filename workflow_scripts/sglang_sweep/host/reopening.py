"""Which dead ends a new stack or host reopens, and why: findings are neither lost nor believed for ever."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import conditions

Limit = Mapping[str, Any]
DEAD = frozenset({"DEAD_END", "NO_OP", "WRONG_OUTPUT"})


@dataclass(frozen=True)
class Place:
    """Where findings hold: a stack and a host. ``host`` are the facts of ``conditions.host_conditions``."""

    stack: str
    sglang_version: str | None
    stack_digest: str | None = None
    host_class: str | None = None
    host: Mapping[str, Any] = field(default_factory=dict)


def reopened(verdicts: Mapping[str, Any], limits: Sequence[Limit], new: Place) -> list[dict[str, Any]]:
    """Dead ends of ``verdicts`` (verdicts.json) that are worth another launch at ``new``.

    Rows of ``variant``, ``verdict``, ``because`` (sentences), ``why`` (the same in one line), ``source`` and
    ``held_for``. A dead end that a limit explained reopens when the limit's SGLang versions or its host
    conditions no longer hold; one that no limit explains reopens when SGLang, the stack or the host's class
    has changed. None reopens while some limit predicts the same variant to be dead at ``new`` as well.
    """
    rows = []
    for finding in verdicts["variants"]:
        if finding["verdict"] not in DEAD:
            continue
        because, source = why_reopened(finding, verdicts.get("baseline") or {}, limits, new)
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
    finding: Mapping[str, Any], baseline: Mapping[str, Any], limits: Sequence[Limit], new: Place
) -> tuple[list[str], str]:
    """Sentences (none: it stays closed), and the sources of the limits they rest on."""
    about = limits_about(finding, baseline, limits)
    if any(_holds(limit, new) for limit in about):
        return [], ""
    old_version = finding["holds_for"].get("sglang_version")
    explained = [
        limit
        for limit in about
        if limit["verdict"] == finding["verdict"]
        and limit.get("cause") in (None, finding.get("cause"))
        and conditions.version_in(limit, old_version) is not False
    ]
    because = [sentence for limit in explained if (sentence := _ended(limit, new))]
    if because:
        return because, "; ".join(source for limit in explained for source in limit["source"])
    return _moved(finding, new), ""


def limits_about(
    finding: Mapping[str, Any], baseline: Mapping[str, Any], limits: Sequence[Limit]
) -> list[Limit]:
    """Limits that speak of what the variant asks for and foresee a dead end."""
    change = finding.get("change") or {}
    flags = _over(baseline.get("flags"), change.get("flags"))
    env = _over(baseline.get("env"), change.get("env"))
    return [
        limit
        for limit in limits
        if limit["verdict"] in DEAD and conditions.asks(limit, flags, env, patch=bool(change.get("patch")))
    ]


def _over(base: Mapping[str, Any] | None, change: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in {**(base or {}), **(change or {})}.items() if value is not None}


def _holds(limit: Limit, place: Place) -> bool:
    """Known for the version, and every host condition met."""
    return conditions.version_in(limit, place.sglang_version) is True and conditions.met(limit, place.host)


def _ended(limit: Limit, new: Place) -> str | None:
    """Why an explanation no longer holds at ``new``."""
    until = f" ({limit['reopens_when']})" if limit.get("reopens_when") else ""
    if conditions.version_in(limit, new.sglang_version) is False:
        versions = f"SGLang {limit['versions']}; {new.stack} has {new.sglang_version}"
        return f"the limit {limit['id']} is known for {versions}{until}"
    if gone := conditions.unmet(limit, new.host):
        return f"the limit {limit['id']} does not apply to this host: {', '.join(gone)}{until}"
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
            ("the host's class", held.get("host_class"), new.host_class),
        )
        if None not in (old, now) and old != now
    ]
    if not changes:
        return []
    return [f"no known limit explains it, so it holds for where it was seen only: {', '.join(changes)}"]

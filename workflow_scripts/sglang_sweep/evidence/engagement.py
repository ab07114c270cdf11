"""Was the declared change really active? Each changed flag and variable is followed to what shows it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from packaging.version import Version

from sglang_sweep.evidence.artifacts import Artifacts, counted
from sglang_sweep.evidence.conditions import equal, holds, lookup, number
from sglang_sweep.evidence.features import Finding, Shown, find, line_evidence, resolved_evidence
from sglang_sweep.evidence.knowledge import Knowledge

State = Literal["engaged", "not_engaged", "unproven"]


@dataclass(frozen=True)
class FeatureState:
    """The state of one part of the change, with its evidence; ``feature`` is a feature's or a setting's name."""

    feature: str
    state: State
    evidence: tuple[Shown, ...] = ()
    note: str | None = None
    source: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As in verdicts.json."""
        return {
            "feature": self.feature,
            "state": self.state,
            "evidence": [shown.as_dict() for shown in self.evidence],
            "note": self.note,
            "source": self.source,
        }


@dataclass(frozen=True)
class EngagementReport:
    """The state of the whole change and of its parts."""

    state: State
    features: tuple[FeatureState, ...] = ()
    note: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As in verdicts.json."""
        return {
            "state": self.state,
            "features": [part.as_dict() for part in self.features],
            "note": self.note,
        }


@dataclass(frozen=True)
class DeclaredChange:
    """What a variant changes against the baseline; a flag or variable set to None was taken away."""

    flags: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)
    stack: str | None = None
    sglang_version: str | None = None
    model: Any = None
    patch: str | None = None
    proof: Sequence[str] = ()

    @property
    def empty(self) -> bool:
        """The baseline itself, or its A' arm."""
        return not (self.flags or self.env or self.stack or self.model or self.patch)


def assess(
    change: DeclaredChange, artifacts: Sequence[Artifacts], version: Version | None, knowledge: Knowledge
) -> EngagementReport:
    """The engagement of a change, from the measured launch and, where there is one, its profile launch.

    The change is engaged when every part of it is; not engaged when no part is, or the parts that ``proof``
    names are not; unproven otherwise.
    """
    if change.empty:
        return EngagementReport("engaged", note="nothing was changed")
    wanted: dict[str, str] = {}
    # What was set says what is wanted; a flag taken away only speaks where no other does (old and new names).
    flags = sorted(change.flags.items(), key=lambda flag: flag[1] is None)
    parts = [part for name, value in flags for part in _flag(name, value, artifacts, knowledge, wanted)]
    parts += [
        part
        for name, value in change.env.items()
        for part in _variable(name, value, artifacts, version, knowledge, wanted)
    ]
    for feature in change.proof:
        wanted.setdefault(feature, "on")
    proven = [_feature(name, want, artifacts, version, knowledge) for name, want in wanted.items()]
    parts = proven + [part for part in parts if part.feature not in wanted]
    parts += _identity(change, artifacts)
    if change.patch and not wanted:
        parts.append(
            FeatureState("patch", "unproven", note="name in `proof` the feature that the patch should enable")
        )
    return _combine(parts, set(change.proof))


def _combine(parts: Sequence[FeatureState], proof: set[str]) -> EngagementReport:
    deciding = [part for part in parts if part.feature in proof] or list(parts)
    states = {part.state for part in deciding}
    failed = [part.feature for part in deciding if part.state == "not_engaged"]
    if states <= {"engaged"}:
        notes = [f"{part.feature}: {part.note}" for part in deciding if part.note]
        return EngagementReport("engaged", tuple(parts), "; ".join(notes) or None)
    if states == {"not_engaged"} or (failed and proof):
        return EngagementReport("not_engaged", tuple(parts), f"not active: {', '.join(failed)}")
    open_parts = [part.feature for part in deciding if part.state == "unproven"]
    said = [f"did not take effect: {', '.join(failed)}"] if failed else []
    said += [f"nothing shows either way: {', '.join(open_parts)}"] if open_parts else []
    return EngagementReport("unproven", tuple(parts), "; ".join(said))


def _feature(
    name: str, want: str, artifacts: Sequence[Artifacts], version: Version | None, knowledge: Knowledge
) -> FeatureState:
    if name not in knowledge.features:
        return FeatureState(
            name, "unproven", note="config/knowledge/engagement.yaml does not know this feature"
        )
    return _judged(name, want, find(knowledge.features[name], artifacts, version))


def _judged(name: str, want: str, found: Finding) -> FeatureState:
    state: State = (
        "unproven" if found.means == "unknown" else "engaged" if found.means == want else "not_engaged"
    )
    return FeatureState(name, state, found.evidence, found.note, found.source)


def _flag(
    name: str, value: Any, artifacts: Sequence[Artifacts], knowledge: Knowledge, wanted: dict[str, str]
) -> list[FeatureState]:
    """The state of a changed flag; features whose state must show it are noted in ``wanted``."""
    rule = knowledge.flags.get(name, {})
    taken_away = value is None or value is False
    setting = _setting(name, value, rule, artifacts)
    feature = rule.get("feature")
    if feature and ("only_values" not in rule or any(equal(value, only) for only in rule["only_values"])):
        off = any(equal(value, one) for one in rule.get("off_values", ())) != taken_away
        want = rule.get("wants", "on")
        wanted.setdefault(feature, {"on": "off", "off": "on"}[want] if off else want)
        return [setting] if setting.state == "not_engaged" else []
    if "equals_fact" in rule and not taken_away:
        return [_equals_fact(name, value, rule["equals_fact"], artifacts, setting)]
    return [setting]


def _setting(name: str, value: Any, rule: Mapping[str, Any], artifacts: Sequence[Artifacts]) -> FeatureState:
    """Requested against resolved, which alone proves a flag that has no runtime feature of its own."""
    paths = rule.get("resolved") or [name.replace("-", "_")]
    for one in artifacts:
        for path in paths:
            for where, resolved in lookup(one.resolved, path):
                shown = resolved_evidence(one, where, resolved)
                if value is None:
                    return FeatureState(
                        name, "engaged", (shown,), "taken away; this is what it became", one.label
                    )
                if isinstance(value, dict) or (rule.get("compare") == "set" and holds(resolved, "not null")):
                    return FeatureState(name, "engaged", (shown,), None, one.label)
                if not equal(value, resolved):
                    return FeatureState(name, "not_engaged", (shown,), f"asked for {value}", one.label)
                return _effective(name, value, rule, one) or FeatureState(
                    name, "engaged", (shown,), None, one.label
                )
    return FeatureState(name, "unproven", note="not in /server_info")


def _effective(name: str, value: Any, rule: Mapping[str, Any], one: Artifacts) -> FeatureState | None:
    asked = number(value)
    if "effective" not in rule or asked is None or not holds(one.resolved.get("dp_size", 1), 1):
        return None
    for where, effective in lookup(one.resolved, rule["effective"]):
        got = number(effective)
        if got is not None and got < asked:
            shown = resolved_evidence(one, where, effective)
            return FeatureState(name, "not_engaged", (shown,), f"asked for {value}", one.label)
    return None


def _equals_fact(
    name: str, value: Any, fact: str, artifacts: Sequence[Artifacts], fallback: FeatureState
) -> FeatureState:
    for one in artifacts:
        found, line = counted(one.log, one.resolved).get(fact, (None, None))
        if found is not None and line is not None:
            state: State = "engaged" if equal(found, value) else "not_engaged"
            note = None if state == "engaged" else f"asked for {value}, got {found}"
            return FeatureState(name, state, (line_evidence(one, line),), note, one.label)
    if fallback.state == "engaged":
        return FeatureState(
            name, "unproven", fallback.evidence, "accepted; no line shows it at work", fallback.source
        )
    return fallback


def _variable(
    name: str,
    value: str | None,
    artifacts: Sequence[Artifacts],
    version: Version | None,
    knowledge: Knowledge,
    wanted: dict[str, str],
) -> list[FeatureState]:
    """The state of a changed environment variable. SGLang passes NCCL's through unread, so only effects prove them."""
    rules = knowledge.environment.get(name, [])
    rule = next((rule for rule in rules if re.search(rule["value"], value or "")), None)
    own = _in_process(name, value, artifacts)
    if rule is None:
        return [own]
    if "equals_fact" in rule and value is not None:
        unread = FeatureState(name, "unproven", own.evidence, own.note)
        state = _equals_fact(name, value, rule["equals_fact"], artifacts, unread)
        if state.state != "unproven":
            return [state]
    if "near_fact" in rule and value is not None:
        return [
            _near_fact(
                name, value, rule, artifacts, _feature(rule["feature"], "on", artifacts, version, knowledge)
            )
        ]
    want = rule.get("wants", "on")
    wanted.setdefault(rule["feature"], {"on": "off", "off": "on"}[want] if value is None else want)
    return []


def _near_fact(
    name: str, value: str, rule: Mapping[str, Any], artifacts: Sequence[Artifacts], feature: FeatureState
) -> FeatureState:
    asked = number(value)
    for one in artifacts:
        found, line = counted(one.log, one.resolved).get(rule["near_fact"], (None, None))
        if asked is not None and found is not None and line is not None:
            state: State = "engaged" if abs(float(found) - asked) <= rule["within"] else "not_engaged"
            note = f"asked for {value}, measured {found}; simulated: the text is meaningless and only cost is measured"
            return FeatureState(name, state, (line_evidence(one, line),), note, one.label)
    return FeatureState(
        name, "not_engaged" if feature.state == "not_engaged" else "unproven", feature.evidence, feature.note
    )


def _in_process(name: str, value: str | None, artifacts: Sequence[Artifacts]) -> FeatureState:
    for one in artifacts:
        for where, effective in lookup(one.resolved, f"internal_states.*.env_vars.{name}"):
            shown = resolved_evidence(one, where, effective)
            if not equal(effective, value):
                return FeatureState(
                    name, "not_engaged", (shown,), f"asked for {value}; SGLang set another", one.label
                )
            note = "set in the process; nothing shows what it changed"
            return FeatureState(name, "unproven", (shown,), note, one.label)
    return FeatureState(
        name, "unproven", note="no entry in config/knowledge/engagement.yaml says what would show it"
    )


def _identity(change: DeclaredChange, artifacts: Sequence[Artifacts]) -> list[FeatureState]:
    """A changed stack or model shows in /server_info itself."""
    parts = []
    one = next((one for one in artifacts if one.server_info), None)
    if change.stack:
        running = one.server_info.get("version") if one else None
        shown = (resolved_evidence(one, "version", running),) if one and running else ()
        state: State = "unproven"
        if running and change.sglang_version:
            state = "engaged" if equal(running, change.sglang_version) else "not_engaged"
        parts.append(
            FeatureState("stack", state, shown, None if shown else "no /server_info names the version")
        )
    if change.model:
        served = one.server_info.get("model_path") if one else None
        shown = (resolved_evidence(one, "model_path", served),) if one and served else ()
        parts.append(FeatureState("model", "engaged" if served else "unproven", shown))
    return parts

"""Did only the declared change differ? The resolved configurations of variant and baseline are compared."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from sglang_sweep.evidence.conditions import equal, holds, number
from sglang_sweep.evidence.engagement import DeclaredChange
from sglang_sweep.evidence.knowledge import Knowledge

ABSENT = "absent"


@dataclass(frozen=True)
class Confound:
    """A setting that differs and was not itself changed.

    ``moves_performance``: it can. ``declared``: it is accepted, as an inherent part of the change or because the
    campaign says so. One that moves performance and is not declared makes the verdict CONFOUNDED.
    """

    setting: str
    baseline: Any
    variant: Any
    moves_performance: bool
    implied_by: str | None
    pin: str | None
    declared: bool
    why: str

    @property
    def confounding(self) -> bool:
        """Whether the verdict must be CONFOUNDED."""
        return self.moves_performance and not self.declared

    def as_dict(self) -> dict[str, Any]:
        """As in verdicts.json."""
        return dict(vars(self))


def compare(
    variant: Mapping[str, Any],
    baseline: Mapping[str, Any],
    change: DeclaredChange,
    knowledge: Knowledge,
    *,
    declares: Sequence[str] = (),
    version: Version | None = None,
    environment: tuple[Mapping[str, str], Mapping[str, str]] = ({}, {}),
) -> list[Confound]:
    """Everything that differs between two /server_info documents and does not follow from the change.

    ``environment`` is (variant's, baseline's) environment as we set it; what SGLang exposes of its own
    (``internal_states[].env_vars``) is compared where both have it.
    """
    ours, theirs = flatten(variant), flatten(baseline)
    ours_env, theirs_env = _environments(ours, theirs, environment)
    judge = _Judge(change, knowledge, declares, version)
    settings = [
        judge.setting(name, ours.get(name, ABSENT), theirs.get(name, ABSENT))
        for name in sorted({*ours, *theirs})
    ]
    variables = [
        judge.variable(name, ours_env.get(name), theirs_env.get(name))
        for name in sorted({*ours_env, *theirs_env})
    ]
    rows = [row for row in [*settings, *variables] if row is not None]
    return _without_equivalents(rows, knowledge)


def flatten(document: Mapping[str, Any]) -> dict[str, Any]:
    """A /server_info as dotted settings: top level, overlaid with what the first scheduler says it runs with."""
    flat = dict(_walk({k: v for k, v in document.items() if k != "internal_states"}))
    states = document.get("internal_states")
    if isinstance(states, list) and states and isinstance(states[0], dict):
        flat |= dict(_walk(states[0]))
    return flat


def _walk(document: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for name, value in document.items():
        path = f"{prefix}{name}"
        pairs += _walk(value, f"{path}.") if isinstance(value, dict) and value else [(path, value)]
    return pairs


def _environments(
    ours: dict[str, Any], theirs: dict[str, Any], declared: tuple[Mapping[str, str], Mapping[str, str]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    exposed = [
        {
            name.removeprefix("env_vars."): flat.pop(name)
            for name in list(flat)
            if name.startswith("env_vars.")
        }
        for flat in (ours, theirs)
    ]
    if all(exposed):
        return exposed[0], exposed[1]
    return dict(declared[0]), dict(declared[1])


@dataclass(frozen=True)
class _Judge:
    """What one difference means, given the declared change and what is known."""

    change: DeclaredChange
    knowledge: Knowledge
    declares: Sequence[str]
    version: Version | None

    def setting(self, name: str, mine: Any, base: Any) -> Confound | None:
        """A row of /server_info that differs; None when it may."""
        if (
            equal(mine, base)
            or _named(name, self.knowledge.implications["volatile"])
            or _tolerated(name, mine, base, self.knowledge)
        ):
            return None
        if ABSENT in (mine, base) and self.change.stack:
            return None
        if name in _own_settings(self.change, self.knowledge):
            return None
        return self._row(name, mine, base)

    def variable(self, name: str, mine: Any, base: Any) -> Confound | None:
        """An environment variable that differs; None when it may."""
        volatile = self.knowledge.implications["volatile_environment"]
        if mine == base or name in self.change.env or _named(name, volatile):
            return None
        return self._row(f"env.{name}", mine, base)

    def _row(self, name: str, mine: Any, base: Any) -> Confound:
        rule = _implication(name, self.change, self.knowledge, self.version)
        known = self.knowledge.implications["moves_performance"].get(name, {})
        moves = not _named(name, self.knowledge.implications["harmless"])
        inherent = bool(rule and rule.get("inherent")) and not (
            rule and rule.get("stack") and name in _pinnable(self.knowledge)
        )
        declared = inherent or any(_covers(declaration, name) for declaration in self.declares)
        pin = (
            (rule or {}).get("pin") or known.get("pin") or f"set {name} alike in the baseline and the variant"
        )
        why = (
            (rule or {}).get("why")
            or known.get("why")
            or "nothing is known that says it cannot move performance"
        )
        return Confound(
            setting=name,
            baseline=_short(base),
            variant=_short(mine),
            moves_performance=moves,
            implied_by=rule["id"] if rule else None,
            pin=None if declared or not moves else pin,
            declared=declared,
            why=why if moves else "cannot move performance",
        )


def _covers(declaration: str, name: str) -> bool:
    """``declares: [cuda_graph_config]`` covers everything below it; flag spelling is understood too."""
    declared = declaration.replace("-", "_")
    return name in (declared, f"env.{declaration}") or name.startswith(f"{declared}.")


def _pinnable(knowledge: Knowledge) -> set[str]:
    return set(knowledge.implications["moves_performance"])


def _short(value: Any) -> Any:
    text = json.dumps(value, default=str)
    return value if len(text) <= 200 else f"{text[:190]}… ({len(value)} entries)"


def _named(name: str, rows: Sequence[Mapping[str, str]]) -> bool:
    return any(re.fullmatch(row["name"], name) for row in rows)


def _tolerated(name: str, mine: Any, base: Any, knowledge: Knowledge) -> bool:
    for row in knowledge.implications["tolerances"]:
        left, right = number(mine), number(base)
        if row["setting"] == name and left is not None and right:
            return abs(left / right - 1) <= float(row["relative"])
    return False


def _own_settings(change: DeclaredChange, knowledge: Knowledge) -> set[str]:
    """The /server_info names of the changed flags themselves."""
    names = set()
    for flag in change.flags:
        rule = knowledge.flags.get(flag, {})
        names |= {flag.replace("-", "_"), *rule.get("resolved", ())}
    return names | ({"model_path", "tokenizer_path", "served_model_name"} if change.model else set())


def _implication(
    name: str, change: DeclaredChange, knowledge: Knowledge, version: Version | None
) -> Mapping[str, Any] | None:
    found = None
    for rule in knowledge.implications["implied"]:
        if not any(re.fullmatch(setting, name) for setting in rule["settings"]):
            continue
        if _triggered(rule, change) and _known_for(rule, version):
            if not rule.get("inherent"):
                return dict(rule)
            found = found or dict(rule)
    return found


def _known_for(rule: Mapping[str, Any], version: Version | None) -> bool:
    from packaging.specifiers import SpecifierSet

    return version is None or SpecifierSet(rule["versions"]).contains(version, prereleases=True)


def _triggered(rule: Mapping[str, Any], change: DeclaredChange) -> bool:
    if rule.get("stack") and change.stack:
        return True
    # A flag that was taken away (None, False) implies as much as one that was set.
    flags = any(
        flag in change.flags and (change.flags[flag] in (None, False) or holds(change.flags[flag], wanted))
        for flag, wanted in rule.get("flags", {}).items()
    )
    return flags or any(name in change.env for name in rule.get("environment", {}))


def _without_equivalents(rows: list[Confound], knowledge: Knowledge) -> list[Confound]:
    """One row for a setting that has two names."""
    names = {row.setting for row in rows}
    twins = {second for first, second in knowledge.implications["equivalent"] if first in names}
    return [row for row in rows if row.setting not in twins]

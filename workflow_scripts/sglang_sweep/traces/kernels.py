"""What a kernel or operator name means, from ``config/knowledge/kernels.yaml`` and the SGLang version."""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from sglang_sweep.errors import UserError
from sglang_sweep.files.yaml_files import check, read_yaml

KNOWLEDGE = Path(__file__).resolve().parents[3] / "config" / "knowledge" / "kernels.yaml"

CLASSES = (
    "attention",
    "gemm",
    "norm_activation",
    "all_reduce",
    "other_collective",
    "sampling",
    "copy",
    "other",
)
COLLECTIVES = ("all_reduce", "other_collective")


@dataclass(frozen=True)
class Meaning:
    """What one name was taken for. ``status``: seen, read, unmatched; not ``trusted``: another version's."""

    name: str
    kernel_class: str
    path: str | None
    operation: str | None
    status: str
    trusted: bool
    source: str

    @property
    def matched(self) -> bool:
        return self.status != "unmatched"


@dataclass(frozen=True)
class Rule:
    """One entry of the knowledge file, compiled."""

    pattern: re.Pattern[str]
    entry: dict[str, Any]

    def holds_for(self, version: Version | None) -> bool:
        return version is None or SpecifierSet(self.entry["versions"]).contains(version, prereleases=True)

    @property
    def of_some_versions(self) -> bool:
        return bool(self.entry["versions"])


class Classifier:
    """Classifies names by rules; each distinct name is looked at once, however many kernels bear it."""

    def __init__(self, rules: list[Rule], version: Version | None) -> None:
        self._rules, self._version = rules, version
        self._known: dict[str, Meaning] = {}

    def __call__(self, name: str) -> Meaning:
        if name not in self._known:
            self._known[name] = self._meaning(name)
        return self._known[name]

    def _meaning(self, name: str) -> Meaning:
        found = [(rule, match) for rule in self._rules if (match := rule.pattern.search(name))]
        if not found:
            return Meaning(name, "other", None, None, "unmatched", True, "")
        # an entry written for this very version outranks the order of the file
        exact = [pair for pair in found if pair[0].of_some_versions and pair[0].holds_for(self._version)]
        rule, match = exact[0] if exact and self._version else found[0]
        entry, groups = rule.entry, {key: value or "" for key, value in match.groupdict().items()}
        operation = entry.get("operation") or ("all_reduce" if entry["class"] == "all_reduce" else None)
        path = entry["path"].format(**groups) if "path" in entry else None
        trusted = rule.holds_for(self._version)
        return Meaning(name, entry["class"], path, operation, entry["status"], trusted, entry["source"])


@dataclass(frozen=True)
class Knowledge:
    """The knowledge file for one SGLang version (None: not known, every entry is used)."""

    kernels: Classifier
    cpu_ops: Classifier
    phases: list[Rule]


def load(version: str | None = None, path: Path = KNOWLEDGE) -> Knowledge:
    """Rules for SGLang ``version``. Raises UserError for a bad version or knowledge file."""
    try:
        parsed = Version(version) if version else None
    except InvalidVersion:
        raise UserError(
            f"{version!r} is not a version", key="--sglang-version", remedy="write it as 0.5.23"
        ) from None
    content = _content(path)
    return Knowledge(
        kernels=Classifier(_rules(content["kernels"], path), parsed),
        cpu_ops=Classifier(_rules(content["cpu_ops"], path), parsed),
        phases=[rule for rule in _rules(content["phases"], path) if rule.holds_for(parsed)],
    )


@cache
def _content(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = read_yaml(path)
    check(content, "knowledge-kernels", path)
    return content


def _rules(entries: list[dict[str, Any]], path: Path) -> list[Rule]:
    rules = []
    for entry in entries:
        try:
            rules.append(Rule(re.compile(entry["pattern"]), entry))
        except re.error as error:
            raise UserError(
                f"not a regular expression: {entry['pattern']!r} ({error})", file=path, key="pattern"
            ) from None
    return rules

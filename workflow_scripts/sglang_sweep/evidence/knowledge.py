"""Loads what is known about SGLang from ``config/knowledge/*.yaml``: checked, compiled, picked by version."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from sglang_sweep.errors import UserError
from sglang_sweep.evidence.literals import required_texts
from sglang_sweep.files.yaml_files import check, read_yaml

FOLDER = Path(__file__).parents[3] / "config" / "knowledge"
OLDEST, NEWEST = Version("0.5.6"), Version("0.5.23")
"""The SGLang versions whose sources or logs the entries come from."""

_QUANTIFIER = re.compile(r"\{\d*,?\d*\}")
_DIGIT = re.compile(r"(?<!\\)\d")


@dataclass(frozen=True)
class Entry:
    """One piece of knowledge with its pedigree; ``data`` holds the keys of its kind of file."""

    id: str
    versions: SpecifierSet
    source: str
    seen: tuple[str, ...]
    pattern: re.Pattern[bytes] | None
    data: dict[str, Any] = field(compare=False)
    texts: tuple[bytes, ...] | None = None
    """A line without one of these cannot match; None says nothing."""

    @property
    def of_lines(self) -> bool:
        """Whether its pattern is for log lines, not for exceptions, kernel names or values."""
        return (
            self.pattern is not None
            and self.data.get("in", "log") == "log"
            and self.data.get("where", "line") == "line"
        )

    def found_in(self, line: bytes) -> bool:
        """Whether the pattern matches somewhere in the line."""
        if self.pattern is None or (self.texts and not any(text in line for text in self.texts)):
            return False
        return self.pattern.search(line) is not None

    def known_for(self, version: Version | None) -> bool:
        """Whether it holds for ``version``; an unknown (None) version excludes nothing."""
        return version is None or self.versions.contains(version, prereleases=True)

    @property
    def examples(self) -> list[str]:
        """Lines that its pattern must match; an entry on values has none."""
        example = self.data.get("example", [])
        return [example] if isinstance(example, str) else list(example)

    def matches_its_examples(self) -> bool:
        """Whether the pattern, if it has one, matches every example, and there is one."""
        if self.pattern is None:
            return True
        found = [self.found_in(example.encode()) for example in self.examples]
        return bool(found) and all(found)


@dataclass(frozen=True)
class Knowledge:
    """All knowledge files, as data and as compiled entries."""

    log: dict[str, Any]
    phases: tuple[Entry, ...]
    facts: tuple[Entry, ...]
    causes: dict[str, dict[str, Any]]
    signatures: tuple[Entry, ...]
    features: dict[str, "Feature"]
    flags: dict[str, dict[str, Any]]
    environment: dict[str, list[dict[str, Any]]]
    implications: dict[str, Any]
    limits: tuple[Entry, ...]

    def entries(self) -> Iterator[Entry]:
        """Every entry that has a pattern, in every file."""
        yield from self.phases
        yield from self.facts
        yield from self.signatures
        for feature in self.features.values():
            yield from feature.evidence


@dataclass(frozen=True)
class Feature:
    """A thing a change may switch on or off, with what shows that it is or is not active."""

    name: str
    title: str
    evidence: tuple[Entry, ...]
    data: dict[str, Any] = field(compare=False)


@cache
def load(folder: Path = FOLDER) -> Knowledge:
    """Reads and checks every knowledge file. Raises UserError naming file and entry of the first mistake."""
    documents = {}
    for name in ("log", "causes", "engagement", "implications", "limits"):
        file = folder / f"{name}.yaml"
        documents[name] = read_yaml(file)
        check(documents[name], f"knowledge-{name}", file)
    log, causes, engagement = documents["log"], documents["causes"], documents["engagement"]
    features = {
        name: Feature(name, data["title"], _entries(data["evidence"], folder / "engagement.yaml", name), data)
        for name, data in engagement["features"].items()
    }
    knowledge = Knowledge(
        log=log,
        phases=_entries(log["phases"], folder / "log.yaml", "phases"),
        facts=_entries(log["facts"], folder / "log.yaml", "facts"),
        causes=causes["causes"],
        signatures=_entries(causes["signatures"], folder / "causes.yaml", "signatures"),
        features=features,
        flags=engagement["flags"],
        environment=engagement["environment"],
        implications=documents["implications"],
        limits=_entries(documents["limits"]["limits"], folder / "limits.yaml", "limits"),
    )
    _check_references(knowledge, folder)
    return knowledge


def _entries(rows: Iterable[dict[str, Any]], file: Path, key: str) -> tuple[Entry, ...]:
    return tuple(_entry(row, file, f"{key}.{row['id']}") for row in rows)


def _entry(row: dict[str, Any], file: Path, key: str) -> Entry:
    try:
        versions = SpecifierSet(str(row["versions"]))
    except InvalidSpecifier:
        raise UserError(
            f"{row['versions']!r} is no version range",
            file=file,
            key=key,
            remedy='write for example ">=0.5.6,<0.5.14"',
        ) from None
    seen = tuple(row.get("seen", ()))
    source = row.get("read") or f"recording {seen[0]}"
    pattern = compile_pattern(row.get("pattern"), file, key)
    return Entry(
        row["id"], versions, source, seen, pattern, row, required_texts(row["pattern"]) if pattern else None
    )


def compile_pattern(text: str | None, file: Path, key: str) -> re.Pattern[bytes] | None:
    """A line pattern as compiled bytes. Raises UserError for a bad regular expression or a literal digit."""
    if text is None:
        return None
    if _DIGIT.search(_QUANTIFIER.sub("", text)):
        raise UserError(
            f"the pattern {text!r} holds a literal digit",
            file=file,
            key=key,
            remedy=r"write \d+ and put the wanted number under `when` with a named group: lines that differ "
            "only in digits share one template",
        )
    try:
        return re.compile(text.encode(), re.MULTILINE)
    except re.error as error:
        raise UserError(f"not a regular expression: {error}", file=file, key=key) from None


def _check_references(knowledge: Knowledge, folder: Path) -> None:
    ids: set[str] = set()
    for entry in knowledge.entries():
        if entry.id in ids:
            raise UserError(
                f"two entries are called {entry.id!r}", file=folder, remedy="give each its own id"
            )
        ids.add(entry.id)
        if not entry.matches_its_examples():
            raise UserError(f"an example of {entry.id!r} does not match its pattern", file=folder)
    for signature in knowledge.signatures:
        if signature.data["cause"] not in knowledge.causes:
            raise UserError(
                f"{signature.id}: no cause is called {signature.data['cause']!r}", file=folder / "causes.yaml"
            )
    rules = [(name, rule) for name, rule in knowledge.flags.items()]
    rules += [(name, rule) for name, several in knowledge.environment.items() for rule in several]
    for name, rule in rules:
        feature = rule.get("feature")
        if feature and feature not in knowledge.features:
            raise UserError(f"no feature is called {feature!r}", file=folder / "engagement.yaml", key=name)


def known_version(text: str | None) -> tuple[Version | None, str | None]:
    """The version whose knowledge applies, and a note when it is not the one asked for.

    Outside the range the entries come from, the nearest known version is used and the note says so.
    """
    if not text:
        return None, "the SGLang version is not known: entries of every version were tried"
    try:
        version = Version(text)
    except InvalidVersion:
        return None, f"{text!r} is no version number: entries of every version were tried"
    base = Version(version.base_version)
    nearest = max(OLDEST, min(NEWEST, base))
    if nearest != base:
        return nearest, f"SGLang {text} is not among the known versions; entries for {nearest} were used"
    return version, None

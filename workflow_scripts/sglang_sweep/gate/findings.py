"""One answer of the environment gate, and the texts of all its checks (config/knowledge/checks.yaml)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sglang_sweep.files import yaml_files

FILE = Path(__file__).resolve().parents[3] / "config" / "knowledge" / "checks.yaml"


@dataclass(frozen=True)
class Finding:
    """What one check found. ``passed`` is None where it could not be decided; ``found`` then says why.

    ``scope`` is ``host``, ``stack:<name>`` or ``variant:<name>``; ``concerns`` are the variants it bears on.
    """

    id: str
    scope: str
    severity: str
    passed: bool | None
    title: str
    found: str
    why: str
    remedy: str
    source: str
    evidence: str
    concerns: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Decided, and not well."""
        return self.passed is False

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {**vars(self), "concerns": list(self.concerns)}


@cache
def knowledge() -> dict[str, Any]:
    """checks.yaml, checked against its schema."""
    content: dict[str, Any] = yaml_files.read_yaml(FILE)
    yaml_files.check(content, "knowledge-checks", FILE)
    return content


def text_of(check: str) -> Mapping[str, Any]:
    """The entry of one check."""
    entry: Mapping[str, Any] = knowledge()["checks"][check]
    return entry


def finding(
    check: str,
    passed: bool | None,
    found: str,
    *,
    subject: str | None = None,
    concerns: Iterable[str] = (),
    severity: str | None = None,
    remedy: str | None = None,
    source: str | None = None,
    evidence: str | None = None,
) -> Finding:
    """A finding in the check's own words; what is given overrides them."""
    text = text_of(check)
    scope = text["scope"]
    return Finding(
        id=check,
        scope=scope if subject is None else f"{scope}:{subject}",
        severity=severity or text["severity"],
        passed=passed,
        title=text["title"],
        found=found,
        why=text["why"],
        remedy=remedy or text["remedy"],
        source=source or text["source"],
        evidence=evidence or text["evidence"],
        concerns=tuple(concerns),
    )

"""Names the optional parts of a report: each is rendered when its data are there, and left out otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Sections:
    """What a report shows beside the verdicts; every field may be absent.

    environment   results/environment.json: the host as fingerprinted
    gate          findings of the environment gate: {id, severity, found, why, remedy, source, scope}
    launches      launch.json records, for the session's timeline
    profiles      variant name -> breakdown as `analyze-trace --json` writes it
    explanations  variant name -> sentences: which phase or kernel class moved, or that none explains it
    speculation   economics of speculative decoding: terms, break-even, ceiling
    communication measured collectives beside predicted and profiled shares
    stacks        comparison of two stacks, finding by finding
    reopened      dead ends the present stack or host reopens, and why
    predictions   dead ends expected before any launch: {variant, cause, why, source, remedy}
    notes         what the engineer keeps beside the numbers, Markdown
    """

    environment: Record | None = None
    gate: Sequence[Record] | None = None
    launches: Sequence[Record] | None = None
    profiles: Mapping[str, Record] | None = None
    explanations: Mapping[str, Sequence[str]] | None = None
    speculation: Record | None = None
    communication: Record | None = None
    stacks: Record | None = None
    reopened: Sequence[Record] | None = None
    predictions: Sequence[Record] | None = None
    notes: str | None = None


def default_templates() -> Path:
    """Return reports/templates of the checkout this library lies in."""
    return Path(__file__).resolve().parents[3] / "reports" / "templates"

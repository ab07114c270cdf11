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
    gate          findings of the environment gate, as host.findings writes them
    launches      launch.json records, for the session's timeline
    profiles      variant name -> breakdown as `analyze-trace --json` writes it
    explanations  variant name -> what traces.link.explain_difference says: {sentence, explained, moved}
    speculation   what traces.speculation.economics returns, with `figure`, the path of its picture, or without
    communication {rows, cliffs, growth, figure}: see report.communication
    stacks        {a, b, rows}: two names and what host.stack_comparison.compare_stacks returns
    reopened      what host.reopening.reopened returns
    predictions   predictions of evidence.limits as dicts, each with its `variant`; where this is None, what
                  the gate says against a variant serves
    notes         what the engineer keeps beside the numbers, Markdown
    """

    environment: Record | None = None
    gate: Sequence[Record] | None = None
    launches: Sequence[Record] | None = None
    profiles: Mapping[str, Record] | None = None
    explanations: Mapping[str, Record] | None = None
    speculation: Record | None = None
    communication: Record | None = None
    stacks: Record | None = None
    reopened: Sequence[Record] | None = None
    predictions: Sequence[Record] | None = None
    notes: str | None = None


def default_templates() -> Path:
    """Return reports/templates of the checkout this library lies in."""
    return Path(__file__).resolve().parents[3] / "reports" / "templates"

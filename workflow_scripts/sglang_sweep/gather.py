"""Collects what a report shows beside the verdicts from where the other steps left it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sglang_sweep.record import read_json
from sglang_sweep.report.sections import Sections

ENVIRONMENT = Path("results/environment.json")


def sections(
    campaign: str, verdicts: Mapping[str, Any], launches: Sequence[str], profiles: Sequence[str]
) -> Sections:
    """What is there; a part that was not made is left out of the report."""
    breakdowns = {}
    for path in profiles:
        profile = read_json(Path(path))
        if profile.get("breakdown"):
            breakdowns[profile["variant"]] = profile["breakdown"]
    return Sections(
        environment=read_json(ENVIRONMENT) if ENVIRONMENT.exists() else None,
        launches=[read_json(Path(path)) for path in launches],
        profiles=breakdowns or None,
    )

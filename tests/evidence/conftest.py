"""Recordings as artifacts, read once a session."""

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest
from sglang_sweep.evidence import knowledge as knowledge_module
from sglang_sweep.evidence.artifacts import Artifacts, from_files
from sglang_sweep.evidence.features import match
from sglang_sweep.evidence.knowledge import Feature, Knowledge

RECORDINGS = Path(__file__).parents[1] / "recordings"


def folder_of(case: str) -> Path:
    """The folder of a recorded case, over all recorded machines."""
    return next(path for path in RECORDINGS.glob(f"*/{case}") if (path / "server.log.gz").exists())


def cases() -> list[str]:
    """Every recorded server, by name."""
    return sorted(
        path.parent.name
        for path in RECORDINGS.glob("*/*/server.log.gz")
        if path.parts[-3] != "public"  # those have tests of their own
    )


def recorded_with(knowledge: Knowledge, case: str) -> Artifacts:
    """The artifacts of a case, read with the given knowledge."""
    folder = folder_of(case)

    def beside(name: str) -> Path | None:
        return folder / name if (folder / name).exists() else None

    answer = beside("generate.json")
    return from_files(
        "measured launch",
        knowledge,
        log=folder / "server.log.gz",
        server_info=beside("server_info_after.json"),
        metrics=beside("metrics.txt.gz"),
        kernels=beside("kernels.txt"),
        meta=[json.loads(answer.read_text())["meta_info"]] if answer else [],
        meta_file=answer,
    )


@cache
def recorded(case: str) -> Artifacts:
    """The artifacts of a case, with the project's knowledge."""
    return recorded_with(knowledge_module.load(), case)


@pytest.fixture(scope="session")
def knowledge() -> Knowledge:
    return knowledge_module.load()


@dataclass
class Matches:
    """Entries of a feature that match, by what they mean."""

    on: list[str] = field(default_factory=list)
    off: list[str] = field(default_factory=list)
    intent: list[str] = field(default_factory=list)


def all_matches(feature: Feature, artifacts: Artifacts) -> Matches:
    """Every entry of a feature that matches, not only the first."""
    matches = Matches()
    for entry in feature.evidence:
        if match(entry, artifacts) is not None:
            getattr(matches, entry.data["means"]).append(entry.id)
    return matches

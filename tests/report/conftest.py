"""The published campaign of two H200 that reports are tested on: every record in it was measured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sglang_sweep.report.answer import Campaign
from sglang_sweep.report.document import Document
from sglang_sweep.report.documents import draw, explained, read_campaign
from sglang_sweep.report.record import Variant
from sglang_sweep.report.view import report_of

EXAMPLE = Path(__file__).parents[2] / "reports" / "examples" / "h200-x2"


@pytest.fixture(scope="session")
def example() -> Path:
    return EXAMPLE


@pytest.fixture(scope="session")
def published() -> Campaign:
    """The campaign as it was measured."""
    return read_campaign(EXAMPLE / "results" / "h200-x2")


@pytest.fixture
def at_example(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the paths in its records lead to files."""
    monkeypatch.chdir(EXAMPLE)


@pytest.fixture(scope="session")
def document(published: Campaign, tmp_path_factory: pytest.TempPathFactory) -> Document:
    """Its report, drawn once."""
    with chdir(EXAMPLE):
        return explained(report_of(published, draw(published, tmp_path_factory.mktemp("drawn"), None)))


def changed(campaign: Campaign, **variants: dict[str, Any] | None) -> Campaign:
    """The campaign with fields of some variants changed (dashes of a name written as underscores), or without them."""
    by_name = {name.replace("_", "-"): fields for name, fields in variants.items()}
    kept = [
        v.model_copy(update=by_name.get(v.name) or {})
        for v in campaign.verdicts.variants
        if by_name.get(v.name, {}) is not None
    ]
    return replace(campaign, verdicts=campaign.verdicts.model_copy(update={"variants": kept}))


@pytest.fixture
def change(published: Campaign) -> Callable[..., Campaign]:
    return lambda **variants: changed(published, **variants)


@pytest.fixture
def variant(published: Campaign) -> Callable[[str], Variant]:
    return lambda name: next(v for v in published.verdicts.variants if v.name == name)

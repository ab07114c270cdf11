"""A report is written from the least that verdicts.json may hold: a campaign half run is reported, not refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sglang_sweep.report.figures import figure_blocks, figure_ratios, figure_windows
from sglang_sweep.report.findings import write_findings
from sglang_sweep.report.page import write_page
from sglang_sweep.report.tables import write_tables
from sglang_sweep.report.terminal import verdict_table
from sglang_sweep.report.words import ORDER
from sglang_sweep.verdict.records import AA, Row, Verdicts


def least(verdict: str) -> dict[str, Any]:
    """Return a variant with required keys only, every value absent that may be."""
    empty: dict[str, Any] = {name: None for name, field in Row.model_fields.items() if field.is_required()}
    return empty | {
        "name": f"a-{verdict.lower().replace('_', '-')}",
        "verdict": verdict,
        "blocks": 0,
        "change": {},
        "metrics": [],
        "launches": [],
        "reopen_when": [],
        "holds_for": {},
    }


@pytest.fixture
def minimal() -> dict[str, Any]:
    document = {
        "campaign": "c",
        "question": None,
        "host": {},
        "stacks": {},
        "design": {"primary": {"workload": "chat", "metric": "output_throughput"}},
        "generated_from": [],
        "session": {
            "aa": dict.fromkeys(name for name in AA.model_fields) | {"blocks": 0},
            "void": False,
            "reasons": [],
        },
        "variants": [least(verdict) for verdict in ORDER],
    }
    Verdicts.model_validate(document)
    return document


def test_every_verdict_without_any_number_is_written_everywhere(
    tmp_path: Path, minimal: dict[str, Any]
) -> None:
    write_findings(minimal, tmp_path / "findings.md")
    write_page(minimal, tmp_path / "index.html")
    write_tables(minimal, tmp_path / "v.csv", tmp_path / "l.csv")
    figure_ratios(minimal, tmp_path / "ratios.svg")
    figure_blocks([], tmp_path / "blocks.svg", verdicts=minimal)
    figure_windows([], tmp_path / "windows.svg", verdicts=minimal)
    assert verdict_table(minimal).row_count == len(ORDER)
    for name in ("findings.md", "index.html", "v.csv", "ratios.svg"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        drawn = [verdict for verdict in ORDER if name != "ratios.svg" or verdict != "PLANNED"]
        assert [verdict for verdict in drawn if verdict not in text] == []
        assert "None" not in text

"""What the report reads: records of every age, and those that the stand-in pipeline never wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sglang_sweep.errors import UserError
from sglang_sweep.report.answer import Campaign
from sglang_sweep.report.document import Terms, Text, plain, spans
from sglang_sweep.report.markdown import markdown_of
from sglang_sweep.report.page import Page
from sglang_sweep.report.record import ReportData, Variant
from sglang_sweep.report.tables import write_tables
from sglang_sweep.report.view import report_of
from sglang_sweep.report.words import ORDER


def test_a_report_json_of_version_one_is_read_and_written_as_version_two(
    example: Path, tmp_path: Path
) -> None:
    old = ReportData.read(example / "results" / "h200-x2" / "report.json")
    old.write(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["schema_version"] == 2
    assert ReportData.read(tmp_path / "report.json") == old
    assert old.explanations["custom-all-reduce"].moved[0].class_ == "all_reduce"


def test_a_damaged_report_json_gives_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text('{"schema_version": 2, "gate": "none"}')
    with pytest.raises(UserError, match="gate"):
        ReportData.read(tmp_path / "report.json")


def test_every_verdict_without_any_number_is_written_everywhere(published: Campaign, tmp_path: Path) -> None:
    least = [Variant(name=f"a-{name.lower()}", verdict=name) for name in ORDER]
    bare = replace(published, verdicts=published.verdicts.model_copy(update={"variants": least}), launches=[])
    document = report_of(bare, {})
    write_tables(bare, tmp_path)
    for text in (markdown_of(document, tmp_path), Page(tmp_path).html(document)):
        assert [v for v in ORDER if v != "PLANNED" and v not in text] == []
        assert "None" not in text.replace("None while", "")


def test_a_term_is_linked_where_it_is_first_used_and_not_in_code() -> None:
    terms = Terms({"block": "t-1", "blocks": "t-1", "skew": "t-2"})
    first = terms.linked(Text("In three blocks; a block more."))
    second = terms.linked(Text("Another block, and skew."))
    assert [(s.text, s.href) for s in spans(first.words) if s.href] == [("blocks", "#t-1")]
    assert [(s.text, s.href) for s in spans(second.words) if s.href] == [("skew", "#t-2")]
    assert plain(first.words) == "In three blocks; a block more."

"""findings.md says the same as the page, in Markdown that its sources cannot break."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from sglang_sweep.report.answer import Campaign
from sglang_sweep.report.document import Document
from sglang_sweep.report.markdown import markdown_of
from sglang_sweep.report.record import Line
from sglang_sweep.report.view import report_of

MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")


@pytest.fixture
def findings(at_example: None, document: Document) -> str:
    return markdown_of(document, Path())


def test_the_head_holds_the_whole_answer(findings: str) -> None:
    head = findings.split("\n## ")[0]
    for words in (
        "**Run custom-all-reduce",
        "```sh",
        "How sure:",
        "Given up:",
        "Noise here:",
        "Cost of finding out:",
    ):
        assert words in head
    assert "1 request at once, 128 tokens in, 256 out, random ids" in head
    assert len(head.split()) < 365


def test_every_candidate_has_a_row_and_a_part_it_links_to(findings: str, published: Campaign) -> None:
    for v in published.candidates:
        assert re.search(rf"\| \[{v.name}\]\(#v-{v.name}\) \| \S+ {v.verdict} \|", findings)
        assert f'<a id="v-{v.name}"></a>' in findings


def test_controls_stand_apart_from_what_can_be_served(findings: str) -> None:
    candidates, controls = findings.split("Controls:")[:2]
    assert "eagle3-accept-3" not in candidates
    assert "[eagle3-accept-3]" in controls


def test_every_link_leads_to_a_file_or_into_the_document(findings: str) -> None:
    targets = re.findall(r"\]\(([^)]+)\)", findings)
    anchors = set(re.findall(r'<a id="([^"]+)">', findings))
    files = [t for t in targets if not t.startswith(("#", "http"))]
    assert len(files) > 30
    assert [t for t in files if not Path(t.split("#")[0]).exists()] == []
    assert {t[1:] for t in targets if t.startswith("#")} <= anchors


def test_hostile_text_leaves_the_structure_alone(at_example: None, change: Callable[..., Campaign]) -> None:
    def structure(**told: object) -> list[str]:
        text = markdown_of(report_of(change(graphs_8=told), {}), Path())
        return [t.type + t.tag for t in MARKDOWN.parse(text) if t.type not in ("inline", "html_block")]

    evil = "`| <script>alert(1)</script> ``` \x1b[31m](x) *a* __b__ # $x$ "
    calm = structure(hypothesis="x", evidence=[Line(text="x")], reasons=["x"])
    assert structure(hypothesis=evil, evidence=[Line(text=evil)], reasons=[evil]) == calm


def test_page_and_markdown_are_made_of_one_document(
    at_example: None, document: Document, findings: str
) -> None:
    from sglang_sweep.report.page import Page

    page = Page(Path()).html(document)
    for section in document.sections:
        assert f'<section id="{section.anchor}"' in page
        assert f'<a id="{section.anchor}"></a>' in findings

"""index.html is one file that needs nothing else, and no log can add markup to it."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from sglang_sweep.report.answer import Campaign
from sglang_sweep.report.document import Document
from sglang_sweep.report.page import Page
from sglang_sweep.report.record import Line
from sglang_sweep.report.view import report_of

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Outline(HTMLParser):
    """Collects tags, ids and attributes, and checks that every element is closed where it was opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def outline(page: str) -> Outline:
    parsed = Outline()
    parsed.feed(page)
    parsed.close()
    assert not parsed.open
    return parsed


@pytest.fixture
def page(at_example: None, document: Document) -> str:
    return Page(Path()).html(document)


def test_the_same_records_give_the_same_bytes(page: str, document: Document) -> None:
    assert Page(Path()).html(document) == page


def test_nothing_is_loaded_from_elsewhere(page: str) -> None:
    loading = [
        (tag, name, value)
        for tag, name, value in outline(page).attributes
        if name in ("src", "srcset") or (tag in ("link", "use", "image") and name.endswith("href"))
    ]
    assert all(value.startswith(("data:", "#")) for _, _, value in loading)
    assert "@import" not in page
    assert not re.findall(r"url\((?!#)", page)


def test_ids_are_unique_although_each_figure_stands_there_twice(page: str) -> None:
    ids = outline(page).ids
    assert sorted(ids) == sorted(set(ids))


def test_every_link_inside_the_page_leads_somewhere(page: str) -> None:
    parsed = outline(page)
    targets = {
        value[1:] for _, name, value in parsed.attributes if name.endswith("href") and value[:1] == "#"
    }
    assert targets <= set(parsed.ids)


def test_every_link_out_of_the_page_leads_to_a_file(page: str) -> None:
    parsed = outline(page)
    files = [
        v for tag, name, v in parsed.attributes if (tag, name) == ("a", "href") and v[:1] not in ("#", "h")
    ]
    assert files
    assert [file for file in files if not Path(file.split("#")[0]).is_file()] == []


def test_a_quoted_log_line_opens_on_the_page_among_its_neighbours(page: str, published: Campaign) -> None:
    dead = next(v for v in published.candidates if v.verdict == "DEAD_END")
    line = dead.evidence[0]
    (anchor,) = {m[1] for m in re.finditer(rf'href="#(log-\d+-L{line.line})"', page)}
    shown = page.split(f'id="{anchor}"')[1].split("</span>")[0]
    assert "NCCL error: invalid usage" in shown
    before = page.split(f'id="{anchor}"')[0]
    assert f"L{line.line - 6}" in before.rsplit("<details", 1)[1]


def test_tables_say_what_they_are_and_head_their_columns(page: str) -> None:
    parsed = outline(page)
    assert parsed.tags.count("caption") == parsed.tags.count("table")
    scopes = [value for tag, name, value in parsed.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == parsed.tags.count("th")


def test_it_has_landmarks_a_skip_link_and_pictures_with_words(page: str) -> None:
    parsed = outline(page)
    assert {"header", "main", "nav"} <= set(parsed.tags)
    assert 'class="skip" href="#variants"' in page
    pictures = [value for tag, name, value in parsed.attributes if (tag, name) == ("svg", "aria-label")]
    assert len(pictures) == parsed.tags.count("svg")
    assert all(pictures)


def test_it_follows_light_dark_narrow_and_print(page: str) -> None:
    for words in ("prefers-color-scheme: dark", "max-width: 44rem", "@media print", 'name="viewport"'):
        assert words in page


def test_the_table_of_candidates_can_be_sorted_and_filtered_by_verdict(page: str) -> None:
    table = page.split('<table class="sortable')[1].split("</table>")[0]
    assert table.count("<tr") == 7
    assert 'class="row-NO_DIFFERENCE"' in table
    assert "body:has(#show-NO_DIFFERENCE:not(:checked))" in page


def test_markup_in_records_is_text(at_example: None, change: Callable[..., Campaign]) -> None:
    calm = outline(Page(Path()).html(report_of(change(), {}))).tags
    evil = '</pre></code></details><script>alert("1")</script><img src=x onerror=alert(1)>\x1b[31m\x00'
    told = {"hypothesis": evil, "cause": evil, "change": {"env": {"A": evil}}, "evidence": [Line(text=evil)]}
    wild = outline(Page(Path()).html(report_of(change(graphs_8=told, nccl_tree_unscoped=told), {})))
    assert wild.tags.count("script") == calm.count("script")
    assert "img" not in wild.tags
    assert any('<script>alert("1")' in text for text in wild.text)
    assert not any("\x1b" in text or "\x00" in text for text in wild.text)

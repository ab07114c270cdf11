"""Text from logs cannot change a document it is quoted in."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from sglang_sweep.report import escape

HOSTILE = st.text(alphabet=st.sampled_from(list("ab _*`|<>[]()!#~\\&$:-+=1.\x1b\x00\n\t^x")), max_size=40)
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def shown(markdown: str) -> str:
    """Return the text a reader sees of inline Markdown; anything but text and code spans is a failure."""
    tokens = MARKDOWN.parseInline(markdown)[0].children or []
    assert {t.type for t in tokens} <= {"text", "code_inline", "text_special", "entity"}, tokens
    return "".join(t.content for t in tokens)


@given(HOSTILE)
def test_escaped_text_is_shown_exactly_as_it_was(text: str) -> None:
    assert shown(escape.markdown(text)) == " ".join(escape.clean(text).split())


@given(HOSTILE)
def test_escaped_text_stays_a_paragraph_at_the_start_of_a_line(text: str) -> None:
    blocks = {t.type for t in MARKDOWN.parse(escape.markdown(text))}
    assert blocks <= {"paragraph_open", "inline", "paragraph_close"}


@given(HOSTILE)
def test_a_code_span_shows_the_line_whatever_backticks_it_holds(text: str) -> None:
    assert shown(escape.code(text)) == escape.log_line(text)


@given(HOSTILE, HOSTILE)
def test_a_table_row_keeps_its_cells_whatever_they_hold(one: str, two: str) -> None:
    row = f"| a | b |\n|---|---|\n| {escape.markdown(one)} | {escape.cell_code(two)} |\n"
    tokens = MARKDOWN.parse(row)
    assert sum(t.type == "td_open" for t in tokens) == 2
    cells = [t for t in tokens if t.type == "inline"][2:]
    assert [shown(cell.content) for cell in cells] == [
        " ".join(escape.clean(one).split()),
        escape.log_line(two),
    ]


@given(HOSTILE)
def test_a_fenced_block_cannot_be_closed_by_its_text(text: str) -> None:
    blocks = [t.type for t in MARKDOWN.parse(escape.fenced(f"x{text}x") + "\n\nafter")]
    assert blocks == ["fence", "paragraph_open", "inline", "paragraph_close"]


@pytest.mark.parametrize(
    "text",
    ["\x1b[31mred\x1b[0m", "\x1b]0;title\x07red", "r\x00ed", "\u202ered", "\ufeffred"],
)
def test_colours_titles_and_invisible_characters_are_dropped(text: str) -> None:
    assert escape.clean(text) == "red"


def test_a_very_long_line_is_cut_and_says_by_how_much() -> None:
    assert escape.log_line("x" * 2600).endswith("… (600 more characters)")


def test_a_lone_surrogate_cannot_break_writing() -> None:
    escape.clean("a\udcffb").encode()


def test_links_are_relative_to_the_document_and_name_the_line() -> None:
    link = escape.href("results/c/launches/v-1/block-1/a b|c.log", Path("reports/c"), 12)
    assert link == "../../results/c/launches/v-1/block-1/a%20b%7Cc.log#L12"


@pytest.mark.parametrize("source", ["javascript:alert(1)", "data:text/html,x"])
def test_no_text_becomes_a_link_that_runs(source: str) -> None:
    assert not escape.href(source, Path()).startswith(("javascript:", "data:"))


def test_web_sources_stay_web_links() -> None:
    assert escape.href("https://github.com/sgl-project/sglang/issues/1", Path("reports/c")).startswith(
        "https://"
    )

"""index.html is one file that needs nothing else, and no log can add markup to it."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import constructed
import pytest
from sglang_sweep.report.figures import figure_ratios
from sglang_sweep.report.page import inline_svg, write_page
from sglang_sweep.report.sections import Sections

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
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def page(root: Path, verdicts: dict[str, Any], sections: Sections) -> str:
    return written(verdicts, sections)


@cache
def drawn() -> str:
    """Return a real figure, drawn once."""
    with tempfile.TemporaryDirectory() as folder:
        figure_ratios(constructed.verdicts(), Path(folder) / "ratios.svg")
        return (Path(folder) / "ratios.svg").read_text(encoding="utf-8")


def written(verdicts: dict[str, Any], sections: Sections | None = None) -> str:
    Path("ratios.svg").write_text(drawn(), encoding="utf-8")
    figures = {"First": Path("ratios.svg"), "Second": Path("ratios.svg")}
    write_page(verdicts, Path("reports/c/index.html"), figures=figures, sections=sections)
    return Path("reports/c/index.html").read_text(encoding="utf-8")


def test_the_same_verdicts_give_the_same_bytes(
    page: str, verdicts: dict[str, Any], sections: Sections
) -> None:
    assert written(verdicts, sections) == page


def test_nothing_is_loaded_from_elsewhere(page: str) -> None:
    loading = [
        (tag, name, value)
        for tag, name, value in outline(page).attributes
        if name in ("src", "srcset") or (tag in ("link", "use", "image") and name.endswith("href"))
    ]
    assert all(value.startswith(("data:", "#")) for _, _, value in loading)
    assert "@import" not in page
    assert not re.findall(r"url\((?!#)", page)


def test_ids_are_unique_although_the_figures_repeat(page: str) -> None:
    ids = outline(page).ids
    assert sorted(ids) == sorted(set(ids))


def test_every_link_inside_the_page_leads_somewhere(page: str) -> None:
    parsed = outline(page)
    targets = {
        value[1:] for _, name, value in parsed.attributes if name.endswith("href") and value[:1] == "#"
    }
    assert targets <= set(parsed.ids)


def test_every_variant_has_an_article_with_its_verdict(page: str, verdicts: dict[str, Any]) -> None:
    for v in verdicts["variants"]:
        article = page.split(f'<article id="v-{v["name"]}"')[1].split("</article>")[0]
        assert f"</span> {v['verdict']}</span>" in article


def test_a_variant_called_like_a_section_keeps_its_own_anchor(root: Path, verdicts: dict[str, Any]) -> None:
    verdicts["variants"][1]["name"] = "session"
    ids = outline(written(verdicts)).ids
    assert ids.count("session") == 1
    assert ids.count("v-session") == 1


def test_tables_say_what_they_are_and_head_their_columns(page: str) -> None:
    parsed = outline(page)
    assert parsed.tags.count("caption") == parsed.tags.count("table")
    scopes = [value for tag, name, value in parsed.attributes if (tag, name) == ("th", "scope")]
    assert len(scopes) == parsed.tags.count("th")


def test_figures_have_a_text_alternative(page: str) -> None:
    assert '<svg role="img" aria-label="First"' in page


def test_it_follows_light_dark_and_print(page: str) -> None:
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert 'name="viewport"' in page


def test_markup_in_logs_is_text(root: Path, verdicts: dict[str, Any], sections: Sections) -> None:
    calm = outline(written(verdicts, sections)).tags
    evil = '</pre></code></details><script>alert("1")</script><img src=x onerror=alert(1)>\x1b[31m\x00'
    for v in verdicts["variants"]:
        v["hypothesis"] = v["cause"] = evil
        v["evidence"] = [e | {"text": evil} for e in v["evidence"]]
        v["change"] = {"env": {"A": evil}} if v["change"] else {}
    wild = outline(written(verdicts, sections))
    assert wild.tags.count("script") == calm.count("script") == 1
    assert "img" not in wild.tags
    assert any('<script>alert("1")' in text for text in wild.text)
    assert not any("\x1b" in text or "\x00" in text for text in wild.text)


def test_all_of_the_constructed_campaign_is_on_the_page(page: str) -> None:
    text = " ".join(outline(page).text)
    for words in (
        "Fastest: graph-bs-128",
        "NCCL error: invalid usage",
        "GPU 5 trained at Gen4 x16",
        "TARGET_VERIFY",
        "copies in DECODE went from 0.420",
        "riser of GPU 5",
        "cold_window, window 1",
    ):
        assert words.replace(" %", "\u00a0%") in text


def test_an_inlined_figure_takes_the_pages_colours_and_its_own_ids() -> None:
    svg = (
        '<?xml version="1.0"?><svg xmlns="x"><metadata>>sglang-sweep<</metadata><g id="a" style="fill: #1f2328"/>'
        '<use xlink:href="#a" style="fill: #0072b2" clip-path="url(#a)"/></svg>'
    )
    inlined = inline_svg(svg, "f1-", 'a "label"')
    assert inlined == (
        '<svg role="img" aria-label="a &#34;label&#34;" xmlns="x"><g id="f1-a" style="fill: currentColor"/>'
        '<use xlink:href="#f1-a" style="fill: var(--win)" clip-path="url(#f1-a)"/></svg>'
    )

"""What a report is made of: sections of paragraphs, tables, code, figures and folds, for Markdown and page alike.

A sentence is written once, as a `Words`: text with spans that link, stand in code, or carry a tone. `report.markdown`
and `report.page` only render it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Span:
    """A piece of a sentence. ``href`` leads within the document or to the web, ``file`` and ``line`` to evidence."""

    text: str
    code: bool = False
    strong: bool = False
    href: str = ""
    file: str = ""
    line: int | None = None
    tone: str = ""
    """better, worse, quiet, or a verdict: a colour on the page, never the only sign."""


Words = str | Span | Sequence["str | Span"]


@dataclass(frozen=True)
class Text:
    words: Words
    tone: str = ""


@dataclass(frozen=True)
class Items:
    items: Sequence[Words]


@dataclass(frozen=True)
class Code:
    """``label`` names what a copy button copies; without one there is no button."""

    text: str
    language: str = ""
    label: str = ""


@dataclass(frozen=True)
class Strip:
    """The picture of an interval on an axis that all rows of a table share. Shown on the page alone."""

    svg: str
    sort: float = 0.0


Cell = Words | Strip


@dataclass(frozen=True)
class Row:
    cells: Sequence[Cell]
    verdict: str = ""


@dataclass(frozen=True)
class Table:
    """``right`` are the numbers of columns with numbers; one headed by a Strip is left out in Markdown."""

    caption: str
    head: Sequence[Cell]
    rows: Sequence[Row]
    right: Sequence[int] = ()
    sortable: bool = False


@dataclass(frozen=True)
class Facts:
    rows: Sequence[tuple[str, Words]]
    anchors: Sequence[str] = ()
    """One a row, or none."""


@dataclass(frozen=True)
class Figure:
    """``file`` is the saved picture; ``wide`` and ``narrow`` are its SVG for the page."""

    caption: str
    file: Path
    wide: str
    narrow: str


@dataclass(frozen=True)
class Notes:
    """Markdown of the campaign's author."""

    text: str


@dataclass(frozen=True)
class Fold:
    """Closed at first. One with an anchor is a thing of its own (a variant): a heading in Markdown."""

    summary: Words
    blocks: Sequence[Any]
    anchor: str = ""


Block = Text | Items | Code | Table | Facts | Figure | Notes | Fold


@dataclass(frozen=True)
class Section:
    title: str
    anchor: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """``head`` is the first screen, without a heading of its own."""

    title: str
    question: str
    head: Sequence[Block]
    sections: Sequence[Section]


def spans(words: Words) -> Iterator[Span]:
    """The pieces of a sentence, plain text as a span without anything."""
    if isinstance(words, Span):
        yield words
    elif isinstance(words, str):
        yield Span(words)
    else:
        for piece in words:
            yield from spans(piece)


def plain(words: Words) -> str:
    """A sentence as text."""
    return "".join(span.text for span in spans(words))


@dataclass
class Terms:
    """Links each term at its first use to where it is explained; in code and in links nothing is touched."""

    terms: dict[str, str]
    """Term as written in text -> anchor."""
    found: set[str] = field(default_factory=set)

    def linked(self, part: Any) -> Any:
        """The part of a document, with links in its sentences."""
        if isinstance(part, Text):
            return replace(part, words=self._words(part.words))
        if isinstance(part, Items):
            return replace(part, items=[self._words(item) for item in part.items])
        if isinstance(part, Facts):
            return replace(part, rows=[(label, self._words(words)) for label, words in part.rows])
        if isinstance(part, list | tuple):
            return [self.linked(item) for item in part]
        if is_dataclass(part) and not isinstance(part, type):
            nested = {f.name for f in fields(part)} & {"head", "sections", "blocks"}
            if isinstance(part, Document | Section | Fold):
                return replace(part, **{name: self.linked(getattr(part, name)) for name in sorted(nested)})
        return part

    def _words(self, words: Words) -> Words:
        return [piece for span in spans(words) for piece in self._span(span)]

    def _span(self, span: Span) -> Iterator[Span]:
        rest = span.text
        if not (span.code or span.href or span.file):
            while open_terms := [t for t in self.terms if t not in self.found]:
                pattern = "|".join(map(re.escape, sorted(open_terms, key=len, reverse=True)))
                match = re.search(rf"(?<![\w-])(?:{pattern})(?![\w-])", rest)
                if match is None:
                    break
                self.found |= {t for t in self.terms if self.terms[t] == self.terms[match[0]]}
                yield replace(span, text=rest[: match.start()])
                yield replace(span, text=match[0], href=f"#{self.terms[match[0]]}", tone="term")
                rest = rest[match.end() :]
        if rest:
            yield replace(span, text=rest)

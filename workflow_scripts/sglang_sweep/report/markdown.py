"""Renders a document as Markdown that GitHub shows as it is meant; every text is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from sglang_sweep.report.document import (
    Block,
    Cell,
    Code,
    Document,
    Facts,
    Figure,
    Fold,
    Items,
    Notes,
    Section,
    Strip,
    Table,
    Text,
    Words,
    spans,
)
from sglang_sweep.report.escape import cell_code, code, fenced, href, link, markdown


def markdown_of(document: Document, folder: Path) -> str:
    """Return findings.md; links to files are relative to ``folder``, where it will lie."""
    parts = [f"# {markdown(document.title)}"]
    if document.question:
        parts.append(f"*{markdown(document.question)}*")
    parts += _blocks(document.head, folder)
    for section in document.sections:
        parts += [f"## {markdown(section.title)}", *_section(section, folder)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section, folder: Path) -> Iterator[str]:
    # The anchor of the page, so that one set of links serves both.
    yield f'<a id="{section.anchor}"></a>'
    yield from _blocks(section.blocks, folder)


def _blocks(blocks: Sequence[Block], folder: Path) -> Iterator[str]:
    for block in blocks:
        match block:
            case Text():
                yield words(block.words, folder)
            case Items():
                yield "\n".join(f"- {words(item, folder)}" for item in block.items)
            case Facts():
                yield "\n".join(f"- {markdown(label)}: {words(text, folder)}" for label, text in block.rows)
            case Code():
                yield fenced(block.text, block.language)
            case Table():
                yield _table(block, folder)
            case Figure():
                yield f"![{markdown(block.caption)}]({href(str(block.file), folder)})"
            case Notes():
                yield block.text
            case Fold() if block.anchor:
                yield f'<a id="{block.anchor}"></a>'
                yield f"### {words(block.summary, folder)}"
                yield from _blocks(block.blocks, folder)
            case Fold():
                yield f"<details><summary>{words(block.summary, folder)}</summary>"
                yield from _blocks(block.blocks, folder)
                yield "</details>"


def words(text: Words, folder: Path, *, cell: bool = False) -> str:
    """A sentence in one line."""
    shown = []
    for span in spans(text):
        piece: str = (cell_code if cell else code)(span.text) if span.code else markdown(span.text)
        target = href(span.file, folder, span.line) if span.file else span.href
        if span.tone == "term":
            target = ""  # explained at the end; in Markdown a link a word would be noise
        piece = (
            f"[{piece}]({target})" if target and span.code else link(span.text, target) if target else piece
        )
        outer = span.text[: len(span.text) - len(span.text.lstrip())], span.text[len(span.text.rstrip()) :]
        bare = f"**{piece}**" if span.strong and piece else piece
        shown.append(f"{' ' if outer[0] else ''}{bare}{' ' if outer[1] and span.text.strip() else ''}")
    return "".join(shown).strip()


def _table(table: Table, folder: Path) -> str:
    shown = [n for n, head in enumerate(table.head) if not isinstance(head, Strip)]

    def line(cells: Sequence[Cell]) -> str:
        texts = ["" if isinstance(cell := cells[n], Strip) else words(cell, folder, cell=True) for n in shown]
        return f"| {' | '.join(texts)} |"

    rule = "|" + "|".join("---:" if n in table.right else "---" for n in shown) + "|"
    body = "\n".join([line(table.head), rule, *(line(row.cells) for row in table.rows)])
    return f"{markdown(table.caption)}:\n\n{body}" if table.caption else body

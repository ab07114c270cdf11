"""Renders a document as index.html: one self-contained page, readable offline, in the dark, on a phone and on paper."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup

from sglang_sweep.report.document import (
    Block,
    Code,
    Document,
    Facts,
    Figure,
    Fold,
    Items,
    Notes,
    Strip,
    Table,
    Text,
    Words,
    plain,
    spans,
)
from sglang_sweep.report.escape import clean, href

TEMPLATES = Path(__file__).resolve().parents[3] / "reports" / "templates"
CONTEXT = 6
"""Lines of a log shown before and after a quoted one."""

# CommonMark without raw HTML: notes are text of a campaign's author, not part of the page's code.
_MARKDOWN = MarkdownIt("commonmark", {"html": False})


class Page:
    """Renders one document; keeps which lines of which files it quotes, to show them in their context at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.quoted: dict[str, set[int]] = {}

    def html(self, document: Document) -> str:
        """The whole page; links to files without quoted lines are relative to the folder it will lie in."""
        jinja = jinja2.Environment(
            loader=jinja2.FileSystemLoader(TEMPLATES),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.StrictUndefined,
            keep_trailing_newline=True,
        )
        head = self.blocks(document.head)
        sections = [(section, self.blocks(section.blocks)) for section in document.sections]
        return jinja.get_template("index.html.j2").render(
            title=clean(document.title),
            question=clean(document.question),
            head=head,
            sections=sections,
            excerpts=self._excerpts(),
            style=Markup((TEMPLATES / "page.css").read_text(encoding="utf-8")),
            scripts=[
                Markup(path.read_text(encoding="utf-8").replace("</script", "<\\/script"))
                for path in [*sorted(TEMPLATES.glob("vendor/*.js")), TEMPLATES / "page.js"]
            ],
        )

    def blocks(self, blocks: Sequence[Block]) -> Markup:
        return Markup("\n".join(self._block(block) for block in blocks))

    def _block(self, block: Block) -> str:
        match block:
            case Text():
                return f"<p{_class(block.tone)}>{self.words(block.words)}</p>"
            case Items():
                return "<ul>" + "".join(f"<li>{self.words(item)}</li>" for item in block.items) + "</ul>"
            case Facts():
                ids = [f' id="{anchor}"' for anchor in block.anchors] or [""] * len(block.rows)
                rows = (
                    f"<dt{named}>{_text(label)}</dt><dd>{self.words(text)}</dd>"
                    for named, (label, text) in zip(ids, block.rows, strict=True)
                )
                return f"<dl>{''.join(rows)}</dl>"
            case Code():
                return self._code(block)
            case Table():
                return self._table(block)
            case Figure(wide=""):
                return ""
            case Figure():
                forms = f'<div class="wide">{block.wide}</div><div class="narrow">{block.narrow}</div>'
                return f"<figure><figcaption>{_text(block.caption)}</figcaption>{forms}</figure>"
            case Notes():
                return f"<div>{_MARKDOWN.render(clean(block.text))}</div>"
            case Fold():
                named = f' id="{block.anchor}" class="variant"' if block.anchor else ""
                summary = self.words(block.summary)
                summary = f"<h3>{summary}</h3>" if block.anchor else summary
                return f"<details{named}><summary>{summary}</summary>\n{self.blocks(block.blocks)}</details>"

    def words(self, text: Words) -> str:
        shown = []
        for span in spans(text):
            piece = _text(span.text)
            piece = (
                f"<code>{piece}</code>"
                if span.code
                else f"<strong>{piece}</strong>"
                if span.strong
                else piece
            )
            target = self._place(span.file, span.line) if span.file else span.href
            if target:
                piece = f'<a href="{escape(target)}"{_class(span.tone)}>{piece}</a>'
            elif span.tone:
                piece = f"<span{_class(span.tone)}>{piece}</span>"
            shown.append(piece)
        return "".join(shown)

    def _code(self, block: Code) -> str:
        text = _text(block.text)
        if block.language == "diff":
            tones = {"+": "plus", "-": "minus"}
            lines = (f"<span{_class(tones.get(line[:1], ''))}>{line}</span>" for line in text.split("\n"))
            text = "\n".join(lines)
        button = ""
        if block.label:
            label = _text(block.label)
            named = f'role="button" tabindex="0" aria-label="{label}"'
            button = f'<clipboard-copy value="{text}" {named}>Copy</clipboard-copy>'
        return f'<div class="code">{button}<pre tabindex="0">{text}</pre></div>'

    def _table(self, table: Table) -> str:
        heads = [
            f'<th scope="col"{_class("picture no-sort")}>{cell.svg}</th>'
            if isinstance(cell, Strip)
            else f'<th scope="col"{_class("number" if n in table.right else "")}>{self.words(cell)}</th>'
            for n, cell in enumerate(table.head)
        ]
        rows = []
        for row in table.rows:
            cells = []
            for n, cell in enumerate(row.cells):
                head = table.head[n]
                name = "" if isinstance(head, Strip) else plain(head)  # a phone shows it before the value
                if isinstance(cell, Strip):
                    cells.append(f'<td class="picture">{cell.svg}</td>')
                else:
                    sort = f' data-sort="{_sort_key(cell)}"' if table.sortable and n == 2 else ""
                    number = _class("number" if n in table.right else "")
                    cells.append(f'<td{number}{sort} data-head="{_text(name)}">{self.words(cell)}</td>')
            rows.append(f"<tr{_class(f'row-{row.verdict}' if row.verdict else '')}>{''.join(cells)}</tr>")
        caption = f"<caption>{_text(table.caption)}</caption>" if table.caption else ""
        kinds = " ".join(
            ["sortable"] * table.sortable + ["cards"] * any(isinstance(c, Strip) for c in table.head)
        )
        head = f"<thead><tr>{''.join(heads)}</tr></thead>"
        body = f"<table{_class(kinds)}>{caption}{head}<tbody>{''.join(rows)}</tbody></table>"
        named = f'role="region" aria-label="{_text(table.caption)}"'
        region = f'<div class="scroll" tabindex="0" {named}>{body}</div>'
        return (_filters(table) + region) if table.sortable else region

    def _place(self, file: str, line: int | None) -> str:
        """Where a quoted line is shown: in an excerpt on this page; else the file itself."""
        if line is None or not Path(file).is_file():
            return href(file, self.folder, line)
        self.quoted.setdefault(file, set()).add(line)
        return f"#{self._excerpt(file)}-L{line}"

    def _excerpt(self, file: str) -> str:
        return f"log-{list(self.quoted).index(file) + 1}"

    def _excerpts(self) -> list[tuple[str, str, str, Markup]]:
        """Anchor, name, link and lines of each quoted file, with what stands around the quoted lines."""
        shown = []
        for file, wanted in self.quoted.items():
            lines = Path(file).read_bytes().decode("utf-8", "replace").split("\n")
            near = sorted(
                {n for w in wanted for n in range(w - CONTEXT, w + CONTEXT + 1) if 1 <= n <= len(lines)}
            )
            body = []
            for before, number in zip([0, *near], near, strict=False):
                if number != before + 1:
                    body.append('<span class="gap">…</span>')
                marked = ' class="marked"' if number in wanted else ""
                text = _text(clean(lines[number - 1], 2000).replace("\n", " "))
                body.append(
                    f'<span id="{self._excerpt(file)}-L{number}"{marked}><i>{number}</i> {text}</span>'
                )
            parts = Path(file).parts
            name = "/".join(parts[-5:])
            shown.append((self._excerpt(file), name, href(file, self.folder), Markup("\n".join(body))))
        return shown


def _filters(table: Table) -> str:
    """A box a verdict; the style sheet hides the rows of those that are not ticked."""
    verdicts = Counter(row.verdict for row in table.rows)
    if len(verdicts) < 2:
        return ""
    boxes = "".join(
        f'<label><input type="checkbox" checked id="show-{v}"> {v} ({number})</label>'
        for v, number in verdicts.items()
    )
    rules = "".join(
        f"body:has(#show-{v}:not(:checked)) .sortable tr.row-{v}{{display:none}}" for v in verdicts
    )
    return f'<fieldset class="filters"><legend>Show</legend>{boxes}</fieldset><style>{rules}</style>'


def _sort_key(cell: Words) -> str:
    """The number that a change is sorted by; what has none comes last."""
    match = re.match(r"[+−]?[\d.,]+", plain(cell))
    return match[0].replace("−", "-").replace(",", "") if match else "-1e9"


def _class(tone: str) -> str:
    return f' class="{tone}"' if tone else ""


def _text(text: str) -> str:
    """Escaped, without control characters; a number and its per cent sign stay on one line."""
    return re.sub(r"(?<=[\d\]]) %", "\u00a0%", escape(clean(text)))

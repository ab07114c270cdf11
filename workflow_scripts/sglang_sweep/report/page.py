"""Writes index.html: one self-contained page, readable offline, in the dark, on a phone and on paper."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup

from sglang_sweep.report.escape import clean
from sglang_sweep.report.numbers import MISSING
from sglang_sweep.report.palette import CREATOR, ON_PAGE
from sglang_sweep.report.sections import Sections, default_templates
from sglang_sweep.report.view import report_view

# CommonMark without raw HTML: notes are text of a campaign's author, not part of the page's code.
_MARKDOWN = MarkdownIt("commonmark", {"html": False})


def write_page(
    verdicts: Mapping[str, Any],
    out: Path,
    *,
    figures: Mapping[str, Path] | None = None,
    sections: Sections | None = None,
    templates: Path | None = None,
) -> None:
    """Write the page for verdicts.json to `out`; same input, same bytes.

    `figures` maps a caption to an SVG file, which becomes part of the page. Links into `results/` are
    relative; what they point to is quoted in the page too, so that it can be read without them.
    """
    folder = templates or default_templates()
    view = report_view(verdicts, out.parent, sections or Sections(), anchors="v-")
    view["figures"] = [
        (caption, Markup(inline_svg(path.read_text(encoding="utf-8"), f"f{number}-", caption)))
        for number, (caption, path) in enumerate((figures or {}).items(), 1)
    ]
    for number, name in enumerate(("speculation", "communication"), 1):
        if view[name]:
            picture = view[name]["figure"] and Path(view[name]["figure"])
            view[name]["svg"] = picture and Markup(
                inline_svg(picture.read_text(encoding="utf-8"), f"s{number}-", f"Figure: {name}")
            )
    view["notes"] = Markup(_MARKDOWN.render(clean(view["notes"])))
    view["style"] = Markup((folder / "page.css").read_text(encoding="utf-8"))
    page = environment(folder).get_template("index.html.j2").render(view)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(_tight(page), encoding="utf-8")


def environment(templates: Path) -> jinja2.Environment:
    """Return a Jinja environment that escapes every value for HTML and drops control characters from it."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        finalize=_finalize,
        keep_trailing_newline=True,
    )


def inline_svg(svg: str, prefix: str, label: str) -> str:
    """Return an SVG file as part of a page: labelled, without its own paper, its ids made unique by `prefix`.

    A figure of `figures` takes the page's colours and font, so that it follows light and dark; one from
    elsewhere keeps its own, paper included.
    """
    body = svg[svg.index("<svg") :]
    ours = f">{CREATOR}<" in body
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r'(?<=\s)id="', f'id="{prefix}', body)
    body = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{prefix}", body)
    if ours:
        for colour, variable in ON_PAGE.items():
            body = body.replace(colour, variable)
        body = body.replace("'DejaVu Sans', sans-serif", "system-ui, sans-serif")
    safe = str(Markup.escape(label))
    return re.sub(r"<svg ", f'<svg role="img" aria-label="{safe}" ', body, count=1)


def _finalize(value: Any) -> Any:
    """Clean plain text; a number and its per cent sign stay on one line."""
    if value is None:
        return MISSING
    return re.sub(r"(?<=[\d\]]) %", "\u00a0%", clean(value)) if type(value) is str else value


def _tight(page: str) -> str:
    """Collapse blank lines outside <pre>, which the templates' absent parts leave."""
    parts = re.split(r"(<pre.*?</pre>)", page, flags=re.DOTALL)
    return "".join(part if part.startswith("<pre") else re.sub(r"\n\s*\n+", "\n", part) for part in parts)

"""Writes findings.md, the living plan document of a campaign."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from sglang_sweep.report.escape import Markdown, cell_code, code, fenced, href, link, log_line, markdown
from sglang_sweep.report.sections import Sections, default_templates
from sglang_sweep.report.view import report_view


def write_findings(
    verdicts: Mapping[str, Any],
    out: Path,
    *,
    figures: Mapping[str, Path] | None = None,
    sections: Sections | None = None,
    templates: Path | None = None,
) -> None:
    """Write findings.md for verdicts.json to `out`; same input, same bytes.

    `figures` maps a caption to an SVG or PNG file, shown by relative link. Paths in `verdicts` and `figures`
    are relative to the working directory, and become relative to the folder of `out`.
    """
    view = report_view(verdicts, out.parent, sections or Sections())
    view["figures"] = [(caption, href(str(path), out.parent)) for caption, path in (figures or {}).items()]
    template = environment(templates or default_templates()).get_template("findings.md.j2")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(_single_blank_lines(template.render(view)), encoding="utf-8")


def environment(templates: Path) -> jinja2.Environment:
    """Return a Jinja environment that escapes every value for Markdown unless it is marked as such."""
    jinja = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=markdown,
        autoescape=False,
        keep_trailing_newline=True,
    )
    jinja.filters.update(
        code=code, cellcode=cell_code, fenced=fenced, log=log_line, verbatim=Markdown, quote=_quotation
    )
    jinja.globals["link"] = link
    return jinja


def _quotation(text: object) -> Markdown:
    return Markdown("\n".join(f"> {line}".rstrip() for line in str(text).splitlines()))


def _single_blank_lines(text: str) -> str:
    """Collapse the blank lines that absent parts leave; inside fenced blocks every line is kept."""
    kept: list[str] = []
    fence = ""
    for line in text.splitlines():
        if not fence and line.startswith("```"):
            fence = line[: len(line) - len(line.lstrip("`"))]
        elif fence and line == fence:
            fence = ""
        if fence or line.strip() or (kept and kept[-1]):
            kept.append(line.rstrip() if not fence else line)
    return "\n".join(kept).strip("\n") + "\n"

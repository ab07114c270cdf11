"""Makes text from logs harmless in Markdown and HTML, and paths clickable from where a report lies."""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

# CSI, OSC and two-byte escape sequences (ECMA-48); progress bars and coloured logs are full of them.
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff]|[\ud800-\udfff]")
_MARKDOWN = re.compile(r"([\\`*<>|#~$])")
# A bracket alone is only a bracket; these make it a link, a reference, a definition, a footnote or a task.
_BRACKET = re.compile(r"\[(?=\^|[^\]]*\][(\[:]|[ xX]\])")
_EDGE_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# These open a list, quotation, heading or rule when they stand first in a line.
_LINE_START = re.compile(r"^([-+=]+|\d+[.)])(?=\s|$)")

LOG_LIMIT = 2000


class Markdown(str):
    """Text that is Markdown already, so the templates leave it alone."""

    __slots__ = ()


def clean(text: object, limit: int | None = None) -> str:
    """Return text without ANSI sequences, control and direction-changing characters, cut at `limit`."""
    plain = _CONTROL.sub("", _ANSI.sub("", str(text)).replace("\r\n", "\n").replace("\r", "\n"))
    if limit is not None and len(plain) > limit:
        return f"{plain[:limit].rstrip()} … ({len(plain) - limit} more characters)"
    return plain


def log_line(text: object) -> str:
    """Return one log line in one line: cleaned, white space collapsed, cut at 2,000 characters."""
    return clean(" ".join(clean(text).split()), LOG_LIMIT)


def markdown(value: Any) -> Markdown:
    """Return `value` as Markdown that shows exactly its characters, in one line."""
    if value is None:
        return Markdown("–")
    if isinstance(value, Markdown):
        return value
    text = _MARKDOWN.sub(r"\\\1", " ".join(clean(value).split())).replace("&", "&amp;")
    text = _EDGE_UNDERSCORE.sub(r"\\_", _BRACKET.sub(r"\\[", text))
    return Markdown(_LINE_START.sub(lambda start: f"{start[0][:-1]}\\{start[0][-1]}", text))


def code(value: object) -> Markdown:
    """Return a code span; its fence is longer than any run of backticks inside."""
    text = log_line(value)
    if not text:
        return Markdown("")
    fence = "`" * (_longest_backticks(text) + 1)
    pad = " " if text.startswith("`") or text.endswith("`") else ""
    return Markdown(f"{fence}{pad}{text}{pad}{fence}")


def cell_code(value: object) -> Markdown:
    """Return a code span for a table cell, where a pipe ends the cell even inside the span (GFM 4.10)."""
    return Markdown(code(value).replace("|", "\\|"))


def fenced(text: object, language: str = "") -> Markdown:
    """Return a fenced block whose fence no line of the text can close."""
    body = clean(text).strip("\n")
    fence = "`" * max(3, _longest_backticks(body) + 1)
    return Markdown(f"{fence}{language}\n{body}\n{fence}")


def link(label: str, target: str) -> Markdown:
    """Return a Markdown link; the label is escaped, the target is expected percent-encoded."""
    return Markdown(f"[{markdown(label)}]({target})")


def href(file: str, from_folder: Path, line: int | None = None) -> str:
    """Return a percent-encoded link to `file` from a document in `from_folder`.

    Both paths are relative to the working directory, or absolute. A web address is passed through if its
    scheme is http or https; any other scheme becomes a path, so that a log cannot smuggle in `javascript:`.
    """
    if re.match(r"https?://", file):
        return quote(clean(file), safe="/:?#&=%@+,;~!'*$")
    relative = PurePosixPath(os.path.relpath(file, from_folder)).as_posix()
    anchor = f"#L{line}" if line else ""
    return f"./{quote(relative)}{anchor}" if ":" in relative.split("/")[0] else f"{quote(relative)}{anchor}"


def anchor(name: str) -> str:
    """Return the anchor of a heading: what GitHub makes of a variant's name."""
    return re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-")


def _longest_backticks(text: str) -> int:
    return max((len(run) for run in re.findall(r"`+", text)), default=0)

"""Saves figures as SVG whose text is text and whose bytes depend on the data alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from sglang_sweep.report.escape import log_line
from sglang_sweep.report.palette import CREATOR, INK, MUTED, PAPER

_STYLE: dict[Any, Any] = {
    "text.parse_math": False,  # a variant may be called "$x$"
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
}
_WIDTH = 8.6  # inches; a page column


def label(text: object) -> str:
    """Return text short and clean enough not to push the axes out of the figure."""
    plain = log_line(text)
    return plain if len(plain) <= 32 else f"{plain[:31]}…"


def save(draw: Callable[[Figure], None], out_svg: Path, *, height: float, salt: str) -> None:
    """Draw and save: the salt makes the ids inside the file the same in every run."""
    with mpl.rc_context({**_STYLE, "svg.hashsalt": f"sglang-sweep {salt}"}):
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(figure)
        out_svg.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out_svg, format="svg", metadata={"Date": None, "Creator": CREATOR})
    text = out_svg.read_text(encoding="utf-8")
    # The font was used to measure; readers without it get their own sans-serif.
    out_svg.write_text(re.sub(r"'DejaVu Sans'(?!,)", "'DejaVu Sans', sans-serif", text), encoding="utf-8")

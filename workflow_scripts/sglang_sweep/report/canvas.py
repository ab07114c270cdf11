"""The one way figures are drawn: style, colours, the axis of changes, and SVG whose bytes depend on the data alone."""

from __future__ import annotations

import io
import itertools
import math
import re
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture

from sglang_sweep.report.document import Figure
from sglang_sweep.report.escape import log_line
from sglang_sweep.report.numbers import signed_percent
from sglang_sweep.report.words import lower_is_better

# Okabe and Ito (2008), the orange darkened and the greys chosen so that each has a contrast of at least 3:1
# on white and on the dark page alike: the same picture serves both.
INK, MUTED, PAPER = "#1f2328", "#75808a", "#ffffff"
COLOURS = {
    "win": "#0072b2",
    "loss": "#d55e00",
    "same": "#009e73",
    "open": "#7f7f7f",
    "doubt": "#b5679a",
    "old": "#a87900",
}
ARM_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b5679a", "#a87900", "#4a97c9", "#8a6d5b", "#5f7d4f")
ARM_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
WIDE, NARROW = 8.6, 4.4
"""Inches: a page's column, and a phone's."""

_ON_PAGE = {INK: "currentColor", MUTED: "var(--muted)", PAPER: "var(--paper)"} | {
    colour: f"var(--{name})" for name, colour in COLOURS.items()
}
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
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}


def arm_style(index: int) -> tuple[str, str]:
    """Return colour and marker of the arm with this number: pairs repeat only after 88 arms."""
    return ARM_COLOURS[index % len(ARM_COLOURS)], ARM_MARKERS[index % len(ARM_MARKERS)]


def label(text: object, limit: int = 32) -> str:
    """Return text short and clean enough not to push the axes out of the figure."""
    plain = log_line(text)
    return plain if len(plain) <= limit else f"{plain[: limit - 1]}…"


def legend(axes: Axes, picture: Picture, **more: Any) -> None:
    """Beside the axes where there is room, above the drawing on a phone."""
    handles, names = more.pop("handles", None), None
    if handles is None:
        handles, names = axes.get_legend_handles_labels()
    names = names or [handle.get_label() for handle in handles]
    if not handles:
        return
    if picture.get_figwidth() >= WIDE:
        axes.legend(handles, names, loc="upper left", bbox_to_anchor=(1.01, 1), handlelength=1.6)
    else:
        picture.legend(handles, names, loc="outside upper left", ncols=2, handlelength=1.4)


def drawn(
    draw: Callable[[Picture], None],
    out_svg: Path,
    caption: str,
    height: float,
    narrow: float = 0,
    *,
    on_page: bool = True,
) -> Figure:
    """Draw wide and narrow, save the wide one; ``height`` and ``narrow`` are inches.

    What the page shows otherwise (``on_page=False``) is a file only.
    """
    wide = svg_of(draw, WIDE, height, out_svg.stem)
    out_svg.parent.mkdir(parents=True, exist_ok=True)
    out_svg.write_text(wide, encoding="utf-8")
    if not on_page:
        return Figure(caption, out_svg, "", "")
    slim = svg_of(draw, NARROW, narrow or height, out_svg.stem)
    return Figure(
        caption,
        out_svg,
        _on_page(wide, f"{out_svg.stem}-w-", caption),
        _on_page(slim, f"{out_svg.stem}-n-", caption),
    )


def svg_of(draw: Callable[[Picture], None], width: float, height: float, salt: str) -> str:
    """Return a figure as SVG: text stays text, no date, and the ids inside are the same in every run."""
    with mpl.rc_context({**_STYLE, "svg.hashsalt": f"sglang-sweep {salt}"}):
        picture = Picture(figsize=(width, height), layout="constrained")
        draw(picture)
        text = io.StringIO()
        picture.savefig(text, format="svg", metadata={"Date": None, "Creator": "sglang-sweep"})
    # The font was used to measure; readers without it get their own sans-serif.
    return re.sub(r"'DejaVu Sans'(?!,)", "'DejaVu Sans', sans-serif", text.getvalue())


def _on_page(svg: str, prefix: str, caption: str) -> str:
    """Return the SVG as part of a page: labelled, in the page's colours and font, its ids made unique by ``prefix``."""
    body = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    body = re.sub(r'(?<=\s)id="', f'id="{prefix}', body)
    body = re.sub(r'(xlink:href="#|url\(#)', rf"\g<1>{prefix}", body)
    for colour, variable in _ON_PAGE.items():
        body = body.replace(colour, variable)
    body = body.replace("'DejaVu Sans', sans-serif", "system-ui, sans-serif")
    body = re.sub(r'(?<=\d)(\.\d\d)\d+(?=[ "\n])', r"\1", body)  # a hundredth of a point is enough
    return re.sub(r"<svg ", f'<svg role="img" aria-label="{escape(caption)}" ', body, count=1)


class ChangeAxis:
    """The axis that intervals of ratios are drawn on: logarithmic, better to the right, the same for all rows.

    Only what is believed sets its ends, and never beyond half and double: what lies further is an arrow at the edge
    (its number stands beside it), else one disaster would leave a pixel for everything else.
    """

    def __init__(self, ends: Sequence[float], smallest_effect: float, metric: str) -> None:
        self.edge, self.metric = 1 + smallest_effect, metric
        room, near = 1 + 1.5 * smallest_effect, [end for end in ends if 0.5 <= end <= 2]
        self.low, self.high = min([1 / room, *near]) / 1.02, max([room, *near]) * 1.02

    def at(self, ratio: float) -> float:
        """Where a ratio lies, 0 to 1."""
        inside = min(max(ratio, self.low), self.high)
        return math.log(inside / self.low) / math.log(self.high / self.low)

    def inside(self, ratio: float) -> bool:
        return self.low <= ratio <= self.high

    def ticks(self, most: int = 5) -> list[tuple[float, str]]:
        """Round changes of the metric itself and their labels, none touching another, zero always."""
        own = (lambda r: 1 / r) if lower_is_better(self.metric) else (lambda r: r)
        ends = sorted((own(self.low), own(self.high)))
        for step in (1, 2, 5, 10, 20, 50, 100):
            first, last = (math.ceil((ends[0] - 1) * 100 / step), math.floor((ends[1] - 1) * 100 / step))
            ticks = [own(1 + n * step / 100) for n in range(first, last + 1) if n * step > -100]
            places = sorted(self.at(tick) for tick in ticks)
            apart = min((b - a for a, b in itertools.pairwise(places)), default=1)
            if len(ticks) <= most and apart > 0.14:
                break
        else:
            ticks = [1.0]
        return [
            (t, "0" if abs(t - 1) < 1e-9 else f"{round((own(t) - 1) * 100):+d} %".replace("-", "−"))
            for t in ticks
        ]

    def strip(self, ratio: float | None, ci95: Any, colour: str, believed: bool, title: str) -> str:
        """One row's interval as a small SVG, its colours the page's."""
        if ratio is None:
            return ""
        ends = [end for end in ci95 or () if end is not None] or [ratio]
        x1, x, x2 = (200 * self.at(v) for v in (min(ends), ratio, max(ends)))
        line = (
            f'<line x1="{x1:.1f}" x2="{x2:.1f}" y1="11" y2="11" stroke-width="{2.5 if believed else 1.2}"/>'
        )
        if self.inside(ratio):
            mark = f'<circle cx="{x:.1f}" cy="11" r="4" class="{"full" if believed else "hollow"}"/>'
        else:
            tip, back = (0.5, 9) if ratio < 1 else (199.5, 191)
            mark = f'<path d="M{tip} 11L{back} 6V16Z"/>'
        return self._svg(22, f'<g style="stroke:{colour};fill:{colour}">{line}{mark}</g>', title)

    def head(self) -> str:
        """The axis itself, for the head of the column: ticks, and what the band means."""
        marks = "".join(
            f'<text x="{min(max(200 * self.at(t), 12), 188):.1f}" y="27">{text}</text>'
            for t, text in self.ticks()
        )
        x, side = 200 * self.at(1), "start" if self.at(1) < 0.3 else "end" if self.at(1) > 0.7 else "middle"
        words = f"grey: ±{(self.edge - 1) * 100:g} %, equal"
        band = f'<text x="{x:.1f}" y="11" style="text-anchor:{side}">{words}</text>'
        return self._svg(32, marks + band, "Axis: change against the baseline, better to the right")

    def _svg(self, height: int, inside: str, title: str) -> str:
        a, b, zero = (200 * self.at(v) for v in (1 / self.edge, self.edge, 1))
        band = (
            f'<rect x="{a:.1f}" y="0" width="{b - a:.1f}" height="{height}" class="equal"/>'
            if height < 30
            else ""
        )
        line = (
            f'<line x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{height}" class="zero"/>'
            if height < 30
            else ""
        )
        named = f'class="strip" role="img" viewBox="0 0 200 {height}" aria-label="{escape(title)}"'
        return f"<svg {named}>{band}{line}{inside}</svg>"

    def on(self, axes: Axes) -> None:
        """Give a matplotlib axis this scale, with the band labelled."""
        axes.set_xscale("log")
        axes.set_xlim(self.low, self.high)
        axes.axvspan(1 / self.edge, self.edge, color=MUTED, alpha=0.16, linewidth=0)
        axes.axvline(1, color=MUTED, linewidth=1)
        ticks = self.ticks(9)
        axes.set_xticks([t for t, _ in ticks], [text for _, text in ticks])
        axes.set_xticks([], minor=True)
        axes.text(
            1,
            1.01,
            f"{signed_percent(self.edge - 1).replace('+', '±')} counts as equal",
            transform=axes.get_xaxis_transform(),
            ha="center",
            va="bottom",
            fontsize=8,
            color=MUTED,
        )

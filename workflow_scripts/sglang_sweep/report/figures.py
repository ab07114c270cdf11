"""Draws what the verdicts rest on: ratios with intervals, launches over time, windows within launches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sglang_sweep.report.canvas import label, save
from sglang_sweep.report.numbers import change_interval, signed_percent
from sglang_sweep.report.palette import INK, MUTED, PAPER, VERDICT, arm_style
from sglang_sweep.report.ratio_axis import change_axis, margin_band
from sglang_sweep.report.series import Point, launch_points, sessions, window_points
from sglang_sweep.report.words import (
    BELIEVED,
    Variant,
    is_noise_arm,
    label_of,
    primary_of,
    reading_order,
    unit_of,
)


def draw_figures(
    verdicts: Mapping[str, Any],
    launches: Sequence[Mapping[str, Any]],
    ratios: Path,
    blocks: Path,
    windows: Path,
) -> None:
    """Draw the three figures of a campaign."""
    figure_ratios(verdicts, ratios)
    figure_blocks(launches, blocks, verdicts=verdicts)
    figure_windows(launches, windows, verdicts=verdicts)


def figure_ratios(verdicts: Mapping[str, Any], out_svg: Path) -> None:
    """Draw each launched variant's change with its 95 % interval, and the rows without one, in reading order.

    The band is the smallest effect of interest. A filled marker is a verdict that is believed, a hollow one a
    number that is shown but not believed. The axis is logarithmic in the ratio, so that halving and doubling
    lie equally far from the baseline.
    """
    variants = reading_order([v for v in verdicts["variants"] if v["verdict"] != "PLANNED"])
    design = verdicts.get("design") or {}

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        margin_band(axes, design.get("smallest_effect"))
        for row, variant in enumerate(variants):
            _ratio_row(axes, row, variant)
        axes.set_yticks(range(len(variants)), [_row_name(v) for v in variants])
        axes.set_ylim(len(variants) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        change_axis(axes, variants)
        metric = primary_of(verdicts)[1]
        subject = f" of {label_of(metric)}" if metric else ""
        axes.set_xlabel(f"change{subject} against the baseline, positive is better; hollow: not believed")

    save(draw, out_svg, height=1.0 + 0.34 * max(1, len(variants)), salt="ratios")


def figure_blocks(
    launches: Sequence[Mapping[str, Any]], out_svg: Path, *, verdicts: Mapping[str, Any] | None = None
) -> None:
    """Draw the primary metric of every launch over time: above an arm a line, below the baseline's two arms.

    What A and A' do together is drift, what they do apart is noise. Blocks are bands; hollow points are
    launches that a rule removed. Time in which nothing ran is cut out, and no line crosses it.
    """
    points = launch_points(launches, verdicts)
    metric = points[0].metric if points else ""
    arms = _arms(points)
    twins = [name for name in arms if _is_baseline(name, points)]

    def draw(figure: Figure) -> None:
        parts = sessions(points) or [[]]
        spans = [part[-1].hours - part[0].hours if part else 0.0 for part in parts]
        widths = [max(span, sum(spans) / 8, 1e-3) for span in spans]
        grid = figure.subplots(
            2,
            len(parts),
            sharex="col",
            sharey="row",
            squeeze=False,
            height_ratios=(2, 1),
            width_ratios=widths,
        )
        for column, part in enumerate(parts):
            for axes, shown in zip(grid[:, column], (list(arms), twins), strict=True):
                _block_bands(axes, part)
                for name in shown:
                    _arm_line(axes, [p for p in part if p.arm == name], name, arms[name])
                if not shown:
                    _empty(axes)
                if column:
                    axes.spines["left"].set_visible(False)
                    axes.tick_params(left=False)
            _number_blocks(grid[0][column], part)
            grid[1][column].xaxis.set_major_locator(
                MaxNLocator(max(2, round(6 / len(parts))), steps=[1, 2, 5, 10])
            )
        grid[0][0].set_ylabel(f"{label_of(metric)}{f' ({unit_of(metric)})' if unit_of(metric) else ''}")
        grid[1][0].set_ylabel("A and A'")
        figure.supxlabel("hours since the first launch", fontsize=9.5, color=INK)
        if arms:
            grid[0][-1].legend(
                loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=8.5, handlelength=1.6
            )

    save(draw, out_svg, height=4.6, salt="blocks")


def figure_windows(
    launches: Sequence[Mapping[str, Any]], out_svg: Path, *, verdicts: Mapping[str, Any] | None = None
) -> None:
    """Draw each launch's windows against its mean, an arm a panel: warm-up and spread inside launches."""
    points = window_points(launches, verdicts)
    arms = list(_arms(points))
    columns = min(5, max(1, len(arms)))
    rows = max(1, math.ceil(len(arms) / columns))

    def draw(figure: Figure) -> None:
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for index, axes in enumerate(grid.flat):
            if index < len(arms):
                _window_panel(axes, [p for p in points if p.arm == arms[index]], arms[index])
            else:
                axes.set_visible(False)
        if not arms:
            grid[0][0].set_visible(True)
            _empty(grid[0][0])
        figure.supxlabel("window of a launch", fontsize=9.5, color=INK)
        figure.supylabel("change against the launch's mean (%)", fontsize=9.5, color=INK)

    save(draw, out_svg, height=0.8 + 1.5 * rows, salt="windows")


def _ratio_row(axes: Axes, row: int, variant: Variant) -> None:
    verdict = str(variant["verdict"])
    colour, marker = VERDICT.get(verdict, VERDICT["INCONCLUSIVE"])
    value, ci95 = variant.get("ratio"), variant.get("ci95")
    believed = verdict in BELIEVED
    axes.axhline(row, color=MUTED, linewidth=0.5, alpha=0.35, zorder=0)
    if value:
        if ci95 and None not in ci95:
            axes.plot(
                ci95, [row, row], color=colour, linewidth=2.2 if believed else 1.2, solid_capstyle="round"
            )
        axes.plot(
            value,
            row,
            marker=marker,
            markersize=7.5,
            color=colour,
            markerfacecolor=colour if believed else PAPER,
            markeredgecolor=colour,
            linestyle="none",
        )
    change = f"{signed_percent(value - 1)} {change_interval(ci95)}" if value else _why_no_point(variant)
    _beside(axes, row, verdict, points=10, color=colour, fontweight="bold")
    _beside(axes, row, change, points=116, color=INK)


def _beside(axes: Axes, row: int, text: str, *, points: float, **style: Any) -> None:
    """Write a column to the right of the axes: at a distance in points, so that the layout can make room."""
    axes.annotate(
        text,
        (1, row),
        xycoords=axes.get_yaxis_transform(),
        xytext=(points, 0),
        textcoords="offset points",
        va="center",
        fontsize=9,
        annotation_clip=False,
        **style,
    )


def _row_name(variant: Variant) -> str:
    return f"{label(variant['name'])} (A')" if is_noise_arm(variant) else label(variant["name"])


def _why_no_point(variant: Variant) -> str:
    return label(variant.get("cause") or "no number")


def _arms(points: Sequence[Point]) -> dict[str, tuple[str, str]]:
    """Return arms with colour and marker: the baseline's two in ink, the others by name."""
    names = sorted({p.arm for p in points}, key=lambda name: (not _is_baseline(name, points), name))
    others = [name for name in names if not _is_baseline(name, points)]
    styles = {}
    for name in names:
        if name in others:
            styles[name] = arm_style(others.index(name))
        else:
            styles[name] = (INK, "o") if not name.endswith("-prime") else (INK, "s")
    return styles


def _is_baseline(name: str, points: Sequence[Point]) -> bool:
    primes = {p.arm for p in points if p.arm.endswith("-prime")}
    return name in primes or f"{name}-prime" in primes


def _arm_line(axes: Axes, points: list[Point], name: str, style: tuple[str, str]) -> None:
    colour, marker = style
    baseline = colour == INK
    kept = [p for p in points if not p.removed]
    axes.plot(
        [p.hours for p in kept],
        [p.value for p in kept],
        color=colour,
        marker=marker,
        markersize=4.5,
        linewidth=1.8 if baseline else 0.8,
        linestyle="--" if name.endswith("-prime") else "-",
        alpha=1 if baseline else 0.85,
        zorder=3 if baseline else 2,
        label=label(name),
    )
    gone = [p for p in points if p.removed]
    axes.plot(
        [p.hours for p in gone],
        [p.value for p in gone],
        color=colour,
        marker=marker,
        markersize=6,
        markerfacecolor=PAPER,
        linestyle="none",
        zorder=4,
    )


def _block_bands(axes: Axes, points: Sequence[Point]) -> None:
    for block, (first, last) in _blocks(points).items():
        if block % 2:
            axes.axvspan(first, last, color=MUTED, alpha=0.1, linewidth=0)


def _number_blocks(axes: Axes, points: Sequence[Point]) -> None:
    for block, (first, last) in _blocks(points).items():
        axes.text(
            (first + last) / 2,
            1.01,
            f"block {block}" if block == 1 else str(block),
            transform=axes.get_xaxis_transform(),
            ha="center",
            va="bottom",
            fontsize=8,
            color=MUTED,
        )


def _blocks(points: Sequence[Point]) -> dict[int, tuple[float, float]]:
    """Return the hours of the first and last launch of each block."""
    hours: dict[int, list[float]] = {}
    for point in points:
        hours.setdefault(point.block, []).append(point.hours)
    return {block: (min(times), max(times)) for block, times in sorted(hours.items())}


def _window_panel(axes: Axes, points: list[Point], name: str) -> None:
    axes.axhline(0, color=MUTED, linewidth=0.8)
    for block in sorted({p.block for p in points}):
        line = [p for p in points if p.block == block]
        axes.plot(
            [p.window for p in line],
            [p.value for p in line],
            color=arm_style(0)[0],
            marker="o",
            markersize=3,
            linewidth=0.8,
            alpha=0.7,
        )
        removed = [p for p in line if p.removed]
        axes.plot(
            [p.window for p in removed],
            [p.value for p in removed],
            color=arm_style(1)[0],
            marker="x",
            linestyle="none",
        )
    axes.set_title(label(name), fontsize=9, loc="left")
    axes.set_xticks(sorted({p.window for p in points}))


def _empty(axes: Axes) -> None:
    axes.text(0.5, 0.5, "no completed launch", transform=axes.transAxes, ha="center", color=MUTED)

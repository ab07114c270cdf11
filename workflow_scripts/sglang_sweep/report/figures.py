"""Every figure of a report: changes with intervals, launches over time, windows, profiles, speculation, collectives."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Picture
from matplotlib.ticker import FuncFormatter, MaxNLocator

from sglang_sweep.costs.communication import KIB, MIB, Curve
from sglang_sweep.report.answer import Campaign
from sglang_sweep.report.canvas import (
    COLOURS,
    INK,
    MUTED,
    PAPER,
    WIDE,
    ChangeAxis,
    arm_style,
    drawn,
    label,
    legend,
)
from sglang_sweep.report.document import Figure
from sglang_sweep.report.record import Breakdown, Economics, Launch, Variant, Verdicts
from sglang_sweep.report.words import kind_of, label_of, primary_change, unit_of

CLASSES = (
    "all_reduce",
    "other_collective",
    "attention",
    "gemm",
    "norm_activation",
    "sampling",
    "copy",
    "other",
)
"""Of kernels, drawn from the left in this order; collectives first, since they are what a sweep mostly changes."""


def change_axis(campaign: Campaign) -> ChangeAxis:
    """The axis of a campaign's changes; a number that is not believed does not set its ends."""
    believed = [v for v in campaign.candidates if kind_of(v.verdict).believed and v.ratio]
    ends = [end for v in believed for end in (v.ratio, *(v.ci95 or ())) if end]
    return ChangeAxis(ends, campaign.smallest, campaign.metric)


def figure_ratios(campaign: Campaign, out_svg: Path) -> Figure:
    """Each launched variant's change with its 95 % interval; hollow is shown but not believed.

    For Markdown and Snakemake's report: the page draws an interval in each row of its table.
    """
    variants = [v for v in (*campaign.candidates, *campaign.controls) if v.launches or v.ratio]
    axis = change_axis(campaign)

    def draw(picture: Picture) -> None:
        axes = picture.subplots()
        axis.on(axes)
        for row, variant in enumerate(variants):
            _ratio_row(axes, axis, row, variant, campaign.metric)
        axes.set_yticks(range(len(variants)), [label(v.name, 26) for v in variants])
        axes.set_ylim(len(variants) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_xlabel(f"change of {label_of(campaign.metric)} against the baseline; right is better")

    caption = "Change of each variant against the baseline, with 95 % intervals"
    return drawn(draw, out_svg, caption, 1.1 + 0.32 * max(1, len(variants)), on_page=False)


def _ratio_row(axes: Axes, axis: ChangeAxis, row: int, variant: Variant, metric: str) -> None:
    kind = kind_of(variant.verdict)
    colour = COLOURS[kind.colour]
    axes.axhline(row, color=MUTED, linewidth=0.5, alpha=0.35, zorder=0)
    if variant.ratio:
        ends = [min(max(end, axis.low), axis.high) for end in variant.ci95 or () if end]
        if len(ends) == 2:
            axes.plot(ends, [row, row], color=colour, linewidth=2.2 if kind.believed else 1.2)
        inside = axis.inside(variant.ratio)
        axes.plot(
            min(max(variant.ratio, axis.low), axis.high),
            row,
            marker=kind.marker if inside else "<" if variant.ratio < 1 else ">",
            markersize=7.5,
            color=colour,
            markerfacecolor=colour if kind.believed else PAPER,
            linestyle="none",
            clip_on=False,
        )
    change = primary_change(variant, metric).words(way=False)
    text = "".join(span.text for span in change) if variant.ratio else label(variant.cause or "no number")
    styles: tuple[tuple[str, int, dict[str, Any]], ...] = (
        (variant.verdict, 10, {"color": colour, "fontweight": "bold"}),
        (text, 122, {"color": INK}),
    )
    for words, points, style in styles:
        axes.annotate(
            words,
            (1, row),
            xycoords=axes.get_yaxis_transform(),
            xytext=(points, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            annotation_clip=False,
            **style,
        )


# --- launches and windows -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """One launch, or one window of it: ``hours`` since the first launch, ``value`` of the primary metric."""

    arm: str
    block: int
    window: int
    hours: float
    value: float
    removed: bool


def launch_points(verdicts: Verdicts, launches: Sequence[Launch]) -> list[Point]:
    """One point a launch with a number, in order of time: the mean over the windows that count.

    Where rules removed the launch or all its windows it is the mean over all, so that what was removed is seen.
    """
    begun = min((r.started_at.timestamp() for r in launches if r.started_at), default=0.0)
    points = []
    for record, windows in _measured(verdicts, launches):
        counting = [value for value, removed in windows.values() if not removed]
        values = counting or [value for value, _ in windows.values()]
        if record.started_at is not None:
            hours = (record.started_at.timestamp() - begun) / 3600
            value = sum(values) / len(values)
            points.append(Point(record.variant, record.block, 0, hours, value, not counting))
    return sorted(points, key=lambda p: (p.hours, p.arm))


def window_points(verdicts: Verdicts, launches: Sequence[Launch]) -> list[Point]:
    """One point a window: its change in percent against the mean of its launch."""
    points = []
    for record, windows in _measured(verdicts, launches):
        mean = sum(value for value, _ in windows.values()) / len(windows)
        points += [
            Point(
                record.variant, record.block, number, 0.0, (value / mean - 1) * 100 if mean else 0.0, removed
            )
            for number, (value, removed) in windows.items()
        ]
    return sorted(points, key=lambda p: (p.arm, p.block, p.window))


def _measured(
    verdicts: Verdicts, launches: Sequence[Launch]
) -> Iterator[tuple[Launch, dict[int, tuple[float, bool]]]]:
    """Each launch with numbers, and its windows at the primary load as number -> (value, removed)."""
    primary = verdicts.design.primary
    removed = {(row.arm, row.block, row.window) for row in verdicts.session.removed}
    removed |= {(v.name, row.block, None) for v in verdicts.variants for row in v.launches if row.removed}
    for record in launches:
        whole = (record.variant, record.block, None) in removed
        shown = {
            w.window: (
                float(w.metrics[primary.metric]),
                whole or not w.valid or (record.variant, record.block, index) in removed,
            )
            for index, w in enumerate(record.windows)
            if w.workload == primary.workload
            and primary.metric in w.metrics
            and w.metrics[primary.metric] is not None
        }
        if shown:
            yield record, shown


def sessions(points: Sequence[Point]) -> list[list[Point]]:
    """Points in order of time, parted where nothing ran: half an hour, and ten times the usual step."""
    ordered = sorted(points, key=lambda p: p.hours)
    steps = [later.hours - earlier.hours for earlier, later in pairwise(ordered)]
    pause = max(0.5, 10 * median(steps)) if steps else 0.0
    parts = [ordered[:1]] if ordered else []
    for point, step in zip(ordered[1:], steps, strict=True):
        if step > pause:
            parts.append([])
        parts[-1].append(point)
    return parts


def figure_blocks(campaign: Campaign, out_svg: Path) -> Figure:
    """The primary metric of every launch over time, and below it the baseline's two arms alone.

    Blocks are bands; hollow points are launches that a rule removed. Time in which nothing ran is cut out.
    """
    points, metric = launch_points(campaign.verdicts, campaign.launches), campaign.metric
    base = campaign.verdicts.baseline.name
    names = {p.arm for p in points}
    twins = [name for name in sorted(names) if name == base or name.startswith(f"{base}-prime")]
    others = sorted({p.arm for p in points} - set(twins))
    styles = {name: (INK, "osD^v<>p"[n]) for n, name in enumerate(twins)}
    styles |= {name: arm_style(n) for n, name in enumerate(others)}

    def draw(picture: Picture) -> None:
        parts = sessions(points) or [[]]
        spans = [part[-1].hours - part[0].hours if part else 0.0 for part in parts]
        widths = [max(span, sum(spans) / 8, 1e-3) for span in spans]
        grid = picture.subplots(
            2,
            len(parts),
            sharex="col",
            sharey="row",
            squeeze=False,
            height_ratios=(2, 1),
            width_ratios=widths,
        )
        for column, part in enumerate(parts):
            for axes, shown in zip(grid[:, column], (list(styles), twins), strict=True):
                for block, (first, last) in _blocks(part).items():
                    if block % 2:
                        axes.axvspan(first, last, color=MUTED, alpha=0.1, linewidth=0)
                for name in shown:
                    _arm_line(axes, [p for p in part if p.arm == name], name, styles[name])
                if not shown:
                    axes.text(
                        0.5, 0.5, "no completed launch", transform=axes.transAxes, ha="center", color=MUTED
                    )
                if column:
                    axes.spines["left"].set_visible(False)
                    axes.tick_params(left=False)
            for block, (first, last) in _blocks(part).items():
                grid[0][column].text(
                    (first + last) / 2,
                    1.01,
                    str(block),
                    transform=grid[0][column].get_xaxis_transform(),
                    ha="center",
                    va="bottom",
                    fontsize=8,
                    color=MUTED,
                )
            grid[1][column].xaxis.set_major_locator(MaxNLocator(max(2, 6 // len(parts)), steps=[1, 2, 5, 10]))
        grid[0][0].set_ylabel(f"{label_of(metric)}{f' ({unit_of(metric)})' if unit_of(metric) else ''}")
        grid[1][0].set_ylabel("A and A'")
        picture.supxlabel("hours since the first launch; numbers above are blocks", fontsize=9.5, color=INK)
        if styles:
            legend(grid[0][-1], picture)

    caption = "Every launch over time; below, the baseline's two arms: together they drift, apart is noise"
    return drawn(draw, out_svg, caption, 4.6, 5.4)


def _blocks(points: Sequence[Point]) -> dict[int, tuple[float, float]]:
    """The hours of the first and last launch of each block."""
    hours: dict[int, list[float]] = {}
    for point in points:
        hours.setdefault(point.block, []).append(point.hours)
    return {block: (min(times), max(times)) for block, times in sorted(hours.items())}


def _arm_line(axes: Axes, points: list[Point], name: str, style: tuple[str, str]) -> None:
    colour, marker = style
    baseline = colour == INK
    kept, gone = ([p for p in points if p.removed is removed] for removed in (False, True))
    axes.plot(
        [p.hours for p in kept],
        [p.value for p in kept],
        color=colour,
        marker=marker,
        markersize=4.5,
        linewidth=1.8 if baseline else 0.8,
        linestyle="--" if "-prime" in name else "-",
        alpha=1 if baseline else 0.85,
        zorder=3 if baseline else 2,
        label=label(name, 22),
    )
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


def figure_windows(campaign: Campaign, out_svg: Path) -> Figure:
    """Each launch's windows against its mean, an arm a panel: warm-up and spread inside launches."""
    points = window_points(campaign.verdicts, campaign.launches)
    arms = sorted({p.arm for p in points})

    def draw(picture: Picture) -> None:
        columns = min(5 if picture.get_figwidth() >= WIDE else 2, max(1, len(arms)))
        rows = max(1, math.ceil(len(arms) / columns))
        grid = picture.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for index, axes in enumerate(grid.flat):
            if index >= len(arms):
                axes.set_visible(False)
                continue
            mine = [p for p in points if p.arm == arms[index]]
            axes.axhline(0, color=MUTED, linewidth=0.8)
            for block in sorted({p.block for p in mine}):
                line = [p for p in mine if p.block == block]
                xs, ys = [p.window + 1 for p in line], [p.value for p in line]
                axes.plot(xs, ys, color=COLOURS["win"], marker="o", markersize=3, linewidth=0.8, alpha=0.7)
                gone = [p for p in line if p.removed]
                axes.plot(
                    [p.window + 1 for p in gone],
                    [p.value for p in gone],
                    color=COLOURS["loss"],
                    marker="x",
                    ls="none",
                )
            axes.set_title(label(arms[index], 20), fontsize=8.5, loc="left")
            axes.set_xticks(sorted({p.window + 1 for p in mine}))
        picture.supxlabel("window of a launch (a cross: removed by a rule)", fontsize=9.5, color=INK)
        picture.supylabel("change against the launch's mean (%)", fontsize=9.5, color=INK)

    caption = "Windows within each launch: a slope is warm-up, a spread is noise within a launch"
    wide, slim = (0.9 + 1.4 * max(1, math.ceil(len(arms) / n)) for n in (5, 2))
    return drawn(draw, out_svg, caption, wide, slim)


# --- what a step costs --------------------------------------------------------------------------------------


def figure_profiles(profiles: dict[str, Breakdown], out_svg: Path) -> Figure:
    """The GPU's busy time in each phase of a decode cycle, by kernel class, at the minimum over ranks.

    Gaps are left out: a profiler makes them, by more in the faster variant.
    """
    bars = [(name, step) for name, breakdown in profiles.items() for step in breakdown.cycle_steps]
    shown = [c for c in CLASSES if any(c in step.classes for _, step in bars)]

    def draw(picture: Picture) -> None:
        axes = picture.subplots()
        for row, (_, step) in enumerate(bars):
            left = 0.0
            for name in shown:
                time = step.classes[name].ms_per_step if name in step.classes else 0.0
                colour = arm_style(CLASSES.index(name))[0]
                words = name.replace("_", " ") if not row else None
                axes.barh(row, time, left=left, height=0.62, color=colour, linewidth=0, label=words)
                left += time
        axes.set_yticks(range(len(bars)), [f"{label(n, 20)}\n{s.label}" for n, s in bars], fontsize=8.5)
        axes.invert_yaxis()
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("ms of kernels per step")
        legend(axes, picture)

    caption = (
        "Where a step's GPU time goes: kernels only, since the profiler itself makes the gaps between them"
    )
    return drawn(draw, out_svg, caption, 0.9 + 0.46 * max(3, len(bars)), 1.7 + 0.46 * max(3, len(bars)))


def figure_speculation(economics: Economics, out_svg: Path) -> Figure:
    """Throughput against accept length, with the baseline, the break-even and the measured drafts."""
    full, even, base = economics.n_steps + 1, economics.break_even, economics.baseline_throughput
    accepts = np.linspace(1, full, 200)
    cycle = economics.cycle.fixed_ms + economics.cycle.per_token_ms * accepts
    rates = 1e3 * economics.concurrency * accepts / cycle
    note: dict[str, Any] = {"textcoords": "offset points", "fontsize": 9}

    def draw(picture: Picture) -> None:
        axes = picture.subplots()
        axes.plot(accepts, rates, color=COLOURS["win"], lw=2, zorder=2)
        ceiling = f"all accepted: {economics.ceiling.speedup or 0:.2f} x baseline"
        axes.annotate(
            ceiling, (full, rates[-1]), xytext=(-8, 2), ha="right", va="bottom", color=COLOURS["win"], **note
        )
        axes.axhline(base, color=MUTED, lw=1.5, ls="--", zorder=1)
        axes.annotate(
            f"baseline {base:.0f} tok/s", (full, base), xytext=(-2, 4), ha="right", color=MUTED, **note
        )
        if even.accept_length and even.accept_length <= full:
            if even.ci95:
                axes.axvspan(*even.ci95, color=COLOURS["same"], alpha=0.15, lw=0, zorder=0)
            axes.axvline(even.accept_length, color=COLOURS["same"], lw=1.2, zorder=1)
            where = (even.accept_length, 0.03)
            text = f"break-even {even.accept_length:.2f}"
            axes.annotate(
                text, where, xycoords=("data", "axes fraction"), xytext=(5, 0), color=COLOURS["same"], **note
            )
        for simulated, fill, name in (
            (True, PAPER, "simulated acceptance"),
            (False, COLOURS["loss"], "measured draft"),
        ):
            points = [p for p in economics.points if p.simulated is simulated]
            xs, ys = [p.accept_length for p in points], [p.throughput for p in points]
            if points:
                axes.plot(xs, ys, "o", ms=8, mfc=fill, mec=COLOURS["loss"], mew=1.8, zorder=3, label=name)
        if economics.points:
            axes.legend(loc="lower right")
        axes.set(
            xlabel="accept length (tokens per verify, the bonus token included)",
            ylabel=f"tok/s at {economics.concurrency} at once",
            xlim=(0.9, full + 0.1),
            ylim=(0, 1.18 * max(rates[-1], base, *(point.throughput for point in economics.points))),
        )

    return drawn(draw, out_svg, "Throughput against accept length: where speculation starts to pay", 3.6)


def figure_latency(curves: Sequence[Curve], out_svg: Path) -> Figure:
    """All-reduce latency against message size, both logarithmic, a colour a setting."""
    settings = list(dict.fromkeys(curve.setting for curve in curves))

    def draw(picture: Picture) -> None:
        axes = picture.subplots()
        for curve in curves:
            colour, style = (
                arm_style(settings.index(curve.setting))[0],
                "-" if curve.mode == "graph" else "--",
            )
            name = f"{curve.setting}, {'in a CUDA graph' if curve.mode == 'graph' else 'eager'}"
            axes.plot(curve.sizes, curve.latency, style, color=colour, marker="o", ms=4, label=name)
            axes.fill_between(curve.sizes, curve.low, curve.high, color=colour, alpha=0.12, lw=0)
        axes.set(xscale="log", yscale="log", xlabel="message", ylabel="latency, µs (minimum over ranks)")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda value, _: f"{value / MIB:g} MiB" if value >= MIB else f"{value / KIB:g} KiB")
        )
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        legend(axes, picture)

    return drawn(draw, out_svg, "All-reduce latency by message size, measured alone", 3.8, 4.6)

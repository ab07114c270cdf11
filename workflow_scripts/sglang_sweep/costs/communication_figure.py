"""All-reduce latency against message size, both logarithmic, one colour per setting."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.ticker import FuncFormatter

from sglang_sweep.costs.communication import KIB, MIB, Curve


def figure_latency(
    curves: Sequence[Curve], path: str | Path, marks: dict[str, int] | None = None
) -> list[Path]:
    """Draws the curves to ``path`` with .svg and .png; ``marks`` are named message sizes (decode, verify) in bytes."""
    base = Path(path).with_suffix("")
    base.parent.mkdir(parents=True, exist_ok=True)
    settings = list(dict.fromkeys(curve.setting for curve in curves))
    colours = dict(zip(settings, sns.color_palette("colorblind", len(settings)), strict=True))
    with sns.axes_style("whitegrid", {"grid.color": ".92"}), plt.rc_context({"svg.hashsalt": "sglang-sweep"}):
        figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
        for curve in curves:
            colour, style = colours[curve.setting], "-" if curve.mode == "graph" else "--"
            label = f"{curve.setting}, {'in a CUDA graph' if curve.mode == 'graph' else 'eager'}"
            axes.plot(curve.sizes, curve.latency, style, color=colour, marker="o", ms=4, label=label)
            axes.fill_between(curve.sizes, curve.low, curve.high, color=colour, alpha=0.12, lw=0)
        axes.set(xscale="log", yscale="log", xlabel="message", ylabel="latency, us (minimum over ranks)")
        axes.set_xscale("log", base=2)
        for name, size in (marks or {}).items():
            axes.axvline(size, color="0.6", lw=1, ls=":")
            axes.annotate(
                name,
                (size, 0.98),
                xycoords=("data", "axes fraction"),
                xytext=(3, 0),
                textcoords="offset points",
                fontsize=9,
                color="0.35",
                va="top",
            )
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _size(value)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.legend(loc="upper left", frameon=False, bbox_to_anchor=(0, 0.94) if marks else None)
        sns.despine(figure)
        written = [base.with_suffix(suffix) for suffix in (".svg", ".png")]
        for file in written:
            # no date in the file: the same numbers give the same bytes
            metadata = {"Date": None} if file.suffix == ".svg" else {"Software": None}
            figure.savefig(file, dpi=160, metadata=metadata)
        plt.close(figure)
    return written


def _size(value: float) -> str:
    return f"{value / MIB:g} MiB" if value >= MIB else f"{value / KIB:g} KiB"

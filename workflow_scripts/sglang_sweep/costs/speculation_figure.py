"""Throughput against accept length, with the baseline, the break-even and the measured draft."""

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns


def figure_accept_length(economics: dict[str, Any], path: str | Path) -> list[Path]:
    """Draws ``economics`` (of ``speculation.economics``) to ``path`` with .svg and .png; returns both paths."""
    base = Path(path).with_suffix("")
    base.parent.mkdir(parents=True, exist_ok=True)
    cycle, even = economics["cycle"], economics["break_even"]
    full, base_rate = economics["n_steps"] + 1, economics["baseline_throughput"]
    accepts = np.linspace(1, full, 200)
    rates = 1e3 * economics["concurrency"] * accepts / (cycle["fixed_ms"] + cycle["per_token_ms"] * accepts)
    blue, orange, green, grey = (sns.color_palette("colorblind")[n] for n in (0, 1, 2, 7))
    with sns.axes_style("whitegrid", {"grid.color": ".92"}), plt.rc_context({"svg.hashsalt": "sglang-sweep"}):
        figure, axes = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
        axes.plot(accepts, rates, color=blue, lw=2, zorder=2)
        axes.annotate(
            f"full acceptance\n{economics['ceiling']['speedup']:.2f} x baseline",
            (full, rates[-1]),
            xytext=(-8, 0),
            textcoords="offset points",
            ha="right",
            va="bottom",
            color=blue,
            fontsize=9,
        )
        axes.axhline(base_rate, color=grey, lw=1.5, ls="--", zorder=1)
        axes.annotate(
            f"baseline {base_rate:.0f} tok/s",
            (full, base_rate),
            xytext=(-2, 4),
            textcoords="offset points",
            ha="right",
            fontsize=9,
            color="0.35",
        )
        if even["accept_length"] and even["accept_length"] <= full:
            where = even["accept_length"]
            if even["ci95"]:
                axes.axvspan(*even["ci95"], color=green, alpha=0.15, lw=0, zorder=0)
            axes.axvline(where, color=green, lw=1.2, zorder=1)
            axes.annotate(
                f"break-even {where:.2f}",
                (where, 0.03),
                xycoords=("data", "axes fraction"),
                xytext=(5, 0),
                textcoords="offset points",
                color=green,
                fontsize=9,
            )
        for point in economics["points"]:
            axes.plot(
                point["accept_length"],
                point["throughput"],
                marker="o",
                ms=8,
                mfc="white" if point["simulated"] else orange,
                mec=orange,
                mew=1.8,
                ls="",
                zorder=3,
                label="simulated acceptance" if point["simulated"] else "measured draft",
            )
        handles, labels = axes.get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        axes.legend(unique.values(), unique.keys(), loc="lower right", frameon=False)
        axes.set(
            xlabel="accept length (tokens per verify, bonus included)",
            ylabel=f"output tokens per second, concurrency {economics['concurrency']}",
            xlim=(0.9, full + 0.1),
        )
        highest = max(rates[-1], base_rate, *(point["throughput"] for point in economics["points"]))
        axes.set_ylim(0, 1.18 * highest)
        sns.despine(figure)
        written = [base.with_suffix(suffix) for suffix in (".svg", ".png")]
        for file in written:
            # no date in the file: the same numbers give the same bytes
            metadata = {"Date": None} if file.suffix == ".svg" else {"Software": None}
            figure.savefig(file, dpi=160, metadata=metadata)
        plt.close(figure)
    return written

"""The calibration study as a table, a figure and a few sentences; run by `snakemake
reports/calibration/calibration.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
import yaml

from sglang_sweep.calibration.calibration import OURS, RIVALS, study
from sglang_sweep.calibration.holes import study_holes
from sglang_sweep.calibration.minutes import POWER, study_minutes

COLOURS = dict(zip((*OURS, *RIVALS), ("#0b6e4f", "#5fb49c", "#e09f3e", "#c8553d", "#7b2d26"), strict=True))
MARKERS = dict(zip((*OURS, *RIVALS), ("o", "D", "v", "s", "X"), strict=True))


def write_study(
    config_file: Path, markdown_file: Path, figure_file: Path, table_file: Path, workers: int
) -> None:
    """Run the study of a configuration file and write report, figure and every number as CSV."""
    config = yaml.safe_load(config_file.read_text(encoding="utf-8"))
    table, holes, minutes = study(config, workers), study_holes(config, workers), study_minutes(config)
    for file in (markdown_file, figure_file, table_file):
        file.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(table_file, index=False, float_format="%.6g")
    draw(table, figure_file)
    markdown_file.write_text(report(table, config, figure_file.name, holes, minutes), encoding="utf-8")


def report(
    table: pd.DataFrame,
    config: Mapping[str, Any],
    figure: str,
    holes: Sequence[Mapping[str, Any]] = (),
    minutes: Sequence[Mapping[str, Any]] = (),
) -> str:
    """Return the study as Markdown: what it shows, the figure, a table of ours and one of the rivals."""
    ours = table[table.design.isin(OURS)]
    return "\n".join(
        [
            "# Calibration of the statistics",
            "",
            f"{config['replications']} simulated campaigns per scenario and truth, {len(config['effects'])} variants, "
            f"smallest effect {config['smallest_effect']:.0%}, seed {config['seed']}. "
            "Made by `snakemake --cores all reports/calibration/calibration.md`.",
            "",
            *[f"- {sentence}" for sentence in conclusions(table, config)],
            "",
            f"![Calibration]({figure})",
            "",
            "## Ours",
            "",
            *_rows(
                ours,
                {
                    "false WIN/LOSS": "false_win",
                    "false difference": "false_claim",
                    "wrong NO_DIFFERENCE": "wrong_same",
                    "differences found": "power",
                    "nothing shown": "power_same",
                    "95 % interval covers": "coverage",
                    "void sessions": "void",
                    "launches": "launches",
                },
            ),
            "",
            "## The designs of rivals",
            "",
            *_rows(
                table[table.design.isin(RIVALS)],
                {
                    "false difference": "false_claim",
                    "per variant": "false_each",
                    "of at least the smallest effect": "false_win",
                    "differences found": "power",
                    "95 % interval covers": "coverage",
                    "launches": "launches",
                },
            ),
            "",
            "*False WIN/LOSS*, *false difference*: share of campaigns in which any variant is called different though "
            "none is; a false difference is one before the smallest effect is asked for. *Wrong NO_DIFFERENCE*: share "
            "of variants called equal though they differ by just the smallest effect (of the noisy arm, where there "
            "is one). *Differences found*, *nothing shown*: share of the campaign's changed and unchanged variants "
            "with the right verdict. *Launches* are relative to the fixed design. Rivals test each variant at 5 % and "
            "correct for nothing. Rates in per cent, with one Monte-Carlo standard error.",
            "",
            *hole_table(holes, config),
            *minutes_table(minutes, config),
        ]
    )


def hole_table(holes: Sequence[Mapping[str, Any]], config: Mapping[str, Any]) -> list[str]:
    """Return the study of truths that a mean hides: which verdicts came, how many mislead, how many say nothing."""
    if not holes:
        return []
    lines = ["| truth | mode | verdicts | misleading | silent |", "|---|---|---|---:|---:|"]
    for row in holes:
        came = ", ".join(f"{name} {share:.0%}" for name, share in row["verdicts"].items())
        lines.append(
            f"| {row['truth']} | {row['mode']} | {came} | {row['wrong']:.1%} | {row['silent']:.1%} |"
        )
    return [
        "## What a mean hides",
        "",
        f"{config['hole_replications']} campaigns of whole launch records per row, one variant. *Misleading*: a "
        "verdict that the truth does not allow. *Silent*: WIN or NO_DIFFERENCE without a word of what is hidden.",
        "",
        *lines,
        "",
    ]


def minutes_table(minutes: Sequence[Mapping[str, Any]], config: Mapping[str, Any]) -> list[str]:
    """Return what each way of measuring takes to find the effect, and how often it claims one that is not there."""
    if not minutes:
        return []
    asked = config["minutes"]
    lines = [
        "| way | blocks | launches | GPU minutes | effect found | false difference |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in minutes:
        lines.append(
            f"| {row['way']} | {row['blocks']} | {row['launches']:.0f} | {row['minutes']:.0f} | {row['found']:.0%} | "
            f"{row['false_claim']:.0%} |"
        )
    return [
        "## GPU minutes to the right verdict",
        "",
        f"One of {asked['variants']} variants gains {asked['effect']:.0%}, the smallest effect of interest is "
        f"{asked['smallest_effect']:.0%}; noise as measured on two H200. Ours: the fewest blocks that find it in "
        f"{POWER:.0%} of campaigns. Rivals claim differences that are not there, so no number of minutes is theirs.",
        "",
        *lines,
        "",
    ]


def conclusions(table: pd.DataFrame, config: Mapping[str, Any]) -> list[str]:
    """Return what the study shows, with its own figures."""
    ours = table[table.design.isin(OURS)]
    adaptive = table[table.design == OURS[0]].set_index("scenario")
    fixed = table[table.design == OURS[1]].set_index("scenario")
    worst = ours.sort_values("false_win").iloc[-1]
    least = fixed.coverage.idxmin()
    share = adaptive.launches.sort_values()
    middle = share.index[(len(share) - 1) // 2]
    gain, same = (adaptive[name] - fixed[name] for name in ("power", "power_same"))
    rivals = table[table.design.isin(RIVALS)].groupby("design").false_claim
    return [
        f"Family-wise false WIN or LOSS: at most {worst.false_win:.1%} ({worst.design}, {worst.scenario}).",
        f"95 % interval, fixed design: covers {fixed.coverage.min():.1%} ({least}) to {fixed.coverage.max():.1%}; "
        f"adaptive, over all looks at once: {adaptive.coverage.min():.1%} or more.",
        f"The adaptive design uses {share.median():.1%} of the launches of {config['fixed_blocks']} fixed blocks in "
        f"the median scenario ({share.iloc[0]:.0%} for {share.index[0]}, {share.iloc[-1]:.0%} for {share.index[-1]}). "
        f"About the median ({middle}) it finds {gain[middle]:+.1%} of the differences and shows "
        f"{same[middle]:+.1%} of the nothings against the fixed design; over all scenarios {gain.min():+.1%} to "
        f"{gain.max():+.1%} and {same.min():+.1%} to {same.max():+.1%}.",
        "False differences of rivals: "
        + "; ".join(f"{name} {low:.0%} to {high:.0%}" for name, low, high in _ranges(rivals))
        + ".",
    ]


def draw(table: pd.DataFrame, file: Path) -> None:
    """Draw one row per scenario: false differences, differences found, launches used."""
    sns.set_theme(style="whitegrid", context="paper", font_scale=1.05)
    scenarios = list(dict.fromkeys(table.scenario))
    figure, axes = plt.subplots(1, 3, figsize=(11.8, 0.36 * len(scenarios) + 2.0), sharey=True)
    panels = (
        ("false_claim", "campaigns with a false difference", (*RIVALS[::-1], *OURS[::-1])),
        ("right", "variants with the right verdict", OURS[::-1]),
        ("launches", "launches, of ten fixed blocks", OURS[::-1]),
    )
    for axis, (column, title, shown) in zip(axes, panels, strict=True):
        for design in shown:
            part = table[table.design == design].set_index("scenario").loc[scenarios]
            axis.plot(
                part[column] * 100,
                range(len(scenarios)),
                MARKERS[design],
                color=COLOURS[design],
                markersize=7,
                markeredgecolor="white",
                markeredgewidth=0.7,
                label=design,
                clip_on=False,
                zorder=3,
            )
        axis.set_title(title, fontsize=10.5, loc="left")
        axis.set_xlim(0, 100)
        axis.xaxis.set_major_formatter("{x:.0f} %")
        axis.grid(axis="y", visible=False)
    axes[0].axvline(5, color="#444444", linewidth=0.9, linestyle=(0, (4, 3)))
    axes[0].text(6.5, -0.75, "5 %", fontsize=8.5, color="#444444", va="center")
    axes[2].axvline(60, color="#444444", linewidth=0.9, linestyle=(0, (4, 3)))
    axes[2].text(58.5, -0.75, "60 %", fontsize=8.5, color="#444444", va="center", ha="right")
    axes[0].set_yticks(range(len(scenarios)), scenarios)
    axes[0].set_ylim(len(scenarios) - 0.5, -1.1)
    sns.despine(figure, left=True)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles[::-1], labels[::-1], loc="lower center", ncol=5, frameon=False, handletextpad=0.1)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(file, dpi=160)
    plt.close(figure)


def _rows(table: pd.DataFrame, columns: Mapping[str, str]) -> list[str]:
    lines = [f"| scenario | design | {' | '.join(columns)} |", f"|---|---|{'---:|' * len(columns)}"]
    for _, row in table.iterrows():
        cells = [
            f"{row[name]:.0%}"
            if name == "launches"
            else f"{row[name] * 100:.1f} ± {row[f'se_{name}'] * 100:.1f}"
            for name in columns.values()
        ]
        lines.append(f"| {row.scenario} | {row.design} | {' | '.join(cells)} |")
    return lines


def _ranges(groups: Any) -> list[tuple[str, float, float]]:
    return [(str(name), float(values.min()), float(values.max())) for name, values in groups]

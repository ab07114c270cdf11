"""Writes verdicts, metrics and launches as CSV, with pyarrow as Parquet too, and a dictionary of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from sglang_sweep.report.answer import Campaign
from sglang_sweep.report.document import plain
from sglang_sweep.report.record import Interval
from sglang_sweep.report.words import reading_order, reason, row_change, said_elsewhere, unit_of

VERDICTS = {
    "variant": "its name in the campaign",
    "verdict": "what is concluded (see `how to read this` in the report)",
    "ratio": "variant over baseline in the deciding metric, oriented: above 1 is better; blank without a number",
    "ci95_low": "lower end of the 95 % interval of `ratio`",
    "ci95_high": "upper end of the 95 % interval of `ratio`",
    "p_value": "paired t-test that the ratio differs from 1",
    "p_holm": "the same, corrected for all variants",
    "equivalence_p": "two one-sided tests that the ratio lies within the smallest effect",
    "blocks": "blocks that count",
    "more_blocks": "further blocks that would settle it four times in five; blank where none is needed",
    "baseline_mean": "mean of the baseline in the variant's own blocks, in `unit`",
    "variant_mean": "mean of the variant, in `unit`",
    "unit": "unit of the two means",
    "outcome": "completed, failed or not_run",
    "cause": "why it failed",
    "engagement": "engaged, not_engaged or unproven",
    "kind": "candidate, control (A', or a forced accept length) or planned",
    "elsewhere": "what another load or objective says against the verdict",
    "key": "key of its results",
    "why": "the reason, in one line",
}
METRICS = {
    "variant": VERDICTS["variant"],
    "load": "the workload's name",
    "metric": "the metric's name in launch.json",
    "unit": VERDICTS["unit"],
    "baseline_mean": VERDICTS["baseline_mean"],
    "variant_mean": VERDICTS["variant_mean"],
    "change": "variant over baseline less 1, of the metric itself: below 0 is faster for a latency",
    "change_low": "lower end of its 95 % interval",
    "change_high": "upper end of its 95 % interval",
    "way": "better, worse, or blank where the interval holds no change",
    "decides": "whether the verdict rests on this row",
}
LAUNCHES = {
    "variant": VERDICTS["variant"],
    "block": "number of the block",
    "outcome": VERDICTS["outcome"],
    "value": "mean of the deciding metric over the windows that count, in `unit`",
    "unit": "unit of `value`",
    "removed": "the rule that removed it; blank where it counts",
    "file": "its launch.json",
}


def verdict_rows(campaign: Campaign) -> Iterator[dict[str, Any]]:
    """One row a variant, in reading order; numbers unrounded."""
    for v in reading_order(campaign.verdicts.variants):
        low, high = _ends(v.ci95)
        row = v.primary
        control, planned = v.is_noise_arm or v.is_control, v.verdict == "PLANNED"
        yield {name: getattr(v, name, None) for name in VERDICTS} | {
            "variant": v.name,
            "ci95_low": low,
            "ci95_high": high,
            "baseline_mean": row.baseline_mean if row else None,
            "variant_mean": row.variant_mean if row else None,
            "unit": row.unit if row else unit_of(campaign.metric),
            "engagement": v.engagement.state,
            "kind": "planned" if planned else "control" if control else "candidate",
            "elsewhere": said_elsewhere(v),
            "why": plain(reason(v, campaign.smallest, campaign.metric)),
        }


def metric_rows(campaign: Campaign) -> Iterator[dict[str, Any]]:
    """One row for each metric of each variant at each load."""
    for v in reading_order(campaign.verdicts.variants):
        for row in v.metrics:
            change = row_change(row)
            low, high = _ends(change.ends)
            yield {
                "variant": v.name,
                "load": row.workload,
                "metric": row.metric,
                "unit": row.unit or unit_of(row.metric),
                "baseline_mean": row.baseline_mean,
                "variant_mean": row.variant_mean,
                "change": change.ratio - 1 if change.ratio else None,
                "change_low": low - 1 if low else None,
                "change_high": high - 1 if high else None,
                "way": change.way,
                "decides": row.primary,
            }


def launch_rows(campaign: Campaign) -> Iterator[dict[str, Any]]:
    """One row a launch."""
    for v in reading_order(campaign.verdicts.variants):
        for launch in v.launches:
            yield {
                "variant": v.name,
                "block": launch.block,
                "outcome": launch.outcome,
                "value": launch.value,
                "unit": unit_of(campaign.metric),
                "removed": str(launch.removed or ""),
                "file": launch.file,
            }


TABLES = {
    "verdicts": (verdict_rows, VERDICTS, {"blocks": "Int64", "more_blocks": "Int64"}),
    "metrics": (metric_rows, METRICS, {}),
    "launches": (launch_rows, LAUNCHES, {"block": "Int64"}),
}


def frame(campaign: Campaign, name: str) -> pd.DataFrame:
    """One of ``TABLES``."""
    rows, columns, kinds = TABLES[name]
    return pd.DataFrame(list(rows(campaign)), columns=list(columns)).astype(kinds)


def write_tables(campaign: Campaign, folder: Path) -> None:
    """Writes each table as CSV (UTF-8, absent values empty), with pyarrow as Parquet too, and columns.md."""
    words = ["# Columns of the tables", ""]
    for name, (_, columns, _) in TABLES.items():
        made = frame(campaign, name)
        made.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n", float_format="%.6g")
        if find_spec("pyarrow"):
            made.to_parquet(folder / f"{name}.parquet", index=False)
        words += [f"## {name}.csv, {name}.parquet", "", "| column | what it holds |", "|---|---|"]
        words += [f"| `{column}` | {meaning} |" for column, meaning in columns.items()] + [""]
    (folder / "columns.md").write_text("\n".join(words), encoding="utf-8")


def _ends(interval: Interval | None) -> Interval:
    return interval or (None, None)

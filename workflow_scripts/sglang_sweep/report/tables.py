"""Writes verdicts and launches as tables, for `snakemake --report`, spreadsheets and pandas."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from sglang_sweep.report.words import (
    is_noise_arm,
    meaning,
    primary_metric,
    primary_of,
    reading_order,
    unit_of,
)

VERDICT_COLUMNS = (
    "variant",
    "verdict",
    "ratio",
    "ci95_low",
    "ci95_high",
    "p_value",
    "p_holm",
    "equivalence_p",
    "blocks",
    "more_blocks",
    "baseline_mean",
    "variant_mean",
    "unit",
    "outcome",
    "cause",
    "engagement",
    "noise_arm",
    "key",
    "meaning",
)
LAUNCH_COLUMNS = ("variant", "block", "outcome", "value", "unit", "removed", "file")


def verdict_frame(verdicts: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row per variant in reading order; numbers unrounded, means in `unit`."""
    smallest = (verdicts.get("design") or {}).get("smallest_effect")
    rows = []
    for variant in reading_order(list(verdicts["variants"])):
        low, high = variant.get("ci95") or (None, None)
        row = primary_metric(variant) or {}
        rows.append(
            {key: variant.get(key) for key in VERDICT_COLUMNS}
            | {
                "variant": variant["name"],
                "ci95_low": low,
                "ci95_high": high,
                "baseline_mean": row.get("baseline_mean"),
                "variant_mean": row.get("variant_mean"),
                "unit": row.get("unit"),
                "engagement": (variant.get("engagement") or {}).get("state"),
                "noise_arm": is_noise_arm(variant),
                "meaning": meaning(variant, smallest),
            }
        )
    return pd.DataFrame(rows, columns=list(VERDICT_COLUMNS)).astype(
        {"blocks": "Int64", "more_blocks": "Int64"}
    )


def launch_frame(verdicts: Mapping[str, Any]) -> pd.DataFrame:
    """Return one row per launch of each variant, with what removed it; values are of the primary metric."""
    unit = unit_of(primary_of(verdicts)[1] or "")
    rows = [
        {key: launch.get(key) for key in LAUNCH_COLUMNS} | {"variant": variant["name"], "unit": unit}
        for variant in reading_order(list(verdicts["variants"]))
        for launch in variant.get("launches") or []
    ]
    return pd.DataFrame(rows, columns=list(LAUNCH_COLUMNS)).astype({"block": "Int64"})


def write_tables(verdicts: Mapping[str, Any], verdicts_csv: Path, launches_csv: Path) -> None:
    """Write both tables as CSV (UTF-8, comma, absent values empty); same input, same bytes."""
    for frame, path in ((verdict_frame(verdicts), verdicts_csv), (launch_frame(verdicts), launches_csv)):
        path.parent.mkdir(parents=True, exist_ok=True)
        frame.to_csv(path, index=False, lineterminator="\n", float_format="%.6g")

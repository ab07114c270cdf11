"""Tables hold the same verdicts for programs, and every column is explained."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from sglang_sweep.report.answer import Campaign
from sglang_sweep.report.tables import TABLES, frame, write_tables


def test_each_variant_is_a_row_with_unrounded_numbers(published: Campaign) -> None:
    rows = frame(published, "verdicts").set_index("variant")
    assert len(rows) == len(published.verdicts.variants)
    assert rows.loc["custom-all-reduce", "ratio"] == 1.12115728664255
    assert rows.loc["nccl-tree-unscoped", "cause"] == "collective_error"
    assert rows.loc["eagle3-accept-3", "kind"] == "control"
    assert rows.loc["graphs-8", "elsewhere"] == "−86.1 % at load sixteen"


def test_a_latencys_change_in_the_metrics_table_is_its_own(published: Campaign) -> None:
    rows = frame(published, "metrics").set_index(["variant", "load", "metric"])
    tpot = rows.loc[("custom-all-reduce", "one", "mean_tpot_ms")]
    assert -0.118 < tpot["change"] < -0.116
    assert tpot["change_low"] < tpot["change"] < tpot["change_high"] < 0
    assert tpot["way"] == "better"


def test_tables_are_written_and_every_column_is_explained(published: Campaign, tmp_path: Path) -> None:
    write_tables(published, tmp_path)
    words = (tmp_path / "columns.md").read_text()
    for name, (_, columns, _) in TABLES.items():
        made = pd.read_csv(tmp_path / f"{name}.csv")
        assert list(made.columns) == list(columns)
        assert len(made)
        assert all(f"| `{column}` | " in words for column in columns)

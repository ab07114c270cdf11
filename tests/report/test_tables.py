"""Tables hold the same verdicts, for programs and for `snakemake --report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
from sglang_sweep.report.tables import launch_frame, verdict_frame, write_tables


def test_each_variant_is_a_row_with_unrounded_numbers(verdicts: dict[str, Any]) -> None:
    frame = verdict_frame(verdicts).set_index("variant")
    assert len(frame) == len(verdicts["variants"])
    assert frame.loc["graph-bs-128", "ratio"] == 1.0912
    assert frame.loc["nccl-tree-unscoped", "cause"] == "collective_error"
    assert frame.loc["baseline-prime", "noise_arm"]


def test_each_launch_is_a_row_with_what_removed_it(verdicts: dict[str, Any]) -> None:
    frame = launch_frame(verdicts)
    assert len(frame) == sum(len(v["launches"]) for v in verdicts["variants"])
    removed = frame[frame["removed"].notna()]
    assert removed[["variant", "block", "removed"]].values.tolist() == [["ep8", 4, "throttling"]]


def test_tables_can_be_read_back_and_are_the_same_each_time(tmp_path: Path, verdicts: dict[str, Any]) -> None:
    paths = tmp_path / "verdicts.csv", tmp_path / "launches.csv"
    write_tables(verdicts, *paths)
    first = [path.read_bytes() for path in paths]
    write_tables(verdicts, *paths)
    assert [path.read_bytes() for path in paths] == first
    assert list(pd.read_csv(paths[0])["variant"]) == list(verdict_frame(verdicts)["variant"])


def test_a_campaign_without_launches_has_tables_with_headers(
    tmp_path: Path, verdicts: dict[str, Any]
) -> None:
    verdicts["variants"] = []
    write_tables(verdicts, tmp_path / "v.csv", tmp_path / "l.csv")
    assert (tmp_path / "l.csv").read_text().startswith("variant,block,outcome")

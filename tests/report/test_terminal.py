"""The run ends with the answer and one row a variant."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console
from sglang_sweep.report.answer import Campaign
from sglang_sweep.report.terminal import closing


def printed(campaign: Campaign, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(closing(campaign, Path("reports/h200-x2")))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [90, 140])
def test_each_variant_is_a_row_and_nothing_is_cut(published: Campaign, width: int) -> None:
    lines = printed(published, width)
    for v in (*published.candidates, *published.controls):
        assert sum(line.startswith(v.name + " ") for line in lines) == 1
    assert "…" not in "".join(lines)


def test_the_answer_comes_first_and_the_report_last(published: Campaign) -> None:
    lines = [line for line in printed(published, 140) if line.strip()]
    assert lines[0].startswith("h200-x2: Run custom-all-reduce: output throughput +12.1 %")
    assert lines[-1].startswith("reports/h200-x2/index.html")


def test_brackets_are_not_taken_for_markup(change: Callable[..., Campaign]) -> None:
    lines = printed(change(graphs_8={"name": "[red]x[/red]"}), 140)
    assert any(line.startswith("[red]x[/red]") for line in lines)

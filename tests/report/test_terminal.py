"""The run ends with the verdicts, one line a variant."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console
from sglang_sweep.report.terminal import verdict_table


def printed(verdicts: dict[str, Any], width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(verdict_table(verdicts))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


@pytest.mark.parametrize("width", [90, 140])
def test_each_variant_is_one_line(verdicts: dict[str, Any], width: int) -> None:
    lines = printed(verdicts, width)
    for v in verdicts["variants"]:
        assert sum(line.startswith(v["name"] + " ") for line in lines) == 1
    assert len(lines) <= len(verdicts["variants"]) + 3


def test_the_answer_is_its_title(verdicts: dict[str, Any]) -> None:
    assert printed(verdicts, 140)[0].startswith("Fastest: graph-bs-128, +9.12 %")


def test_a_workload_that_contradicts_a_verdict_is_named_below(verdicts: dict[str, Any]) -> None:
    equal = next(v for v in verdicts["variants"] if v["name"] == "nccl-4-channels")
    other = {"workload": "load", "metric": "output_throughput", "kind": "worse"}
    equal["elsewhere"] = [other | {"ratio": 0.5, "ci95": [0.49, 0.51]}]
    assert printed(verdicts, 110)[-1].strip() == (
        "Against its verdict, nccl-4-channels: −50.0 % [−51.0, −49.0] % on load"
    )


def test_brackets_in_names_are_not_taken_for_markup(verdicts: dict[str, Any]) -> None:
    verdicts["variants"][1]["name"] = "[red]x[/red]"
    assert any(line.startswith("[red]x[/red]") for line in printed(verdicts, 140))

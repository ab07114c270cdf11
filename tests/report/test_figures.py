"""Figures are drawn from the data alone: readable as text, the same bytes each time."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import constructed
import pytest
from sglang_sweep.report.figures import figure_blocks, figure_ratios, figure_windows
from sglang_sweep.report.profile_figure import figure_profiles


@pytest.fixture
def launches(launches: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A few arms over three blocks: enough to draw."""
    arms = ("baseline", "baseline-prime", "graph-bs-128", "eagle3")
    return [record for record in launches if record["variant"] in arms and record["block"] <= 3]


def texts(svg: Path) -> list[str]:
    return [
        "".join(node.itertext()).strip() for node in ET.parse(svg).iter("{http://www.w3.org/2000/svg}text")
    ]


def test_every_launched_variant_is_a_row_with_its_verdict_and_number(
    tmp_path: Path, verdicts: dict[str, Any]
) -> None:
    figure_ratios(verdicts, tmp_path / "r.svg")
    shown = texts(tmp_path / "r.svg")
    for v in verdicts["variants"]:
        launched = v["verdict"] != "PLANNED"
        assert any(v["name"] in text for text in shown) is launched
        assert (v["verdict"] in shown) is launched
    assert "+9.12 % [+8.10, +10.1] %" in shown
    assert "collective_error" in shown


def test_a_dead_end_has_a_row_but_no_point(tmp_path: Path, verdicts: dict[str, Any]) -> None:
    verdicts["variants"] = [v for v in verdicts["variants"] if v["verdict"] == "DEAD_END"]
    figure_ratios(verdicts, tmp_path / "r.svg")
    assert "#0072b2" not in (tmp_path / "r.svg").read_text()
    assert "DEAD_END" in texts(tmp_path / "r.svg")


@pytest.mark.parametrize(
    "draw",
    [
        lambda verdicts, launches, out: figure_ratios(verdicts, out),
        lambda verdicts, launches, out: figure_blocks(launches, out, verdicts=verdicts),
        lambda verdicts, launches, out: figure_windows(launches, out, verdicts=verdicts),
    ],
    ids=["ratios", "blocks", "windows"],
)
def test_the_same_data_give_the_same_bytes_without_a_date(
    tmp_path: Path,
    verdicts: dict[str, Any],
    launches: list[dict[str, Any]],
    draw: Callable[[dict[str, Any], list[dict[str, Any]], Path], None],
) -> None:
    draw(verdicts, launches, tmp_path / "1.svg")
    draw(verdicts, launches, tmp_path / "2.svg")
    first = (tmp_path / "1.svg").read_bytes()
    assert first == (tmp_path / "2.svg").read_bytes()
    assert b"<dc:date>" not in first


def test_blocks_and_windows_name_every_arm(
    tmp_path: Path, verdicts: dict[str, Any], launches: list[dict[str, Any]]
) -> None:
    arms = {record["variant"] for record in launches}
    figure_blocks(launches, tmp_path / "b.svg", verdicts=verdicts)
    figure_windows(launches, tmp_path / "w.svg", verdicts=verdicts)
    assert arms <= set(texts(tmp_path / "b.svg"))
    assert arms <= set(texts(tmp_path / "w.svg"))


def test_a_campaign_with_nothing_measured_still_has_figures(tmp_path: Path, verdicts: dict[str, Any]) -> None:
    verdicts["variants"] = []
    figure_ratios(verdicts, tmp_path / "r.svg")
    figure_blocks([], tmp_path / "b.svg", verdicts=verdicts)
    figure_windows([{"variant": "x", "block": 1, "windows": []}], tmp_path / "w.svg")
    assert "no completed launch" in texts(tmp_path / "b.svg")
    assert "no completed launch" in texts(tmp_path / "w.svg")


def test_one_block_without_interval_is_drawn(tmp_path: Path, verdicts: dict[str, Any]) -> None:
    for v in verdicts["variants"]:
        v["ci95"] = None
    figure_ratios(verdicts, tmp_path / "r.svg")
    assert "+9.12 % –" in texts(tmp_path / "r.svg")


def test_control_characters_and_endless_names_do_not_reach_the_figure(
    tmp_path: Path, verdicts: dict[str, Any]
) -> None:
    verdicts["variants"] = [
        verdicts["variants"][-3] | {"name": "\x1b[31m\x00" + "a" * 300, "cause": "b" * 300}
    ]
    figure_ratios(verdicts, tmp_path / "r.svg")
    assert "a" * 31 + "…" in texts(tmp_path / "r.svg")
    assert "\x1b" not in (tmp_path / "r.svg").read_text()


def test_names_with_dollar_signs_are_names_not_formulas(tmp_path: Path, verdicts: dict[str, Any]) -> None:
    verdicts["variants"][1]["name"] = r"$\frac{x$<b>"
    figure_ratios(verdicts, tmp_path / "r.svg")
    assert r"$\frac{x$<b>" in texts(tmp_path / "r.svg")


@pytest.mark.parametrize("extreme", [0.001, 0.5, 1.0, 1.004, 3.0, 40.0])
def test_any_size_of_effect_leaves_readable_ticks(
    tmp_path: Path, verdicts: dict[str, Any], extreme: float
) -> None:
    verdicts["variants"] = [
        verdicts["variants"][1] | {"ratio": extreme, "ci95": [extreme * 0.99, extreme * 1.01]}
    ]
    figure_ratios(verdicts, tmp_path / "r.svg")
    ticks = [text for text in texts(tmp_path / "r.svg") if text == "0" or text.endswith("0 %") or "–" in text]
    assert "0" in ticks


def test_profiles_draw_the_phases_of_the_cycle_and_name_their_classes(tmp_path: Path) -> None:
    profiles = {name: constructed.profile(name) for name in ("nccl", "eagle3-random-draft")}
    figure_profiles(profiles, tmp_path / "1.svg")
    figure_profiles(profiles, tmp_path / "2.svg")
    shown = " ".join(texts(tmp_path / "1.svg"))
    assert all(
        words in shown for words in ("TARGET_VERIFY bs=1", "DECODE bs=1", "all reduce", "idle or waiting")
    )
    assert "EXTEND" not in shown
    assert (tmp_path / "1.svg").read_bytes() == (tmp_path / "2.svg").read_bytes()


def test_no_profile_is_a_figure_that_says_so(tmp_path: Path) -> None:
    figure_profiles({}, tmp_path / "p.svg")
    assert "no profile" in texts(tmp_path / "p.svg")

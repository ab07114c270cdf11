"""Figures show what decides, with words as text, and are the same in every run."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sglang_sweep.costs.communication import read_curves
from sglang_sweep.report.answer import Campaign
from sglang_sweep.report.canvas import ChangeAxis
from sglang_sweep.report.figures import (
    change_axis,
    figure_blocks,
    figure_latency,
    figure_profiles,
    figure_ratios,
    figure_speculation,
    figure_windows,
    launch_points,
    sessions,
    window_points,
)

CURVES = Path(__file__).parents[1] / "recordings" / "communication" / "h200x2-nccl-2.28.9.json"


@pytest.fixture(autouse=True)
def no_clipped_labels() -> object:
    """Matplotlib warns where a layout leaves no room."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_every_figure_is_drawn_wide_and_narrow_and_repeats_byte_for_byte(
    published: Campaign, tmp_path: Path
) -> None:
    beside = published.beside
    assert beside.speculation

    def all_of(folder: Path) -> list[tuple[str, str, str]]:
        figures = [
            figure_ratios(published, folder / "ratios.svg"),
            figure_blocks(published, folder / "blocks.svg"),
            figure_windows(published, folder / "windows.svg"),
            figure_profiles(beside.profiles, folder / "profiles.svg"),
            figure_speculation(beside.speculation, folder / "speculation.svg"),
            figure_latency(read_curves(CURVES), folder / "communication.svg"),
        ]
        return [(f.wide, f.narrow, f.file.read_text()) for f in figures]

    first = all_of(tmp_path / "a")
    assert first == all_of(tmp_path / "b")
    for wide, narrow, _ in first[1:]:
        assert float(wide.split('width="')[1].split("pt")[0]) > 1.9 * float(
            narrow.split('width="')[1].split("pt")[0]
        )


def test_every_launched_variant_has_a_row_and_the_band_a_label(published: Campaign, tmp_path: Path) -> None:
    svg = figure_ratios(published, tmp_path / "ratios.svg").file.read_text()
    for v in (*published.candidates, *published.controls):
        assert f">{v.name}<" in svg
    assert "±3.0 % counts as equal" in svg


def test_what_is_not_believed_or_far_away_does_not_set_the_axis(
    published: Campaign, change: Callable[..., Campaign]
) -> None:
    axis = change_axis(published)
    assert not axis.inside(0.09)
    loud = change_axis(change(torch_symm_mem={"ratio": 1.6, "ci95": (1.4, 1.8)}))
    assert (loud.low, loud.high) == (axis.low, axis.high)


def test_a_latencys_axis_is_labelled_with_its_own_change_and_better_is_right() -> None:
    ticks = ChangeAxis([0.9, 1.25], 0.02, "mean_tpot_ms").ticks()
    assert [text for _, text in sorted(ticks)] == ["+10 %", "0", "−10 %", "−20 %"]
    assert ("0", 1.0) in [(text, place) for place, text in ticks]


def test_launches_lie_in_order_of_time_and_sessions_are_parted(published: Campaign) -> None:
    points = launch_points(published.verdicts, published.launches)
    assert [p.hours for p in points] == sorted(p.hours for p in points)
    assert [len({p.block for p in part}) for part in sessions(points)] == [3, 3]


def test_a_removed_launch_is_shown_as_removed(published: Campaign) -> None:
    from sglang_sweep.report.record import Removal

    gone = published.verdicts.session.model_copy(update={"removed": [Removal(arm="nccl-tree", block=4)]})
    marked = replace(published, verdicts=published.verdicts.model_copy(update={"session": gone}))
    points = launch_points(marked.verdicts, marked.launches)
    assert [(p.arm, p.block) for p in points if p.removed] == [("nccl-tree", 4)]


def test_windows_are_changes_against_their_launch(published: Campaign) -> None:
    points = window_points(published.verdicts, published.launches)
    mine = [p.value for p in points if (p.arm, p.block) == ("baseline", 4)]
    assert sum(mine) == pytest.approx(0, abs=1e-9)


def test_a_campaign_without_a_launch_has_empty_figures(published: Campaign, tmp_path: Path) -> None:
    empty = replace(published, verdicts=published.verdicts.model_copy(update={"variants": []}), launches=[])
    for draw in (figure_ratios, figure_blocks, figure_windows):
        assert "<svg" in draw(empty, tmp_path / "x.svg").file.read_text()

"""Points of the figures are the launches' own numbers, removed ones included and marked."""

from __future__ import annotations

from typing import Any

import pytest
from sglang_sweep.report.series import launch_points, sessions, window_points


def launch(**more: Any) -> dict[str, Any]:
    windows = [
        {"workload": "chat", "window": i, "valid": True, "metrics": {"output_throughput": value}}
        for i, value in enumerate((90.0, 100.0, 110.0), 1)
    ]
    record = {"variant": "a", "block": 1, "started_at": "2026-11-30T12:00:00+00:00", "windows": windows}
    return record | more


def test_a_launch_is_the_mean_of_its_windows_at_its_hour() -> None:
    points = launch_points([launch(), launch(block=2, started_at="2026-11-30T13:30:00+00:00")])
    assert [(p.block, p.hours, p.value) for p in points] == [(1, 0.0, 100.0), (2, 1.5, 100.0)]


def test_points_are_parted_where_nothing_ran() -> None:
    clock = ("12:00", "12:02", "12:10", "15:30", "15:32")
    records = [launch(block=n, started_at=f"2026-11-30T{at}:00+00:00") for n, at in enumerate(clock)]
    assert [[p.block for p in part] for part in sessions(launch_points(records))] == [[0, 1, 2], [3, 4]]
    assert sessions([]) == []


def test_an_invalid_window_does_not_count() -> None:
    record = launch()
    record["windows"][0]["valid"] = False
    assert launch_points([record])[0].value == 105.0


def test_a_launch_without_valid_windows_is_shown_as_removed() -> None:
    record = launch()
    for window in record["windows"]:
        window["valid"] = False
    point = launch_points([record])[0]
    assert (point.value, point.removed) == (100.0, True)


def test_a_failed_launch_has_no_point() -> None:
    assert launch_points([launch(windows=[])]) == []


def test_only_the_primary_workload_and_metric_are_drawn() -> None:
    record = launch()
    record["windows"].append({"workload": "other", "window": 1, "metrics": {"output_throughput": 1.0}})
    verdicts = {"design": {"primary": {"workload": "other", "metric": "output_throughput"}}}
    assert launch_points([record], verdicts)[0].value == 1.0


def test_a_launch_that_the_verdicts_removed_is_marked() -> None:
    verdicts = {"variants": [{"name": "a", "launches": [{"block": 1, "removed": "throttling"}]}]}
    assert launch_points([launch()], verdicts)[0].removed


def test_what_the_rules_removed_in_the_baseline_does_not_count_either() -> None:
    removed = [{"arm": "a", "block": 1, "window": 0}, {"arm": "a", "block": 2, "window": None}]
    verdicts = {"session": {"removed": removed}}
    one, two = launch_points([launch(), launch(block=2)], verdicts)
    assert (one.value, one.removed) == (105.0, False)
    assert (two.value, two.removed) == (100.0, True)
    assert [p.removed for p in window_points([launch()], verdicts)] == [True, False, False]


def test_windows_are_changes_against_the_mean_of_their_launch() -> None:
    assert [p.value for p in window_points([launch()])] == pytest.approx([-10.0, 0.0, 10.0])

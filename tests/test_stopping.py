"""What two launches have confirmed is not repeated; in adaptive mode a settled arm stops."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from launch_records import window, write
from sglang_sweep.campaign.model import load_campaign
from sglang_sweep.plan.schedule import arms_of, schedule
from sglang_sweep.verdict import stopping
from sglang_sweep.verdict.stopping import why_not_run


class StubSweep:
    """A sweep without stacks or host: only what stopping asks for."""

    def __init__(self, results: Path, **design: Any) -> None:
        loaded = load_campaign("cpu-demo")
        self.campaign = dataclasses.replace(loaded, design=loaded.design.model_copy(update=design))
        arms = arms_of(self.campaign, {"cpu": "s"}, {"smollm2-135m": "m"}, "h", {})
        self.schedule = schedule(self.campaign, arms, results)


@pytest.fixture
def engaged(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Engagement by arm, instead of reading logs."""
    states: dict[str, str] = {}
    monkeypatch.setattr(stopping, "declared", lambda _, arm: {"name": arm.name})
    monkeypatch.setattr(
        stopping,
        "assess_arm",
        lambda declared, *_: {"engagement": {"state": states.get(declared["name"], "engaged")}},
    )
    return states


def launched(
    sweep: StubSweep, results: Path, name: str, block: int, value: float | None, cause: str = ""
) -> None:
    arm = next(arm for arm in sweep.schedule.arms if arm.name == name)
    path = results / "launches" / arm.folder / f"block-{block}" / "launch.json"
    minute = block * 10
    write(
        path,
        variant=name,
        identity=arm.identity,
        block=block,
        outcome="completed" if value else "failed",
        cause=cause or None,
        started_at=f"2026-11-30T12:{minute:02}:00+00:00",
        finished_at=f"2026-11-30T12:{minute:02}:30+00:00",
        windows=[window(metrics={"output_throughput": value})] if value else [],
    )


def folder(sweep: StubSweep, name: str) -> str:
    return next(arm.folder for arm in sweep.schedule.arms if arm.name == name)


def baselines(sweep: StubSweep, results: Path, block: int) -> None:
    launched(sweep, results, "baseline", block, 100.0 + block % 2)
    launched(sweep, results, "baseline-prime", block, 100.5)


def test_a_confirmed_dead_end_stops(tmp_path: Path, engaged: dict[str, str]) -> None:
    sweep = StubSweep(tmp_path)
    for block in (1, 2):
        baselines(sweep, tmp_path, block)
        launched(sweep, tmp_path, "tp2", block, None, "invalid_configuration")
    assert why_not_run(sweep, folder(sweep, "tp2"), 2, tmp_path) is None  # type: ignore[arg-type]
    assert "DEAD_END" in (why_not_run(sweep, folder(sweep, "tp2"), 3, tmp_path) or "")  # type: ignore[arg-type]


def test_two_failures_with_different_causes_go_on(tmp_path: Path, engaged: dict[str, str]) -> None:
    sweep = StubSweep(tmp_path)
    for block, cause in ((1, "crashed"), (2, "collective_hang")):
        baselines(sweep, tmp_path, block)
        launched(sweep, tmp_path, "tp2", block, None, cause)
    assert why_not_run(sweep, folder(sweep, "tp2"), 3, tmp_path) is None  # type: ignore[arg-type]


def test_a_change_that_did_not_engage_twice_stops(tmp_path: Path, engaged: dict[str, str]) -> None:
    sweep = StubSweep(tmp_path)
    engaged["mscclpp"] = "not_engaged"
    for block in (1, 2):
        baselines(sweep, tmp_path, block)
        launched(sweep, tmp_path, "mscclpp", block, 100.0)
    assert "NO_OP" in (why_not_run(sweep, folder(sweep, "mscclpp"), 3, tmp_path) or "")  # type: ignore[arg-type]


def test_the_baseline_of_a_fixed_design_is_always_launched(tmp_path: Path, engaged: dict[str, str]) -> None:
    sweep = StubSweep(tmp_path)
    assert why_not_run(sweep, folder(sweep, "baseline"), 3, tmp_path) is None  # type: ignore[arg-type]


def test_adaptive_mode_stops_a_settled_arm_and_not_an_open_one(
    tmp_path: Path, engaged: dict[str, str]
) -> None:
    sweep = StubSweep(tmp_path, mode="adaptive", max_blocks=8)
    for block in (1, 2, 3, 4):
        baselines(sweep, tmp_path, block)
        launched(sweep, tmp_path, "radix-off", block, 40.0 + block % 2)
        launched(sweep, tmp_path, "policy-lpm", block, 100.0 + 9 * (block % 2))
    assert "LOSS" in (why_not_run(sweep, folder(sweep, "radix-off"), 5, tmp_path) or "")  # type: ignore[arg-type]
    assert why_not_run(sweep, folder(sweep, "policy-lpm"), 5, tmp_path) is None  # type: ignore[arg-type]
    assert why_not_run(sweep, folder(sweep, "baseline"), 5, tmp_path) is None  # type: ignore[arg-type]

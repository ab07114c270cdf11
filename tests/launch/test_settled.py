"""Dead ends and changes that never engage stop after the confirming launch."""

from typing import Any

from sglang_sweep.launch.settled import settled


def launch(block: int, outcome: str, cause: str | None = None) -> dict[str, Any]:
    return {"block": block, "outcome": outcome, "cause": cause}


def never() -> str | None:
    raise AssertionError("engagement need not be asked")


def test_one_failure_must_be_confirmed() -> None:
    assert settled([launch(1, "failed", "bad_flag")], never) is None


def test_two_failures_with_one_cause_are_a_dead_end() -> None:
    reason = settled([launch(1, "failed", "bad_flag"), launch(2, "failed", "bad_flag")], never)
    assert reason == "dead end confirmed: bad_flag in blocks 1 and 2"


def test_two_failures_with_different_causes_are_not() -> None:
    assert settled([launch(1, "failed", "crashed"), launch(2, "failed", "collective_hang")], never) is None


def test_an_arm_that_also_completed_goes_on() -> None:
    earlier = [launch(1, "failed", "crashed"), launch(2, "completed"), launch(3, "failed", "crashed")]
    assert settled(earlier, never) is None


def test_a_change_that_did_not_engage_twice_stops() -> None:
    earlier = [launch(1, "completed"), launch(2, "completed")]
    assert "not engaged in blocks 1 and 2" in (settled(earlier, lambda: "not_engaged") or "")
    assert settled(earlier, lambda: "unproven") is None
    assert settled(earlier[:1], never) is None

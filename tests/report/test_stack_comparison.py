"""Two stacks compared finding by finding."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sglang_sweep.report.stack_comparison import compare_stacks, comparison_markdown, welch_ratio


def row(name: str, verdict: str, values: tuple[float, ...] = (), **more: Any) -> dict[str, Any]:
    launches = [
        {"block": i, "file": f"b{i}", "outcome": "completed", "value": value, "removed": None}
        for i, value in enumerate(values)
    ]
    held = {"stack": "x", "sglang_version": "0.5.16", "host_class": "c"}
    base = {"cause": None, "ratio": None, "evidence": [], "holds_for": held}
    return {"name": name, "verdict": verdict, "launches": launches, **base, **more}


def verdicts(*rows: dict[str, Any], metric: str = "output_throughput") -> dict[str, Any]:
    primary = {"workload": "chat", "metric": metric}
    return {"design": {"smallest_effect": 0.02, "primary": primary}, "variants": list(rows)}


def status(a: dict[str, Any] | None, b: dict[str, Any] | None, metric: str = "output_throughput") -> str:
    both = (verdicts(*([side] if side else []), metric=metric) for side in (a, b))
    (only,) = compare_stacks(*both)
    return str(only["status"])


FAST, SLOW, NOISY = (110.0, 110.5, 109.7, 110.2), (100.0, 100.4, 99.8, 100.1), (90.0, 120.0, 100.0)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (row("v", "DEAD_END"), row("v", "WIN", FAST), "unblocked"),
        (row("v", "NO_OP"), row("v", "NO_OP"), "still dead"),
        (row("v", "LOSS", SLOW), row("v", "DEAD_END"), "newly broken"),
        (row("v", "WIN", SLOW), row("v", "WIN", FAST), "faster"),
        (row("v", "WIN", FAST), row("v", "LOSS", SLOW), "slower"),
        (row("v", "NO_DIFFERENCE", SLOW), row("v", "NO_DIFFERENCE", SLOW), "same"),
        (row("v", "INCONCLUSIVE", NOISY), row("v", "INCONCLUSIVE", FAST), "undecided"),
        (row("v", "WIN", FAST[:1]), row("v", "WIN", SLOW), "undecided"),
        (row("v", "WIN", FAST), None, "untested"),
        (None, row("v", "WIN", FAST), "untested"),
        (row("v", "WIN", FAST), row("v", "PLANNED"), "untested"),
        (row("v", "DEAD_END"), row("v", "CONFOUNDED", FAST), "untested"),
    ],
)
def test_each_pair_of_findings_has_one_word(
    before: dict[str, Any] | None, after: dict[str, Any] | None, expected: str
) -> None:
    assert status(before, after) == expected


def test_lower_latency_is_faster() -> None:
    assert status(row("v", "WIN", FAST), row("v", "WIN", SLOW), metric="mean_tpot_ms") == "faster"


def test_removed_and_failed_launches_do_not_count() -> None:
    bad = row("v", "WIN", FAST)
    bad["launches"].append({"block": 9, "file": None, "outcome": "failed", "value": None, "removed": None})
    bad["launches"].append(
        {"block": 8, "file": "x", "outcome": "completed", "value": 1.0, "removed": "throttled"}
    )
    assert status(row("v", "WIN", FAST), bad) == "same"


def test_other_primary_metrics_are_not_compared_as_numbers() -> None:
    a, b = verdicts(row("v", "WIN", SLOW)), verdicts(row("v", "WIN", FAST), metric="mean_ttft_ms")
    (only,) = compare_stacks(a, b)
    assert only["status"] == "undecided" and only["ratio"] is None


@pytest.mark.filterwarnings("ignore:Precision loss")  # nearly identical values: the interval is a point
@given(
    st.lists(st.floats(50, 150), min_size=2, max_size=6),
    st.lists(st.floats(50, 150), min_size=2, max_size=6),
)
def test_the_interval_holds_the_ratio_and_turning_the_question_inverts_it(
    a: list[float], b: list[float]
) -> None:
    ratio, interval = welch_ratio(a, b)
    inverse, _ = welch_ratio(b, a)
    assert ratio is not None and inverse is not None and interval is not None
    assert interval[0] <= ratio * (1 + 1e-9) and ratio <= interval[1] * (1 + 1e-9)
    assert math.isclose(ratio * inverse, 1)


def test_markdown_shows_the_evidence_of_both_and_the_caution() -> None:
    evidence = [{"file": "results/a/server.log", "line": 7, "text": "requires SM90 | SM10X"}]
    a = verdicts(row("fusion", "DEAD_END", cause="unsupported_hardware", evidence=evidence))
    b = verdicts(row("fusion", "WIN", FAST, ratio=1.05))
    text = comparison_markdown(compare_stacks(a, b), "cu128", "cu130")
    assert "compares stacks, not CUDA versions" in text
    line = text.splitlines()[-1]
    assert "unblocked" in line and "server.log:7" in line and "1.050 of its baseline, 4 launches" in line
    assert "SM90 \\| SM10X" in line  # a pipe in a log line breaks no table

"""Each verdict is explained in a sentence an engineer can act on."""

from __future__ import annotations

from typing import Any

import pytest
from sglang_sweep.report import words
from sglang_sweep.report.palette import VERDICT
from sglang_sweep.verdict.decision import Verdict
from sglang_sweep.verdict.outcomes import elsewhere


def find(verdicts: dict[str, Any], name: str) -> dict[str, Any]:
    return next(v for v in verdicts["variants"] if v["name"] == name)


def test_every_verdict_of_the_design_has_an_order_a_phrase_a_glyph_and_a_shape() -> None:
    known = {str(verdict) for verdict in Verdict}
    for table in (words.ORDER, words.PHRASES, words.GLYPHS, VERDICT):
        assert set(table) == known


def test_colour_is_never_the_only_sign_of_a_verdict() -> None:
    assert len({marker for _, marker in VERDICT.values()}) == len(VERDICT)
    assert len(set(words.GLYPHS.values())) == len(words.GLYPHS)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "graph-bs-128",
            "Better by 9.12 %, at least 8.10 % at 95 % confidence (output throughput 82.0 → 89.5 tok/s).",
        ),
        (
            "eagle3",
            "Worse by 39.6 %, at least 38.9 % at 95 % confidence (output throughput 82.0 → 49.5 tok/s).",
        ),
        ("nccl-4-channels", "Shown equal to the baseline within ±2 %; not worth more GPU time."),
        ("baseline-prime", "The baseline again, shown equal to itself within ±2 %."),
        ("nccl-tree-unscoped", "Cannot run on this host and stack: collective error."),
        (
            "mem-fraction-090",
            "Not believed: cuda_graph_max_bs differs too; pin or declare it, then measure again.",
        ),
        ("mscclpp", "Not measured yet."),
    ],
)
def test_the_meaning_names_what_decided(verdicts: dict[str, Any], name: str, sentence: str) -> None:
    assert words.meaning(find(verdicts, name), 0.02) == sentence


def with_other_workload(variant: dict[str, Any], ratio: float) -> dict[str, Any]:
    row = words.primary_metric(variant)
    other = {
        **row,
        "workload": "load",
        "primary": False,
        "ratio": ratio,
        "ci95": [ratio * 0.99, ratio * 1.01],
    }
    rows = [*variant["metrics"], other]
    return variant | {"metrics": rows, "elsewhere": elsewhere(rows, ("chat", "output_throughput"), 0.02)}


@pytest.mark.parametrize(
    ("name", "ratio", "said"),
    [
        ("nccl-4-channels", 0.14, "on chat, but −86.0 % [−86.1, −85.9] % on load."),
        (
            "nccl-4-channels",
            1.015,
            "not worth more GPU time.",
        ),  # its interval is not beyond the smallest effect
        ("graph-bs-128", 0.5, "; on chat, but −50.0 % [−50.5, −49.5] % on load."),
        ("graph-bs-128", 2.0, "(output throughput 82.0 → 89.5 tok/s)."),  # the same way: nothing to add
        ("ep8", 0.5, "; −50.0 % [−50.5, −49.5] % on load."),
    ],
)
def test_a_workload_that_contradicts_the_verdict_is_named_with_it(
    verdicts: dict[str, Any], name: str, ratio: float, said: str
) -> None:
    assert words.meaning(with_other_workload(find(verdicts, name), ratio), 0.02).endswith(said)


def test_numbers_that_are_not_believed_contradict_nothing(verdicts: dict[str, Any]) -> None:
    for verdict in set(words.ORDER) - words.BELIEVED:
        idle = with_other_workload(find(verdicts, "nccl-4-channels"), 0.14) | {"verdict": verdict}
        assert words.elsewhere_words(idle, 0.02) == ""


def test_an_undecided_variant_says_how_many_blocks_would_settle_it(verdicts: dict[str, Any]) -> None:
    assert "about 14 more blocks would settle it" in words.meaning(find(verdicts, "ep8"), 0.02)


def test_an_unconfirmed_failure_is_not_called_noise(verdicts: dict[str, Any]) -> None:
    ep8 = find(verdicts, "ep8") | {"ratio": None, "more_blocks": 1, "reasons": ["failed with crashed"]}
    assert words.meaning(ep8) == "Failed with crashed; about 1 more block would settle it."


def test_a_predicted_dead_end_is_not_said_to_have_been_tried(verdicts: dict[str, Any]) -> None:
    predicted = find(verdicts, "nccl-tree-unscoped") | {"outcome": None, "launches": []}
    assert "not tried" in words.meaning(predicted)


def test_an_implied_difference_is_not_called_undeclared(verdicts: dict[str, Any]) -> None:
    assert words.undeclared(find(verdicts, "eagle3")) == []


def test_wins_are_read_first_and_plans_last(verdicts: dict[str, Any]) -> None:
    order = [v["name"] for v in words.reading_order(verdicts["variants"])]
    assert order[:2] == ["graph-bs-128", "eagle3"]
    assert order.index("nccl-4-channels") < order.index("baseline-prime")
    assert {order[-1], order[-2]} == {"mscclpp", "pcie-ipc-allreduce"}


def test_a_verdict_from_a_later_version_is_shown_not_lost(verdicts: dict[str, Any]) -> None:
    later = find(verdicts, "ep8") | {"verdict": "POSTPONED"}
    assert "POSTPONED" in words.meaning(later)
    assert words.reading_order([later, find(verdicts, "mscclpp")])[-1] is later


def test_metrics_are_named_in_words_with_their_unit() -> None:
    assert words.label_of("p99_ttft_ms") == "p99 TTFT"
    assert words.label_of("mean_e2e_latency_ms") == "mean E2E latency"
    assert (words.unit_of("output_throughput"), words.unit_of("median_tpot_ms")) == ("tok/s", "ms")

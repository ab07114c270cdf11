"""Each verdict, change and load is said in words that an engineer can act on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sglang_sweep.report import words
from sglang_sweep.report.document import plain, spans
from sglang_sweep.report.record import Arm, Elsewhere, Load, Prediction, Variant
from sglang_sweep.verdict.decision import Verdict

Find = Callable[[str], Variant]
THROUGHPUT = "output_throughput"


def test_every_verdict_of_the_design_has_words_a_sign_and_a_shape() -> None:
    assert {str(verdict) for verdict in Verdict} == set(words.ORDER)


def test_a_latency_that_falls_is_negative_and_better() -> None:
    change = words.change_of("mean_tpot_ms", 1.7365, (1.518, 1.986))
    assert change.text() == "−42.4 % ↗ better (−49.6 to −34.1 %)"
    assert words.change_of("mean_ttft_ms", 0.5, (0.4, 0.6)).text() == "+100 % ↘ worse (+66.7 to +150 %)"


def test_a_throughput_that_rises_is_positive_and_better() -> None:
    assert words.change_of(THROUGHPUT, 1.121, (1.102, 1.141)).text() == "+12.1 % ↗ better (+10.2 to +14.1 %)"


def test_an_interval_that_holds_no_change_is_called_neither() -> None:
    assert words.change_of(THROUGHPUT, 0.981, (0.956, 1.006)).text() == "−1.9 % (−4.4 to +0.6 %)"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("custom-all-reduce", "Better, at least 10.2 % at 95 % confidence."),
        ("graphs-off", "Worse, at least 89.1 % at 95 % confidence."),
        ("graphs-8", "Equal to the baseline within ±3 %; but −86.1 % at load sixteen."),
        ("baseline-prime", "The baseline again, equal to itself within ±3 %."),
        ("nccl-ll128", "Not measured yet."),
    ],
)
def test_the_reason_names_what_decided(variant: Find, name: str, sentence: str) -> None:
    assert plain(words.reason(variant(name), 0.03, THROUGHPUT)) == sentence


def test_a_dead_end_quotes_its_line_and_says_the_specific_remedy(variant: Find) -> None:
    known = Prediction(variant="nccl-tree-unscoped", remedy="scope it: NCCL_ALGO=allreduce:tree")
    said = words.reason(variant("nccl-tree-unscoped"), 0.03, THROUGHPUT, known)
    assert "NCCL error: invalid usage" in plain(said)
    assert plain(said).endswith("Remedy: scope it: NCCL_ALGO=allreduce:tree.")
    assert [(s.line, s.file[-10:]) for s in spans(said) if s.file] == [(82, "server.log")]


def test_a_no_op_quotes_what_the_server_said(variant: Find) -> None:
    said = plain(words.reason(variant("torch-symm-mem"), 0.03, THROUGHPUT))
    assert said.startswith(
        "Ran, but the change was never active: TorchSymmMemCommunicator: torch symmetric memory"
    )


def test_a_predicted_dead_end_is_not_said_to_have_been_tried(variant: Find) -> None:
    predicted = variant("nccl-tree-unscoped").model_copy(update={"outcome": "not_run", "evidence": []})
    assert "not tried" in plain(words.reason(predicted, 0.03, THROUGHPUT))


def test_an_undecided_variant_says_how_many_blocks_would_settle_it(variant: Find) -> None:
    assert "a new campaign of about 8 blocks would settle it" in plain(
        words.reason(variant("nccl-tree"), 0.03, THROUGHPUT)
    )


def test_a_verdict_that_another_load_contradicts_never_has_a_good_colour(variant: Find) -> None:
    assert words.chip_class(variant("graphs-8")) == "mixed"
    assert words.chip_class(variant("custom-all-reduce")) == "win"


def test_an_objective_that_is_worse_at_the_same_load_contradicts_too(variant: Find) -> None:
    slow = Elsewhere(workload="one", metric="mean_ttft_ms", kind="worse", ratio=0.5, ci95=(0.45, 0.55))
    worse = variant("custom-all-reduce").model_copy(update={"elsewhere": [slow]})
    assert words.chip_class(worse) == "mixed"
    assert words.said_elsewhere(worse) == "+100 % mean TTFT at load one"


def test_numbers_that_are_not_believed_contradict_nothing(variant: Find) -> None:
    for verdict in words.ORDER:
        if not words.kind_of(verdict).believed:
            assert not words.contradictions(variant("graphs-8").model_copy(update={"verdict": verdict}))


def test_a_forced_accept_length_is_a_control_and_no_green_win(variant: Find) -> None:
    control = variant("eagle3-accept-3")
    assert (control.verdict, control.is_control, words.chip_class(control)) == ("WIN", True, "control")


def test_a_verdict_from_a_later_version_is_shown_last_and_not_lost(variant: Find) -> None:
    later = variant("nccl-tree").model_copy(update={"verdict": "POSTPONED", "reasons": ["put off"]})
    assert plain(words.reason(later, 0.03, THROUGHPUT)) == "Put off."
    assert words.reading_order([later, variant("nccl-ll128")])[-1] is later


@pytest.mark.parametrize(
    ("load", "said"),
    [
        (
            Load(name="a", concurrency=16, input_tokens=128, output_tokens=64),
            "16 requests at once, 128 tokens in, 64 out, random ids",
        ),
        (
            Load(
                name="b", request_rate=2.5, concurrency=8, dataset="custom", path="p.jsonl", output_tokens=9
            ),
            "2.5 requests a second, at most 8 requests at once, 9 out, custom p.jsonl",
        ),
    ],
)
def test_a_load_is_said_in_words(load: Load, said: str) -> None:
    assert words.load_words(load) == said


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        ({"flags": {"enable-torch-symm-mem": True}}, ["+ --enable-torch-symm-mem"]),
        ({"flags": {"disable-radix-cache": None}}, ["- --disable-radix-cache"]),
        ({"flags": {"cuda-graph-bs": [1, 2, 4]}}, ["+ --cuda-graph-bs 1 2 4"]),
        ({"flags": {"page-size": 16}}, ["- --page-size 1", "+ --page-size 16"]),
        ({"env": {"NCCL_PROTO": None}}, ["- NCCL_PROTO=LL"]),
        ({"env": {"A": "two words"}}, ["+ A='two words'"]),
        (
            {"stack": "cu128", "patch": "allow PCIe"},
            ["- stack: cu130", "+ stack: cu128", "+ source patch: allow PCIe"],
        ),
        ({"flags": {"draft": {"model": "d"}}}, ["+ --draft d"]),
        ({"flags": {"json": {"b": 1, "a": 2}}}, ["""+ --json '{"a": 2, "b": 1}'"""]),
        ({}, []),
    ],
)
def test_a_change_is_shown_as_the_lines_it_adds_and_removes(change: dict[str, Any], lines: list[str]) -> None:
    baseline = Arm(flags={"page-size": 1}, env={"NCCL_PROTO": "LL"}, stack="cu130")
    assert words.change_lines(change, baseline) == lines


def test_a_command_can_be_pasted_into_a_shell() -> None:
    said = words.command(
        "m", {"tp-size": 2, "disable-cuda-graph": True, "x": None, "y": "a b"}, {"NCCL_ALGO": "Ring"}
    )
    assert said == (
        "NCCL_ALGO=Ring python -m sglang.launch_server \\\n  --model-path m \\\n  --tp-size 2 \\\n"
        "  --disable-cuda-graph \\\n  --y 'a b'"
    )

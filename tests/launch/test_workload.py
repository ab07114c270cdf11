"""What the load client is told, and what its line is turned into."""

from pathlib import Path

import pytest
from sglang_sweep.campaign.model import Workload
from sglang_sweep.launch.workload import benchmark_arguments, objectives

GROUPS = Workload(
    name="w", dataset="generated-shared-prefix", concurrency=4, groups=2, prompts_per_group=4, prefix_tokens=16,
    input_tokens=8, output_tokens=8,
)  # fmt: skip
RANDOM = Workload(name="w", dataset="random-ids", concurrency=2, prompts=6, input_tokens=16, output_tokens=8)


def told(workload: Workload, requests: int | None = None) -> dict[str, str]:
    words = benchmark_arguments(
        workload, url="http://x", model="m", seed=3, output=Path("o"), requests=requests
    )
    flags = [word for word in words if word.startswith("--")]
    return {flag: words[words.index(flag) + 1] if words[-1] != flag else "" for flag in flags}


def test_every_window_is_without_the_clients_own_warm_up_and_with_its_own_seed() -> None:
    words = told(RANDOM)
    assert (words["--warmup-requests"], words["--seed"], words["--max-concurrency"]) == ("0", "3", "2")


def test_lengths_of_random_prompts_are_exact() -> None:
    words = told(RANDOM)
    assert (words["--random-input-len"], words["--random-range-ratio"], words["--num-prompts"]) == (
        "16",
        "1.0",
        "6",
    )


@pytest.mark.parametrize(
    ("requests", "per_group", "prompts"), [(None, "4", "8"), (8, "4", "8"), (3, "2", "4")]
)
def test_a_shortened_pass_still_has_every_group(requests: int | None, per_group: str, prompts: str) -> None:
    words = told(GROUPS, requests)
    assert (words["--gsp-prompts-per-group"], words["--num-prompts"]) == (per_group, prompts)


def test_a_custom_dataset_is_named_with_its_file() -> None:
    words = told(
        Workload(name="w", dataset="custom", concurrency=1, prompts=2, path="p.jsonl", output_tokens=7)
    )
    assert (words["--dataset-path"], words["--sharegpt-output-len"]) == ("p.jsonl", "7")


def test_further_flags_of_the_campaign_win() -> None:
    assert (
        told(
            Workload(
                name="w", dataset="random-ids", concurrency=2, prompts=1, bench_flags={"max-concurrency": 9}
            )
        )["--max-concurrency"]
        == "9"
    )


def details(**changes: object) -> dict[str, object]:
    two = {
        "ttfts": [0.1, 0.4],
        "itls": [[0.01] * 4, [0.01] * 4],
        "output_lens": [5, 5],
        "errors": ["", ""],
        "duration": 2,
    }
    return {**two, **changes}


@pytest.mark.parametrize(
    ("slo", "expected"),
    [
        ({"ttft_ms": 200}, 0.5),
        ({"ttft_ms": 500, "tpot_ms": 10.01}, 1.0),
        ({"tpot_ms": 9}, 0.0),
        ({"e2e_ms": 200}, 0.5),
        ({}, None),
    ],
)
def test_goodput_counts_requests_that_meet_every_objective(
    slo: dict[str, float], expected: float | None
) -> None:
    assert objectives(details(), slo)["goodput"] == expected


def test_a_failed_request_is_never_good() -> None:
    got = objectives(details(errors=["", "timeout"]), {"e2e_ms": 9999})
    assert got == {"goodput": 0.5, "attainment": 0.5, "slo_margin": 0.0}


@pytest.mark.parametrize(
    ("slo", "margin"),
    [
        ({"ttft_ms": {"p50": 200}}, 2.0),
        ({"ttft_ms": 200}, 0.5),
        ({"ttft_ms": {"p50": 200, "p99": 300}}, 0.75),
        ({"ttft_ms": {"p99": 800}, "e2e_ms": {"p99": 440}}, 1.0),
    ],
)
def test_objectives_are_met_where_the_margin_is_one_and_above(slo: dict[str, object], margin: float) -> None:
    assert objectives(details(), slo)["slo_margin"] == pytest.approx(margin)


def test_messages_go_through_the_chat_endpoint_and_turns_are_told() -> None:
    agent = Workload(
        name="w", dataset="agentic-trace", concurrency=2, prompts=2, path="t.json", output_tokens=6, turns=3
    )
    words = told(agent)
    assert (words["--backend"], words["--agentic-max-turns"], words["--dataset-path"]) == (
        "sglang-oai-chat",
        "3",
        "t.json",
    )
    assert told(GROUPS)["--backend"] == "sglang"
    talk = told(GROUPS.model_copy(update={"turns": 2}))
    assert (talk["--backend"], talk["--gsp-num-turns"]) == ("sglang-oai-chat", "2")

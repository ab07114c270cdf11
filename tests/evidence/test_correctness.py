import math
from typing import Any

import pytest
from sglang_sweep.evidence.correctness import judge, token_counts


def launch(*answers: list[int], logprobs: float = -0.5, text: str = "fine", **extra: Any) -> dict[str, Any]:
    return {
        "probe": [
            {
                "prompt": f"p{index}",
                "text": text,
                "output_ids": ids,
                "logprobs": [logprobs] * len(ids),
                "prompt_tokens": 5,
                "completion_tokens": len(ids),
                **extra,
            }
            for index, ids in enumerate(answers)
        ]
    }


A = list(range(24))
B = list(range(100, 124))
BASE = [launch(A, B), launch(A, B)]


def flipped(ids: list[int], at: int) -> list[int]:
    return ids[:at] + [9000 + i for i in range(len(ids) - at)]


def test_the_same_tokens_are_right() -> None:
    assert judge([launch(A, B)], BASE, "exact").ok is True


def test_exact_means_exact_unless_the_tokens_were_tied() -> None:
    tie = judge([launch(flipped(A, 20), B)], BASE, "exact")
    assert tie.ok is True and "ties" in tie.notes[0]
    parted = judge([launch(flipped(A, 20), B, logprobs=-2.0)], BASE, "exact")
    assert parted.ok is False and "tolerance: numeric" in (parted.reason or "")


def test_numeric_allows_a_late_divergence_and_refuses_garbage() -> None:
    assert judge([launch(flipped(A, 12), B, logprobs=-0.6)], BASE, "numeric").ok is True
    garbage = judge([launch(flipped(A, 0), flipped(B, 1))], BASE, "numeric")
    assert garbage.ok is False and "agree" in (garbage.reason or "")


def test_log_probabilities_far_from_the_baselines_are_wrong_though_the_tokens_agree() -> None:
    found = judge([launch(A, B, logprobs=-3.0)], BASE, "numeric")
    assert found.ok is False and found.logprob_distance == pytest.approx(2.5)


def test_exact_cannot_demand_more_than_the_baseline_keeps_with_itself() -> None:
    base = [launch(A, B), launch(flipped(A, 18), B)]
    found = judge([launch(flipped(A, 10), B, logprobs=-0.6)], base, "exact")
    assert found.ok is True and "exact is too much" in found.notes[0]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (launch([], []), "empty"),
        (launch([7] * 24, B), "repeating"),
        (launch(A, B, text="\x00\x01\ufffd\ufffd"), "unprintable"),
        (launch(A, B, logprobs=math.nan), "not-a-number"),
    ],
)
def test_degenerate_output_is_wrong(answer: dict[str, Any], said: str) -> None:
    found = judge([answer], BASE, "numeric")
    assert found.ok is False and said in (found.reason or "")


def test_output_as_degenerate_as_the_baselines_is_not_held_against_the_variant() -> None:
    same = launch([7] * 24, B)
    assert judge([same], [same], "exact").ok is True


def test_dummy_weights_make_text_incomparable_unless_equal() -> None:
    assert judge([launch(A, B)], BASE, "exact", dummy_weights=True).ok is True
    assert judge([launch(flipped(A, 2), B)], BASE, "exact", dummy_weights=True).ok is None


def test_simulated_acceptance_is_not_compared() -> None:
    assert judge([launch(flipped(A, 0), B)], BASE, "numeric", simulated=True).ok is None


def test_another_tokenizer_is_found_by_its_counts() -> None:
    found = judge([launch(A, B, prompt_tokens=25)], BASE, "numeric")
    assert found.ok is False and "tokens here" in (found.reason or "")
    client = judge([launch(A, B, tokenizer_prompt_tokens=25)], [launch(A, B)], "numeric")
    assert client.ok is False and "tokenizer" in (client.reason or "")


def test_a_server_that_counts_otherwise_than_it_sends_is_wrong() -> None:
    assert judge([launch(A, B, completion_tokens=30)], BASE, "numeric").ok is False


def test_nothing_to_compare_is_no_judgement() -> None:
    assert judge([], BASE, "exact").ok is None
    assert judge([launch(A)], [], "exact").ok is None


def window(sent: int, made: int, again: int | None = None) -> dict[str, Any]:
    return {
        "metrics": {
            "total_input_tokens": sent,
            "total_output_tokens": made,
            "total_output_tokens_retokenized": again,
        }
    }


def test_client_and_server_must_count_the_same_tokens() -> None:
    windows = [window(1000, 500), window(1000, 500)]
    assert token_counts(windows, {"prompt": 2010.0, "generation": 1001.0})["problems"] == []
    assert token_counts(windows, {"prompt": 2010.0, "generation": 300.0})["problems"]
    assert token_counts(windows, {"prompt": 17000.0, "generation": 1000.0})["problems"]
    assert token_counts(windows, None)["problems"] == []


def test_retokenised_text_of_dummy_weights_is_only_noted() -> None:
    counts = token_counts([window(1024, 512, 129)], None)
    assert counts["retokenized_share"] == pytest.approx(0.252, abs=0.001)
    assert counts["problems"] == []

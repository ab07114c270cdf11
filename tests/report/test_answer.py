"""A report opens with the answer, and never with one it does not have."""

from __future__ import annotations

from typing import Any

from sglang_sweep.report.answer import answer, fastest


def only(verdicts: dict[str, Any], *kept: str) -> dict[str, Any]:
    verdicts["variants"] = [v for v in verdicts["variants"] if v["verdict"] in kept]
    return verdicts


def test_the_fastest_variant_opens_the_report_with_its_interval_and_values(verdicts: dict[str, Any]) -> None:
    assert answer(verdicts)[0] == (
        "Fastest: graph-bs-128, +9.12 % [+8.10, +10.1] % (output throughput 82.0 → 89.5 tok/s, 9 blocks)."
    )


def test_every_other_verdict_is_counted_and_the_noise_arm_is_not(verdicts: dict[str, Any]) -> None:
    rest = answer(verdicts)[1]
    assert "1 loss (eagle3 −39.6 %)" in rest
    assert "2 dead ends (ep8-flashinfer-a2a, nccl-tree-unscoped)" in rest
    assert "1 shown to make no difference (nccl-4-channels)" in rest


def test_a_second_win_is_counted_as_one_more(verdicts: dict[str, Any]) -> None:
    second = {**next(v for v in verdicts["variants"] if v["verdict"] == "WIN"), "name": "half", "ratio": 1.04}
    verdicts["variants"].append(second)
    assert answer(verdicts)[0].startswith("Fastest: graph-bs-128")
    assert "1 more win (half +4.00 %)" in answer(verdicts)[1]


def test_a_simulated_accept_length_is_a_control_and_never_the_answer(verdicts: dict[str, Any]) -> None:
    win = next(v for v in verdicts["variants"] if v["verdict"] == "WIN")
    loss = next(v for v in verdicts["variants"] if v["verdict"] == "LOSS")
    control = {**win, "name": "accept-3", "ratio": 1.64, "speculation": "simulated"}
    verdicts["variants"] = [control, loss]
    lead, rest = answer(verdicts)
    assert lead == "No variant is shown to be faster than the baseline."
    assert rest.endswith(
        "Controls with a simulated accept length, which price speculation: accept-3 +64.0 %."
    )
    assert fastest(verdicts) is None
    verdicts["variants"].append({**win, "speculation": None})
    assert answer(verdicts)[0].startswith("Fastest: graph-bs-128")
    assert fastest(verdicts)["name"] == "graph-bs-128"  # type: ignore[index]


def test_without_a_win_nothing_is_called_fastest(verdicts: dict[str, Any]) -> None:
    assert answer(only(verdicts, "LOSS", "DEAD_END"))[0] == (
        "No variant is shown to be faster than the baseline."
    )
    assert fastest(verdicts) is None


def test_a_campaign_of_dead_ends_says_that_nothing_could_be_measured(verdicts: dict[str, Any]) -> None:
    assert answer(only(verdicts, "DEAD_END"))[0] == "No variant could be measured against the baseline."


def test_a_campaign_not_started_says_so(verdicts: dict[str, Any]) -> None:
    assert answer(only(verdicts, "PLANNED"))[0] == "Nothing is measured yet."


def test_a_void_session_answers_nothing(verdicts: dict[str, Any]) -> None:
    verdicts["session"] |= {"void": True, "reasons": ["A' against A differs with p = 0.002"]}
    lead, rest = answer(verdicts)
    assert lead.startswith("Void session: A' against A differs with p = 0.002.")
    assert "1 win (graph-bs-128 +9.12 %)" in rest
    assert fastest(verdicts) is None


def test_a_campaign_without_variants_has_an_answer(verdicts: dict[str, Any]) -> None:
    verdicts["variants"] = []
    assert answer(verdicts) == ("Nothing is measured yet.", "")

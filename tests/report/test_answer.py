"""A report opens with what to run, and never with an answer that it does not have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sglang_sweep.report.answer import Campaign, answer_of

Change = Callable[..., Campaign]


def test_a_reader_of_the_first_screen_can_act(published: Campaign) -> None:
    """What do I run, what do I gain, at what load, how sure, what does it cost me elsewhere, what did it cost?"""
    answer = answer_of(published)
    assert answer.headline.startswith("Run custom-all-reduce: output throughput +12.1 % ↗ better")
    assert "at load one (1 at once)" in answer.headline
    assert answer.command.startswith("python -m sglang.launch_server")
    assert "--tp-size 2" in answer.command
    assert "disable-custom-all-reduce" not in answer.command
    assert {row.workload for row in answer.gains} == {"one", "sixteen"}
    assert "at least 10.2 % with 95 % confidence" in answer.sure
    assert "seen active" in answer.sure
    assert answer.given_up.startswith(
        "Nothing measured is shown to be worse. Not excluded: +47.5 % in mean TTFT"
    )
    assert "Trouble in up to 53% of launches may be unseen." in answer.sure
    assert "One launch varies by 0.8 %" in answer.noise
    assert answer.cost.startswith("34 launches, ")
    assert "2 GPUs" in answer.cost


def test_what_became_of_the_others_is_counted_and_named(published: Campaign) -> None:
    assert answer_of(published).rest == (
        "The others: 1 loss (graphs-off); 1 shown to make no difference (graphs-8); 1 still inconclusive (nccl-tree);"
        " 1 no-op (torch-symm-mem); 1 dead end (nccl-tree-unscoped); 5 not measured yet."
    )


def test_model_stack_gpus_and_date_are_said(published: Campaign) -> None:
    assert published.identity == [
        "llama-8b-shape",
        "SGLang 0.5.16, CUDA 13.0, Python 3.12",
        "2x NVIDIA H200",
        "30 November 2026",
    ]


def test_a_forced_accept_length_is_never_the_answer(change: Change) -> None:
    answer = answer_of(change(custom_all_reduce=None))
    assert answer.headline == "Keep the baseline: no variant is shown to be faster."
    assert answer.run == "baseline"
    assert "--disable-custom-all-reduce" in answer.command
    assert answer.sure.startswith("A gain above +0.6 % is ruled out")


def test_a_win_that_loses_elsewhere_is_not_told_before_one_that_does_not(
    published: Campaign, change: Change
) -> None:
    two = change(graphs_8={"verdict": "WIN", "ratio": 1.5})
    assert answer_of(two).run == "custom-all-reduce"


def test_a_void_session_answers_nothing(published: Campaign) -> None:
    session = published.verdicts.session.model_copy(
        update={"void": True, "reasons": ["A' against A differs"]}
    )
    void = replace(published, verdicts=published.verdicts.model_copy(update={"session": session}))
    answer = answer_of(void)
    assert answer.headline == "No answer: the session is void (A' against A differs)."
    assert (answer.won, answer.sure) == (False, "Nothing is claimed.")


def test_a_campaign_not_started_says_so(published: Campaign) -> None:
    empty = replace(published, verdicts=published.verdicts.model_copy(update={"variants": []}), launches=[])
    answer = answer_of(empty)
    assert answer.headline == "No answer yet: nothing was measured against the baseline."
    assert answer.cost == "Not known: the launches are not here."


def test_what_is_worse_is_given_up_by_name(published: Campaign, change: Change) -> None:
    win = next(v for v in published.candidates if v.name == "custom-all-reduce")
    slow = [
        row.model_copy(update={"ratio": 0.9, "ci95": (0.88, 0.92)}) if row.metric == "p99_ttft_ms" else row
        for row in win.metrics
    ]
    given = answer_of(change(custom_all_reduce={"metrics": slow})).given_up
    assert given.startswith("Worse: p99 TTFT at load one +11.1 % ↘ worse")

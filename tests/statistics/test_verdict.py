"""Each row of the verdict table in docs/statistics.md, and the order of precedence between them."""

import json
from pathlib import Path

import pytest
from sglang_sweep.errors import UserError
from sglang_sweep.statistics.design import Design
from sglang_sweep.verdict.decision import VERDICTS, VariantFacts, Verdict, decide
from sglang_sweep.verdict.records import Verdicts

ROOT = Path(__file__).parents[2]
DESIGN = Design(smallest_effect=0.02)
MEASURED = {
    "launches": 6,
    "completed": 6,
    "engagement": "engaged",
    "blocks": 6,
    "log_ratio": 0.05,
    "p_holm": 0.001,
    "p_exact": 0.003,
    "exact_reachable": True,
    "equivalence_p": 0.9,
}


@pytest.mark.parametrize(
    ("expected", "facts"),
    [
        ("WIN", {}),
        ("LOSS", {"log_ratio": -0.05}),
        ("NO_DIFFERENCE", {"log_ratio": 0.001, "p_holm": 0.8, "equivalence_p": 0.01}),
        ("NO_DIFFERENCE", {"log_ratio": 0.012, "equivalence_p": 0.02}),  # real, but too small to matter
        ("INCONCLUSIVE", {"log_ratio": 0.012}),
        ("INCONCLUSIVE", {"p_holm": 0.2}),
        ("INCONCLUSIVE", {"p_exact": 0.06}),
        ("WIN", {"p_exact": 0.07, "exact_reachable": False}),
        ("INCONCLUSIVE", {"blocks": 2}),
        ("INCONCLUSIVE", {"session_void": ("A' differs",)}),
        ("INCONCLUSIVE", {"is_prime": True}),  # the baseline against itself cannot win
        ("NO_DIFFERENCE", {"is_prime": True, "equivalence_p": 0.01}),
        ("PLANNED", {"launches": 0, "completed": 0}),
        ("DEAD_END", {"launches": 0, "completed": 0, "predicted_impossible": "needs SM90"}),
        ("DEAD_END", {"completed": 0, "failures": 2, "same_cause_failures": 2, "cause": "bad_flag"}),
        ("UNSTABLE", {"completed": 2, "failures": 2, "same_cause_failures": 2, "cause": "crashed"}),
        ("UNSTABLE", {"completed": 5, "failures": 1, "same_cause_failures": 1, "cause": "launch_timeout"}),
        (
            "UNSTABLE",
            {
                "completed": 0,
                "failures": 2,
                "same_cause_failures": 2,
                "cause": "crashed",
                "failed_serving": True,
            },
        ),
        ("UNSTABLE", {"misbehaves": ("fails requests in 3 of 6 launches",)}),
        ("UNSTABLE", {"misbehaves": ("retracts",), "log_ratio": 0.0, "p_holm": 1.0, "equivalence_p": 0.01}),
        ("LOSS", {"misbehaves": ("retracts requests",), "log_ratio": -0.05}),
        ("INCONCLUSIVE", {"doubts": ("1 of 10 launches is slow",)}),
        ("INCONCLUSIVE", {"doubts": ("slow",), "log_ratio": 0.0, "p_holm": 1.0, "equivalence_p": 0.01}),
        ("LOSS", {"doubts": ("slow",), "log_ratio": -0.05}),
        ("WIN", {"notes": ("starts cold",)}),
        ("INCONCLUSIVE", {"launches": 1, "completed": 0, "failures": 1, "same_cause_failures": 1}),
        ("INCONCLUSIVE", {"launches": 2, "completed": 0, "failures": 2, "same_cause_failures": 1}),
        (  # what the baseline suffers too is not the change's
            "INCONCLUSIVE",
            {
                "completed": 0,
                "failures": 6,
                "same_cause_failures": 6,
                "cause": "crashed",
                "baseline_causes": frozenset({"crashed"}),
            },
        ),
        ("NO_OP", {"engagement": "not_engaged"}),
        ("INCONCLUSIVE", {"engagement": "not_engaged", "completed": 1}),
        ("CONFOUNDED", {"confounds": ("mem_fraction_static",)}),
        ("WRONG_OUTPUT", {"wrong_output": "garbage"}),
        ("STALE", {"blocks": 0, "log_ratio": None, "stale_pairs": 6}),
        ("INCONCLUSIVE", {"blocks": 0, "log_ratio": None, "removed": ("throttling",)}),
    ],
)
def test_facts_give_the_verdict_of_the_table(expected, facts):
    assert decide(VariantFacts(**{**MEASURED, **facts}), DESIGN).verdict == expected


def test_what_is_wrong_is_said_before_how_fast_it_was():
    layers = [
        ("DEAD_END", {"completed": 0, "failures": 6, "same_cause_failures": 6, "cause": "crashed"}),
        ("WRONG_OUTPUT", {"wrong_output": "garbage"}),
        ("NO_OP", {"engagement": "not_engaged"}),
        ("CONFOUNDED", {"confounds": ("dtype",)}),
        ("UNSTABLE", {"failures": 1, "cause": "crashed"}),
        ("UNSTABLE", {"misbehaves": ("fails requests",)}),
        ("INCONCLUSIVE", {"session_void": ("A' differs",)}),
        ("WIN", {}),
    ]
    for first in range(len(layers)):
        facts = {}
        for _, more in reversed(layers[first:]):
            facts |= more
        assert decide(VariantFacts(**{**MEASURED, **facts}), DESIGN).verdict == layers[first][0]


def test_the_table_has_every_verdict_with_signs_of_its_own():
    assert set(VERDICTS) == set(Verdict)
    signs = [(about.glyph, about.marker) for about in VERDICTS.values()]
    assert len({glyph for glyph, _ in signs}) == len({marker for _, marker in signs}) == len(Verdict)
    documented = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
    assert [v for v in Verdict if f"`{v}`" not in documented] == []
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [v for v, about in VERDICTS.items() if f"| `{v}` | {about.meaning} |" not in readme] == []


def test_what_speaks_against_the_mean_is_said_beside_a_loss_too():
    facts = VariantFacts(**{**MEASURED, "log_ratio": -0.05, "doubts": ("slow",), "notes": ("cold",)})
    assert decide(facts, DESIGN).reasons == ("slow", "cold")


def test_every_verdict_but_a_plain_one_says_why():
    for facts in (
        {"p_holm": 0.5},
        {"session_void": ("A' differs",)},
        {"blocks": 2, "removed": ("throttling",)},
    ):
        decision = decide(VariantFacts(**{**MEASURED, **facts}), DESIGN)
        assert decision.verdict is Verdict.INCONCLUSIVE
        assert decision.reasons


def test_equivalence_of_a_change_not_proven_active_says_so():
    facts = VariantFacts(
        **{**MEASURED, "log_ratio": 0.0, "p_holm": 1.0, "equivalence_p": 0.01, "engagement": "unproven"}
    )
    decision = decide(facts, DESIGN)
    assert decision.verdict is Verdict.NO_DIFFERENCE
    assert "not proven" in decision.reasons[0]


def test_the_margin_is_symmetric_in_ratios():
    assert DESIGN.margin == pytest.approx(0.019802627296179712, abs=1e-15)  # ln 1.02


def test_published_verdicts_of_the_first_form_are_still_read():
    example = (
        Path(__file__).parents[2]
        / "reports"
        / "examples"
        / "h200-x2"
        / "results"
        / "h200-x2"
        / "verdicts.json"
    )
    today = json.loads(example.read_text(encoding="utf-8"))
    rows = [{k: v for k, v in row.items() if k not in NEW} for row in today["variants"]]
    session = {k: v for k, v in today["session"].items() if k != "noise"}
    first = {k: v for k, v in today.items() if k != "schema_version"} | {"variants": rows, "session": session}
    record = Verdicts.of(first, example)
    told = {
        row.name: {(e.workload, e.metric) for e in row.elsewhere if e.kind == "worse"}
        for row in record.variants
    }
    assert ("sixteen", "output_throughput") in told["graphs-8"]
    with pytest.raises(UserError, match="version 99"):
        Verdicts.of(today | {"schema_version": 99}, example)


NEW = {"elsewhere", "outcomes", "spread", "ci_holm", "fresh_blocks"}

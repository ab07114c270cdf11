"""verdicts.json has one model, which the statistics and the report agree on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from constructed import DATA
from pydantic import ValidationError
from sglang_sweep.verdict.analysis import analyse
from sglang_sweep.verdict.decision import Verdict
from sglang_sweep.verdict.records import Verdicts


def test_the_constructed_verdicts_are_valid_and_labelled(
    verdicts: dict[str, Any],
) -> None:
    stored = json.loads((DATA / "verdicts.json").read_text(encoding="utf-8"))
    Verdicts.of(stored, DATA)
    assert stored == verdicts, "run python tests/report/constructed.py"
    assert "not measured" in stored["generated_from"][0]


def test_they_hold_every_verdict_of_the_design(verdicts: dict[str, Any]) -> None:
    assert {v["verdict"] for v in verdicts["variants"]} == {str(verdict) for verdict in Verdict}


def test_what_the_statistics_write_fits_the_schema(
    verdicts: dict[str, Any], launches: list[dict[str, Any]]
) -> None:
    numbers = analyse(launches, {}, verdicts["design"], variants=["graph-bs-128", "never-launched"])
    declared = {key: verdicts["variants"][0][key] for key in NOT_STATISTICS}
    verdicts["session"] = numbers["session"]
    verdicts["variants"] = [declared | row for row in numbers["variants"]]
    record = Verdicts.of(verdicts, DATA)
    assert Verdicts.of(json.loads(record.model_dump_json()), DATA) == record


NOT_STATISTICS = (
    "key",
    "engagement",
    "confounds",
    "correctness",
    "evidence",
    "change",
    "hypothesis",
    "reopen_when",
    "holds_for",
    "remedies",
)


@pytest.mark.parametrize(
    ("key", "value"), [("verdict", "MAYBE"), ("ratio", -1), ("ci95", [1.0]), ("surprise", 1), ("blocks", -1)]
)
def test_a_wrong_variant_is_refused(verdicts: dict[str, Any], key: str, value: Any) -> None:
    verdicts["variants"][0][key] = value
    with pytest.raises(ValidationError):
        Verdicts.model_validate(verdicts)

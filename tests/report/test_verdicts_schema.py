"""verdicts.json has one schema, which the statistics and the report agree on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from constructed import DATA
from sglang_sweep.verdict.analysis import analyse
from sglang_sweep.verdict.decision import Verdict

SCHEMA = yaml.safe_load(
    (Path(__file__).parents[2] / "config" / "schemas" / "verdicts.schema.yaml").read_text(encoding="utf-8")
)


@pytest.fixture(scope="session")
def validator() -> jsonschema.Draft202012Validator:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return jsonschema.Draft202012Validator(SCHEMA)


def test_the_constructed_verdicts_are_valid_and_labelled(
    validator: jsonschema.Draft202012Validator, verdicts: dict[str, Any]
) -> None:
    stored = json.loads((DATA / "verdicts.json").read_text(encoding="utf-8"))
    validator.validate(stored)
    assert stored == verdicts, "run python tests/report/constructed.py"
    assert "not measured" in stored["generated_from"][0]


def test_they_hold_every_verdict_of_the_design(verdicts: dict[str, Any]) -> None:
    assert {v["verdict"] for v in verdicts["variants"]} == {str(verdict) for verdict in Verdict}


def test_what_the_statistics_write_fits_the_schema(
    validator: jsonschema.Draft202012Validator, verdicts: dict[str, Any], launches: list[dict[str, Any]]
) -> None:
    numbers = analyse(launches, {}, verdicts["design"], variants=["graph-bs-128", "never-launched"])
    declared = {key: verdicts["variants"][0][key] for key in NOT_STATISTICS}
    verdicts["session"] = numbers["session"]
    verdicts["variants"] = [declared | row for row in numbers["variants"]]
    validator.validate(json.loads(json.dumps(verdicts)))


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
def test_a_wrong_variant_is_refused(
    validator: jsonschema.Draft202012Validator, verdicts: dict[str, Any], key: str, value: Any
) -> None:
    verdicts["variants"][0][key] = value
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(verdicts)

"""The tiny campaign with the real SGLang server, once through the whole chain."""

import json
from pathlib import Path

import pytest
from clone import Clone
from sglang_sweep.files import yaml_files
from sglang_sweep.files.launches import LaunchRecord
from sglang_sweep.launch.asking import NEW_TOKENS
from sglang_sweep.launch.server import listeners
from sglang_sweep.verdict.records import Verdicts

pytestmark = [pytest.mark.workflow, pytest.mark.sglang]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Clone:
    """Measured with the user's own store, so that a stack that is there already is used."""
    clone = Clone.fresh(tmp_path_factory.mktemp("served") / "project")
    kept = clone.campaign_text()
    clone.edit(
        kept[kept.index("  - name: slipped") : kept.index("  - name: tp2")], ""
    )  # only the stand-in slips
    clone.site(campaigns=["tiny"])
    clone.snakemake("--cores", "all", timeout=3600)
    return clone


def test_every_kind_of_verdict_is_reached_on_a_real_server(served: Clone) -> None:
    verdicts = served.verdicts()
    Verdicts.of(verdicts, Path("verdicts.json"))
    rows = {row["name"]: row for row in verdicts["variants"]}
    assert rows["tp2"]["verdict"] == "DEAD_END"
    assert rows["tp2"]["cause"] == "invalid_configuration"
    shown = [line for line in rows["tp2"]["evidence"] if "AssertionError" in line["text"]]
    assert shown
    log = (served.folder / shown[0]["file"]).read_text(errors="replace").splitlines()
    assert shown[0]["text"][:60] in log[shown[0]["line"] - 1]
    assert rows["mscclpp"]["verdict"] == "NO_OP"
    assert rows["mscclpp"]["engagement"]["state"] == "not_engaged"
    assert rows["baseline-prime"]["verdict"] in ("INCONCLUSIVE", "NO_DIFFERENCE")
    assert rows["baseline-prime"]["correctness"]["ok"]


def test_the_records_hold_what_was_launched_and_measured(served: Clone) -> None:
    records = served.records()
    assert len(records) == 8
    for place, record in records.items():
        LaunchRecord.of(record, Path(str(place)))
        completed = place[0] != "tp2"
        assert record["outcome"] == ("completed" if completed else "failed"), place
        if completed:
            assert [window["metrics"]["completed"] for window in record["windows"]] == [4, 4]
            assert all(len(answer["output_ids"]) == NEW_TOKENS for answer in record["probe"])
            assert [window["retracted_requests"] for window in record["windows"]] == [0, 0]
    environment = json.loads((served.folder / "results" / "environment.json").read_text())
    yaml_files.check(environment, "environment", "environment.json")


def test_the_baselines_profile_says_where_a_decode_step_goes(served: Clone) -> None:
    (path,) = (served.folder / "results" / "profiles").glob("baseline-*/profile.json")
    profile = json.loads(path.read_text())
    assert profile["profile"]["outcome"] == "completed"
    assert profile["breakdown"]["decode"]["steps"]
    assert "profiles.svg" in (served.folder / "reports" / "tiny" / "findings.md").read_text()


def test_nothing_of_ours_is_left_running_or_listening(served: Clone) -> None:
    assert served.ours() == []
    for record in served.records().values():
        assert listeners(int(record["command"][record["command"].index("--port") + 1])) == set()


def test_a_second_run_does_nothing(served: Clone) -> None:
    assert "Nothing to be done" in served.snakemake("--cores", "all")


def test_both_documents_are_there(served: Clone) -> None:
    for name in ("findings.md", "index.html"):
        text = Path(served.folder / "reports" / "tiny" / name).read_text()
        assert all(word in text for word in ("DEAD_END", "NO_OP", "mscclpp", "tp2"))

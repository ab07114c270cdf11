"""The gate for CI: what is shown fails, what is ruled out passes, what neither is has a status of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from sglang_sweep.__main__ import main
from sglang_sweep.errors import UserError
from sglang_sweep.report.answer import Campaign
from sglang_sweep.report.check import check, conditions, junit, status_of

Change = Callable[..., Campaign]


def states(campaign: Campaign, fail_on: str) -> dict[str, str]:
    return {f.variant: f.state for f in check(campaign, conditions(fail_on)) if not f.objective}


def test_by_default_losses_and_what_does_not_run_fail(published: Campaign) -> None:
    assert states(published, "loss, dead_end") == {
        "custom-all-reduce": "pass",
        "graphs-off": "fail",
        "graphs-8": "pass",
        "nccl-tree": "inconclusive",
        "torch-symm-mem": "pass",
        "nccl-tree-unscoped": "fail",
    }


def test_a_loss_beyond_a_limit_must_be_shown_or_ruled_out(published: Campaign) -> None:
    """nccl-tree: −4.4 to +0.6 %."""
    assert [states(published, f"loss > {n}%")["nccl-tree"] for n in (3, 5)] == ["inconclusive", "pass"]
    assert states(published, "loss > 95%")["graphs-off"] == "pass"


def test_an_objective_that_is_worse_elsewhere_fails_too(published: Campaign) -> None:
    found = [f for f in check(published, conditions("loss > 3%")) if f.variant == "graphs-8"]
    assert found[0].state == "pass"
    assert {f.objective for f in found[1:] if f.state == "fail"} >= {"output_throughput at sixteen"}


def test_controls_and_what_is_only_planned_are_not_judged(published: Campaign) -> None:
    assert not {"eagle3-accept-1", "baseline-prime", "nccl-ll128"} & set(states(published, "loss"))


def test_the_worst_finding_is_the_status(published: Campaign, change: Change) -> None:
    gone = dict.fromkeys(("graphs_off", "graphs_8", "nccl_tree_unscoped"))
    assert status_of(check(published, conditions("loss"))) == "fail"
    assert status_of(check(change(**gone), conditions("loss"))) == "inconclusive"
    assert status_of(check(change(**gone, nccl_tree=None), conditions("loss"))) == "pass"


def test_a_condition_that_is_not_understood_is_named() -> None:
    with pytest.raises(UserError, match="slower"):
        conditions("slower > 3%")


def test_the_command_writes_lines_junit_and_json_and_ends_with_the_status(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(example)
    files = [f"--junit={tmp_path / 'j.xml'}", f"--json={tmp_path / 'j.json'}", f"--against={example}"]
    assert main(["check", "h200-x2", *files]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("fail         graphs-off LOSS: −90.7 %") for line in lines)
    assert lines[-1] == "h200-x2: fail"
    suite = ET.parse(tmp_path / "j.xml").getroot()
    assert suite.get("tests") == str(len(suite.findall("testcase")))
    assert suite.find("testcase[@name='graphs-off']/failure") is not None
    told = json.loads((tmp_path / "j.json").read_text())
    assert told["status"] == "fail"
    assert {f["objective"] for f in told["findings"]} >= {"", "against"}


def test_a_campaign_without_a_report_says_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["check", "mine"]) == 2
    assert "snakemake --cores all reports/mine/findings.md" in capsys.readouterr().err


def test_hostile_names_are_text_in_junit(change: Change) -> None:
    text = junit("c", check(change(graphs_8={"name": '<x a="1">'}), conditions("loss")))
    assert any(case.get("name", "").startswith('<x a="1">') for case in ET.fromstring(text))

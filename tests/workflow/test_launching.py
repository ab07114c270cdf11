"""Launches made through snakemake on the stand-in stack: one at a time, in the plan's order, nothing left over."""

import json
import os
import signal
import subprocess
import time
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from clone import Clone
from sglang_sweep.files.launches import LaunchRecord
from sglang_sweep.launch.server import listeners
from sglang_sweep.verdict.records import Verdicts

pytestmark = pytest.mark.workflow

DESIGN = {"windows": 1, "primary": {"workload": "short", "metric": "output_throughput"}}
BASELINE = {"flags": {"device": "cpu"}}
TP2 = {
    "name": "tp2",
    "hypothesis": "Cannot start.",
    "change": {"flags": {"tp-size": 2}, "env": {"SGLANG_CPU_OMP_THREADS_BIND": "all"}},
}
LPM = {"name": "lpm", "hypothesis": "Nothing.", "change": {"flags": {"schedule-policy": "lpm"}}}


def small(clone: Clone, store: Path, variants: list[dict[str, Any]], **design: Any) -> None:
    """Makes ``small`` the clone's only campaign."""
    clone.campaign("small", baseline=BASELINE, variants=variants, design={**DESIGN, **design})
    clone.site(campaigns=["small"], store=str(store))


def in_order_of_time(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda record: (record["started_at"], record["block"], record["position"]))


def assert_one_at_a_time(records: list[dict[str, Any]]) -> None:
    ordered = in_order_of_time(records)
    for earlier, later in pairwise(ordered):
        assert datetime.fromisoformat(earlier["finished_at"]) <= datetime.fromisoformat(later["started_at"])


def assert_in_the_plans_order(records: list[dict[str, Any]]) -> None:
    places = [(record["block"], record["position"]) for record in in_order_of_time(records)]
    assert places == sorted(places)


def assert_nothing_is_left(clone: Clone, records: list[dict[str, Any]]) -> None:
    assert clone.ours() == []
    for record in records:
        command = record.get("command")
        assert not command or listeners(int(command[command.index("--port") + 1])) == set()


def test_launches_never_overlap_and_follow_the_plan(measured_once: Clone) -> None:
    records = list(measured_once.records().values())
    assert len(records) == 10
    assert_one_at_a_time(records)
    assert_in_the_plans_order(records)
    assert_nothing_is_left(measured_once, records)


def test_every_record_is_as_its_model_says(measured_once: Clone) -> None:
    for place, record in measured_once.records().items():
        LaunchRecord.of(record, Path(str(place)))
        assert "hush" not in json.dumps(record)
    Verdicts.of(measured_once.verdicts(), Path("verdicts.json"))


def test_every_kind_of_verdict_is_reached(measured_once: Clone) -> None:
    rows = {row["name"]: row for row in measured_once.verdicts()["variants"]}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        "baseline-prime": "INCONCLUSIVE",
        "mscclpp": "NO_OP",
        "slipped": "CONFOUNDED",
        "tp2": "DEAD_END",
    }
    assert rows["tp2"]["cause"] == "invalid_configuration"
    assert any("AssertionError" in line["text"] for line in rows["tp2"]["evidence"])
    assert "max_prefill_tokens" in {row["setting"] for row in rows["slipped"]["confounds"]}


def test_the_cost_is_told_before_and_the_verdicts_after(measured_once: Clone) -> None:
    text = (measured_once.folder / "output.txt").read_text()
    assert "tiny: 10 launches, about" in text
    assert text.index("tiny: 10 launches") < text.index("launch of ") < text.rindex("DEAD_END")
    assert "reports/tiny/findings.md" in text


@pytest.mark.parametrize("how", ["kill", "ctrl-c"])
def test_an_interrupted_run_is_taken_up_where_it_was(project: Clone, store: Path, how: str) -> None:
    small(project, store, [LPM], blocks=1)
    only = ("--cores", "all", "--until", "launch")
    launches = project.folder / "results" / "launches"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = project.start(*only, env={**os.environ, "FAKE_START_S": "4"}, **quiet)
    until(lambda: len(list(launches.glob("*/block-1/attempt-1/server.log"))) == 2)
    if how == "kill":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGINT)
    process.wait(60)
    until(lambda: project.ours() == [])
    assert len(project.records("small")) == 1
    if how == "kill":
        project.snakemake("--unlock")
    project.snakemake(*only)
    records = in_order_of_time(list(project.records("small").values()))
    assert [record["position"] for record in records] == [0, 1, 2]
    attempts = [Path(record["files"]["server_log"]).parts[0] for record in records]
    assert attempts == ["attempt-1", "attempt-2", "attempt-1"]
    assert_nothing_is_left(project, records)


def until(true: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.1)


def test_two_workflows_on_one_host_wait_for_each_other_whatever_resources_they_were_given(
    project: Clone, store: Path, tmp_path: Path
) -> None:
    small(project, store, [], blocks=1)
    other = project.again(tmp_path / "other")
    running = [
        clone.start("--cores", "all", "--until", "launch", "--resources", "other=1")
        for clone in (project, other)
    ]
    for process in running:
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
    records = [*project.records("small").values(), *other.records("small").values()]
    assert len(records) == 4
    assert_one_at_a_time(records)


def test_a_confirmed_dead_end_is_not_launched_again_and_ends_an_adaptive_campaign(
    project: Clone, store: Path
) -> None:
    small(project, store, [TP2], mode="adaptive", max_blocks=3)
    project.snakemake("--cores", "all", "results/small/verdicts.json")
    outcomes = {place: record["outcome"] for place, record in project.records("small").items()}
    assert {place: outcome for place, outcome in outcomes.items() if outcome == "not_run"} == {
        (arm, 3): "not_run" for arm in ("baseline", "baseline-prime", "tp2")
    }
    assert [outcomes["tp2", block] for block in (1, 2)] == ["failed", "failed"]
    for place, record in project.records("small").items():
        LaunchRecord.of(record, Path(str(place)))
    rows = {row["name"]: row["verdict"] for row in project.verdicts("small")["variants"]}
    assert rows["tp2"] == "DEAD_END"

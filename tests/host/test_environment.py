"""``snakemake environment``: recording the host, and the report that is printed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from recorded_hosts import NAMES
from sglang_sweep.campaign.model import Change, Variant
from sglang_sweep.gate.gate import gate
from sglang_sweep.gate.gate_table import WIDTH, as_text, render
from sglang_sweep.gate.survey import environment_report, record_environment

Host = Callable[[str], dict[str, Any]]
STACKS = {"cu130": {"cuda": "13.0", "built": None}, "cpu": {"cuda": None, "built": None}}
VARIANTS = [
    Variant("baseline", None, "", Change(), {"tp-size": 8}, {}, "cu130", "m"),
    Variant(
        "pcie-ipc",
        None,
        "",
        Change(),
        {"tp-size": 8},
        {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"},
        "cu130",
        "m",
    ),
    Variant("forced", None, "", Change(patch="a gate"), {"tp-size": 8}, {}, "cu130", "m"),
    Variant("small", None, "", Change(), {"device": "cpu"}, {}, "cpu", "m"),
]


def test_a_host_without_gpus_is_told_what_it_can_run_and_one_reason_why_not(host: Host) -> None:
    text, fine = environment_report(host("no-gpu"), gate(host("no-gpu"), STACKS, VARIANTS), VARIANTS)
    assert not fine
    assert "vm: no GPUs; 2 threads of AMD EPYC" in text
    assert "small: can run here" in text
    assert "baseline, pcie-ipc: cannot run here: GPUs for the stack" in text
    assert "forced: planned only" in text
    assert text.count("Refused, for 1 reason") == 1 and "Traceback" not in text
    assert "stops: baseline, pcie-ipc" in text


def test_what_was_not_asked_to_run_does_not_fail_the_command(host: Host) -> None:
    text, fine = environment_report(
        host("no-gpu"), gate(host("no-gpu"), STACKS, VARIANTS), VARIANTS, requested={"small"}
    )
    assert fine and "Refused" not in text


def test_every_host_gets_a_report_that_fits_the_terminal(host: Host) -> None:
    for name in NAMES:
        table = as_text(render(gate(host(name), STACKS, VARIANTS)))
        assert max(map(len, table.splitlines())) <= WIDTH


def test_recording_writes_a_file_that_reads_back_and_reports_drift(tmp_path: Path) -> None:
    path = tmp_path / "results" / "environment.json"
    first = record_environment(path)
    assert first["drift"] == []
    written = json.loads(path.read_text())
    assert "drift" not in written and written["class_digest"] == first["class_digest"]
    written["cpu"]["model"] = "Another Processor"
    path.write_text(json.dumps(written))
    second = record_environment(path, previous=path)
    assert any(line.startswith("CPU Another Processor -> ") for line in second["drift"])
    assert [entry.name for entry in path.parent.iterdir()] == ["environment.json"]


def test_the_fingerprint_of_another_host_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "environment.json"
    elsewhere = record_environment(path) | {"class_digest": "0123456789ab"}
    path.write_text(json.dumps(elsewhere))
    record_environment(path, previous=path)
    assert json.loads((tmp_path / "environment-0123456789ab.json").read_text()) == elsewhere


def test_an_unreadable_earlier_fingerprint_is_said_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "environment.json"
    path.write_text("{ half")
    assert "cannot be read" in record_environment(path, previous=path)["drift"][0]
    path.write_text('{"schema_version": 0}')
    assert "another form" in record_environment(path, previous=path)["drift"][0]
    assert json.loads(path.read_text())["schema_version"] == 1

import shutil
from pathlib import Path
from typing import Any

import pytest
from launch_records import answer, write
from sglang_sweep.evidence.arm import assess_arm, default_tolerance, first_cause
from sglang_sweep.evidence.engagement import DeclaredChange

from .conftest import folder_of

ANSWERS = [[52855, 496] * 12, [10, 11, 12] * 8]


def launched(
    folder: Path, case: str, outcome: str = "completed", answers: list[list[int]] | None = None, **extra: Any
) -> Path:
    """A launch.json as the launch step writes it, around a recording."""
    attempt = folder / "attempt-1"
    attempt.mkdir(parents=True)
    files: dict[str, str | None] = {}
    for name, file in (
        ("server_log", "server.log.gz"),
        ("server_info_after", "server_info_after.json"),
        ("metrics_after", "metrics.txt.gz"),
    ):
        source = folder_of(case) / file
        files[name] = f"attempt-1/{file}" if source.exists() else None
        if source.exists():
            shutil.copy(source, attempt / file)
    probe = [
        answer(prompt=f"p{index}", output_ids=ids, logprobs=[-0.5] * len(ids), completion_tokens=len(ids))
        for index, ids in enumerate(answers or ANSWERS)
    ]
    changed = {
        "outcome": outcome,
        "stack": {"name": "gpu", "sglang_version": "0.5.16"},
        "command": ["python", "-m", "sglang.launch_server", "--tp-size", "2"],
        **extra,
    }
    return write(folder / "launch.json", variant=case, files=files, probe=probe, **changed)


def variant(change: dict[str, Any], **extra: Any) -> dict[str, Any]:
    flags = change.get("flags", {})
    declared = {"name": "v", "key": "abc", "parent": "baseline", "change": change, "flags": flags, "env": {}}
    return {**declared, "sglang_version": "0.5.16", "proof": [], "tolerance": None, "declares": [], **extra}


def test_a_silent_no_op_is_completed_and_not_engaged(tmp_path: Path) -> None:
    ours = [launched(tmp_path / "v", "torch-symm-mem")]
    theirs = [launched(tmp_path / "b", "custom-allreduce")]
    found = assess_arm(variant({"flags": {"enable-torch-symm-mem": True}}), ours, theirs)
    assert (found["outcome"], found["cause"]) == ("completed", None)
    assert found["engagement"]["state"] == "not_engaged"
    assert found["correctness"]["ok"] is True
    shown = found["engagement"]["features"][0]["evidence"][0]
    assert set(shown) == {"file", "line", "text"} and shown["line"] == 186


def test_a_slipped_in_setting_is_a_confound_with_its_pin(tmp_path: Path) -> None:
    ours = [launched(tmp_path / "v", "torch-symm-mem")]
    theirs = [launched(tmp_path / "b", "custom-allreduce")]
    found = assess_arm(variant({"flags": {"enable-torch-symm-mem": True}}), ours, theirs)
    assert found["confounded"] is True
    row = found["confounds"][0]
    assert row["setting"] == "cuda_graph_config.prefill.backend" and row["moves_performance"] and row["pin"]


def test_a_clean_change_is_engaged_and_unconfounded(tmp_path: Path) -> None:
    ours = [launched(tmp_path / "v", "nccl-tree", environment={"NCCL_ALGO": "allreduce:tree"})]
    theirs = [launched(tmp_path / "b", "nccl")]
    found = assess_arm(variant({"env": {"NCCL_ALGO": "allreduce:tree"}}), ours, theirs)
    assert found["engagement"]["state"] == "engaged"
    assert found["confounded"] is False and found["confounds"] == []


def test_proof_may_come_from_a_profile_launch(tmp_path: Path) -> None:
    ours = [launched(tmp_path / "v", "custom-allreduce")]
    recorded = launched(tmp_path / "p", "nccl-tree", profile={}, breakdown={})
    profile = recorded.rename(tmp_path / "p" / "profile.json")
    theirs = [launched(tmp_path / "b", "nccl")]
    found = assess_arm(variant({"env": {"NCCL_ALGO": "allreduce:tree"}}), ours, theirs, profile)
    part = found["engagement"]["features"][0]
    assert part["state"] == "engaged" and part["source"] == "profile launch"


def test_failed_launches_give_cause_line_and_remedy(tmp_path: Path) -> None:
    reason = "RuntimeError: NCCL error: invalid usage"
    ours = [
        launched(tmp_path / f"v{n}", "nccl-tree-unscoped", "failed", cause="collective_error", reason=reason)
        for n in range(2)
    ]
    found = assess_arm(variant({"env": {"NCCL_ALGO": "Tree"}}), ours, [launched(tmp_path / "b", "nccl")])
    assert (found["outcome"], found["cause"]) == ("failed", "collective_error")
    assert any("AllGather" in line["text"] for line in found["evidence"])
    assert "allreduce:tree" in found["remedies"][0]
    assert found["correctness"]["ok"] is None


def test_a_launch_never_made_is_not_run(tmp_path: Path) -> None:
    found = assess_arm(variant({"flags": {"tp-size": 4}}), [tmp_path / "absent.json"], [])
    assert found["outcome"] == "not_run" and found["engagement"]["state"] == "unproven"


def test_garbage_is_wrong_output(tmp_path: Path) -> None:
    garbage = [[7] * 24, [8] * 24]
    ours = [launched(tmp_path / "v", "nccl-tree", answers=garbage)]
    theirs = [launched(tmp_path / "b", "nccl")]
    found = assess_arm(variant({"env": {"NCCL_ALGO": "allreduce:tree"}}), ours, theirs)
    assert found["correctness"]["ok"] is False and found["correctness"]["state"] == "wrong"


def test_what_the_whole_change_implies_is_not_confounding(tmp_path: Path) -> None:
    speculation = {"speculative-algorithm": "EAGLE3", "speculative-num-steps": 3}
    declared = variant({"flags": speculation, "env": {"SGLANG_SIMULATE_ACC_LEN": "1"}}, parent="eagle3")
    ours = [launched(tmp_path / "v", "eagle3-random-draft")]
    found = assess_arm(declared, ours, [launched(tmp_path / "b", "custom-allreduce")])
    implied = {row["setting"]: row["implied_by"] for row in found["confounds"]}
    assert implied["max_running_requests"] == "spec-max-running"


def test_the_baseline_has_nothing_to_prove(tmp_path: Path) -> None:
    ours = [launched(tmp_path / "b", "nccl")]
    found = assess_arm(variant({}, parent=None), ours, ours)
    assert found["engagement"]["state"] == "engaged" and not found["confounded"]


@pytest.mark.parametrize(
    ("change", "tolerance"),
    [
        (DeclaredChange(env={"NCCL_ALGO": "allreduce:tree"}), "exact"),
        (DeclaredChange(flags={"disable-custom-all-reduce": True}), "exact"),
        (DeclaredChange(flags={"schedule-policy": "lpm"}), "exact"),
        (DeclaredChange(flags={"speculative-algorithm": "EAGLE3"}), "numeric"),
        (DeclaredChange(flags={"kv-cache-dtype": "fp8_e4m3", "schedule-policy": "lpm"}), "numeric"),
        (DeclaredChange(stack="cu128"), "numeric"),
    ],
)
def test_communication_and_scheduling_must_answer_exactly_alike(
    change: DeclaredChange, tolerance: str
) -> None:
    assert default_tolerance(change) == tolerance


def test_the_launch_step_gets_a_cause_for_any_log(tmp_path: Path) -> None:
    cause, reason, evidence = first_cause(folder_of("port-in-use") / "server.log.gz", "0.5.16", None)
    assert cause == "port_in_use" and reason and evidence[0]["line"] == 30

from pathlib import Path

import pytest
from sglang_sweep.campaign.flags import flag_problems, recorded_table
from sglang_sweep.campaign.model import load_campaign
from sglang_sweep.evidence.knowledge import load
from sglang_sweep.gate.limits import predict

FOLDER = Path(__file__).parents[2] / "config" / "campaigns"
HOST = {
    "platform": "cuda",
    "compute_capability": "12.0",
    "compute_major": 12,
    "gpu_count": 8,
    "nvlink": False,
}
PINNED = ("mem-fraction-static", "max-running-requests", "max-total-tokens", "chunked-prefill-size")


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER.parents[1])


def predicted(name: str, version: str) -> dict[str, list[str]]:
    campaign = load_campaign(name, FOLDER)
    return {
        variant.name: [
            prediction.verdict
            for prediction in predict(
                {"flags": variant.flags, "env": variant.env, "change": variant.change.as_dict()},
                version,
                HOST,
            )
        ]
        for variant in campaign.variants
    }


def test_the_dead_ends_that_were_found_by_hand_are_predicted() -> None:
    found = predicted("rtx-pro-6000-x8", "0.5.23")
    assert found["fusion"][0] == found["nccl-tree-unscoped"][0] == found["ep-flashinfer-a2a"][0] == "DEAD_END"
    assert found["torch-symm-mem"][0] == "NO_OP"
    assert found["nccl-tree"] == found["pcie-ipc"] == found["graphs-128"] == found["eagle3-3-1-4"] == []


def test_the_older_stack_has_its_own_dead_ends() -> None:
    found = predicted("rtx-pro-6000-x8-cu128", "0.5.9")
    assert found["fusion"][0] == "DEAD_END"
    assert "pcie-ipc" not in found


def test_custom_all_reduce_is_a_patch_and_stays_planned() -> None:
    variant = load_campaign("rtx-pro-6000-x8", FOLDER).variant("custom-all-reduce")
    assert variant.planned_only and "Both gates" in (variant.change.patch or "")


@pytest.mark.parametrize("name", ["rtx-pro-6000-x8", "rtx-pro-6000-x8-cu128"])
def test_what_speculation_and_graph_sizes_would_move_is_pinned_in_every_variant(name: str) -> None:
    campaign = load_campaign(name, FOLDER)
    for variant in campaign.variants:
        for flag in PINNED:
            assert variant.flags[flag] == campaign.baseline.flags[flag], (variant.name, flag)


def test_every_flag_exists_in_the_sglang_it_is_meant_for() -> None:
    campaign = load_campaign("rtx-pro-6000-x8", FOLDER)
    table = recorded_table("0.5.23")
    for variant in campaign.all_variants:
        if variant.stack == campaign.baseline.stack:
            assert flag_problems(variant.flags, table, campaign.file, variant.name) == []


def test_every_named_proof_is_a_known_feature() -> None:
    for name in ("rtx-pro-6000-x8", "rtx-pro-6000-x8-cu128"):
        for variant in load_campaign(name, FOLDER).variants:
            assert set(variant.proof) <= set(load().features)

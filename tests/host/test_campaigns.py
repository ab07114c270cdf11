"""The shipped campaigns against recorded and constructed hosts: who may run where, and why not."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from recorded_hosts import HOSTS
from sglang_sweep.campaign.model import load_campaign
from sglang_sweep.gate.gate import fatal, gate
from sglang_sweep.host.fingerprint import validate
from sglang_sweep.plan.sweep import ENVS
from sglang_sweep.stacks.stack import load_stack

Host = Callable[[str], dict[str, Any]]


def refusals(host: dict[str, Any], campaign: str) -> list[str]:
    declared = load_campaign(campaign)
    stacks = {name: {**load_stack(ENVS, name).declared, "built": None} for name in declared.stacks}
    return [finding.id for finding in fatal(gate(host, stacks, declared.all_variants))]


@pytest.mark.parametrize(
    ("campaign", "where"),
    [
        ("h200-x2", "h200-x2"),
        ("h200-x8", "h200-x8"),
        ("rtx-pro-6000-x8", "rtx-pro-6000-x8"),
        ("cpu-demo", "no-gpu"),
    ],
)
def test_a_campaign_may_run_on_the_host_it_is_meant_for(host: Host, campaign: str, where: str) -> None:
    assert refusals(host(where), campaign) == []


@pytest.mark.parametrize(
    ("campaign", "where"),
    [
        ("h200-x8", "h200-x2"),
        ("h200-x2", "no-gpu"),
        ("rtx-pro-6000-x8", "no-gpu"),
        ("h200-x2", "broken-driver"),
    ],
)
def test_a_campaign_is_refused_where_it_cannot_run(host: Host, campaign: str, where: str) -> None:
    assert refusals(host(where), campaign)


def test_the_environment_written_on_the_gpu_host_is_valid_and_lets_its_campaign_run() -> None:
    written = json.loads((HOSTS.parent / "environments" / "h200-x2.json").read_text())
    validate(written)
    assert [gpu["name"] for gpu in written["gpus"]] == ["NVIDIA H200"] * 2
    assert refusals(written, "h200-x2") == []

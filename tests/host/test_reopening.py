"""Dead ends on another stack or host, with the limits of config/knowledge/limits.yaml."""

from collections.abc import Callable
from typing import Any

import pytest
from sglang_sweep.gate.reopening import Place, reopened

Host = Callable[[str], dict[str, Any]]


def dead(
    verdict: str = "DEAD_END", cause: str | None = None, version: str = "0.5.23", **change: Any
) -> dict[str, Any]:
    held = {"stack": "cu130", "sglang_version": version, "host_class": "old"}
    return {"name": "v", "verdict": verdict, "cause": cause, "change": change, "holds_for": held}


def verdicts(*rows: dict[str, Any]) -> dict[str, Any]:
    return {"baseline": {"name": "baseline", "flags": {"tp-size": 8}, "env": {}}, "variants": list(rows)}


@pytest.fixture
def place(host: Host) -> Callable[..., Place]:
    def make(name: str, version: str = "0.5.23", host_class: str = "old") -> Place:
        return Place("cu130", version, {**host(name), "class_digest": host_class})

    return make


FUSION = {"flags": {"flashinfer-allreduce-fusion-backend": "trtllm"}}


def test_a_dead_end_of_the_hardware_stays_closed_on_the_same_hardware(place: Callable[..., Place]) -> None:
    found = verdicts(dead(cause="unsupported_hardware", **FUSION))
    assert reopened(found, place("rtx-pro-6000-x8", host_class="new driver")) == []


def test_another_host_reopens_it_and_says_which_condition_is_gone(place: Callable[..., Place]) -> None:
    found = verdicts(dead(cause="unsupported_hardware", **FUSION))
    (row,) = reopened(found, place("h200-x8", host_class="new"))
    assert row["variant"] == "v" and row["verdict"] == "DEAD_END"
    assert "fusion-needs-sm90-or-sm10x does not apply to this host: compute_major is 9" in row["why"]
    assert "issues/15650" in row["source"]


def test_a_version_outside_the_limits_range_reopens_with_the_limits_own_words(
    place: Callable[..., Place],
) -> None:
    change = {"env": {"SGLANG_ENABLE_PCIE_IPC_ALLREDUCE": "1"}}
    found = verdicts(dead("NO_OP", version="0.5.16", **change))
    (row,) = reopened(found, place("rtx-pro-6000-x8"))
    assert row["because"] == [
        "the limit pcie-ipc-version is known for SGLang <0.5.21; cu130 has 0.5.23"
        " (the stack has SGLang 0.5.21 or later)"
    ]


def test_a_dead_end_whose_reason_only_changed_its_name_stays_closed(place: Callable[..., Place]) -> None:
    old = dead(
        cause="unsupported_hardware", version="0.5.9", flags={"enable-flashinfer-allreduce-fusion": True}
    )
    assert reopened(verdicts(old), place("rtx-pro-6000-x8")) == []  # JIT error then, ValueError now


def test_what_no_limit_explains_holds_only_for_where_it_was_seen(place: Callable[..., Place]) -> None:
    found = verdicts(dead(cause="crashed", flags={"enable-something-new": True}))
    assert reopened(found, place("rtx-pro-6000-x8")) == []
    (row,) = reopened(found, place("rtx-pro-6000-x8", host_class="new"))
    assert "the host's class was old, now new" in row["why"]
    (row,) = reopened(found, place("rtx-pro-6000-x8", version="0.5.24"))
    assert "SGLang was 0.5.23, now 0.5.24" in row["why"]


def test_measured_variants_are_no_dead_ends(place: Callable[..., Place]) -> None:
    rows = [dead(verdict) for verdict in ("WIN", "LOSS", "NO_DIFFERENCE", "INCONCLUSIVE", "PLANNED")]
    assert reopened(verdicts(*rows), place("h200-x8", version="9.9", host_class="new")) == []


def test_a_host_that_cannot_be_read_reopens_nothing_by_itself(host: Host) -> None:
    unknown = Place("cu130", "0.5.23", {**host("broken-driver"), "class_digest": "old"})
    assert reopened(verdicts(dead(cause="unsupported_hardware", **FUSION)), unknown) == []

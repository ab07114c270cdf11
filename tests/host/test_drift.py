"""What changed between two fingerprints, in sentences."""

from collections.abc import Callable
from typing import Any

from sglang_sweep.host.drift import drift

Host = Callable[[str], dict[str, Any]]


def test_a_new_driver_says_that_everything_is_measured_again(host: Host) -> None:
    old, new = host("rtx-pro-6000-x8"), host("rtx-pro-6000-x8")
    old["driver"]["version"] = "570.124.06"
    assert drift(old, new) == [
        "driver 570.124.06 -> 580.95.05: all launches of this campaign will be measured again"
    ]


def test_nothing_is_said_about_temperature_or_idle_links(host: Host) -> None:
    old, new = host("rtx-pro-6000-x8"), host("rtx-pro-6000-x8")
    new["gpus"][0]["now"]["temperature_c"] = 71
    new["gpus"][0]["pcie"]["generation"] = 5
    assert drift(old, new) == []


def test_one_change_on_many_gpus_is_one_sentence(host: Host) -> None:
    old, new = host("rtx-pro-6000-x8"), host("rtx-pro-6000-x8")
    for gpu in new["gpus"]:
        gpu["power_limit_w"] = 450.0
    (sentence,) = drift(old, new)
    assert sentence.startswith("GPUs 0, 1, 2, 3, 4, 5, 6, 7 power limit (W) 600.0 -> 450.0: all launches")


def test_another_set_of_gpus_is_shown_as_an_inventory(host: Host) -> None:
    sentences = drift(host("h200-x2"), host("h200-x8"))
    assert any(text.startswith("GPUs 2x NVIDIA H200 -> 8x NVIDIA H200: ") for text in sentences)


def test_a_new_kernel_is_reported_and_costs_nothing(host: Host) -> None:
    old, new = host("h200-x8"), host("h200-x8")
    new["kernel"] = "6.14.0-37-generic"
    (sentence,) = drift(old, new)
    assert sentence == (
        "kernel 6.8.0-139-generic -> 6.14.0-37-generic: results stay valid, the change is recorded"
    )


def test_a_topology_that_cannot_be_read_any_more_asks_to_be_mended_first(host: Host) -> None:
    old, new = host("h200-x2"), host("h200-x2")
    new["topology"]["links"] = None
    new["unreadable"]["topology.links"] = "nvidia-smi topo -m: no answer within 20 s"
    (sentence,) = drift(old, new)
    assert "1x NV18 -> unreadable" in sentence and "no answer within 20 s" in sentence
    assert "mend this before measuring" in sentence


def test_matrices_are_told_by_their_kinds(host: Host) -> None:
    old, new = host("rtx-pro-6000-x8"), host("rtx-pro-6000-x8")
    for row in new["topology"]["links"]:
        row[:] = [cell and "PIX" for cell in row]
    (sentence,) = drift(old, new)
    assert sentence.startswith("links between GPUs 12x NODE, 16x SYS -> 28x PIX: all launches")

"""What a variant is asked to be: the difference from the baseline, wherever it starts from."""

import dataclasses
from typing import Any

from sglang_sweep.campaign.model import Change, Variant
from sglang_sweep.plan.declaration import change_from_baseline

BASELINE = Variant(
    name="baseline",
    parent=None,
    hypothesis="",
    change=Change(),
    flags={"tp-size": 2, "skip": True},
    env={"A": "1"},
    stack="cu128",
    model="m",
)


def variant(change: dict[str, Any], **resolved: Any) -> Variant:
    return dataclasses.replace(BASELINE, name="v", parent="baseline", change=Change(**change), **resolved)


def test_the_baseline_changes_nothing() -> None:
    assert change_from_baseline(BASELINE, BASELINE) == {}


def test_the_change_of_a_variant_includes_what_its_parent_changed() -> None:
    arm = variant(
        {"env": {"ACC_LEN": "3"}},
        flags={"tp-size": 4, "skip": True, "algorithm": "EAGLE3"},
        env={"A": "1", "ACC_LEN": "3"},
    )
    assert change_from_baseline(arm, BASELINE) == {
        "flags": {"algorithm": "EAGLE3", "tp-size": 4},
        "env": {"ACC_LEN": "3"},
    }


def test_what_is_removed_is_null_and_what_is_declared_again_is_kept() -> None:
    arm = variant({"flags": {"skip": None, "tp-size": 2}}, flags={"tp-size": 2})
    assert change_from_baseline(arm, BASELINE) == {"flags": {"skip": None, "tp-size": 2}}


def test_stack_model_and_patch_are_part_of_the_change() -> None:
    arm = variant({"patch": "force it"}, stack="cu130", model="n")
    assert change_from_baseline(arm, BASELINE) == {"stack": "cu130", "model": "n", "patch": "force it"}

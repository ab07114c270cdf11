"""What a verdict is about: the difference from the baseline, wherever a variant starts from."""

from typing import Any

from sglang_sweep.verdicts import change_from_baseline

BASELINE: dict[str, Any] = {
    "change": {}, "flags": {"tp-size": 2, "skip": True}, "env": {"A": "1"}, "stack": "cu128", "model": "m",
}  # fmt: skip


def test_the_change_of_a_variant_includes_what_its_parent_changed() -> None:
    arm = BASELINE | {
        "parent": "draft",
        "change": {"env": {"ACC_LEN": "3"}},
        "flags": {"tp-size": 2, "skip": True, "algorithm": "EAGLE3"},
        "env": {"A": "1", "ACC_LEN": "3"},
    }
    assert change_from_baseline(arm, BASELINE) == {
        "flags": {"algorithm": "EAGLE3"},
        "env": {"ACC_LEN": "3"},
    }


def test_what_is_removed_is_null_and_what_is_declared_again_is_kept() -> None:
    arm = BASELINE | {"change": {"flags": {"skip": None, "tp-size": 2}}, "flags": {"tp-size": 2}}
    assert change_from_baseline(arm, BASELINE) == {"flags": {"skip": None, "tp-size": 2}}


def test_stack_model_and_patch_are_part_of_the_change() -> None:
    arm = BASELINE | {"change": {"patch": "force it"}, "stack": "cu130", "model": "n"}
    assert change_from_baseline(arm, BASELINE) == {"stack": "cu130", "model": "n", "patch": "force it"}

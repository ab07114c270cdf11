"""Campaigns as declared: inheritance resolved, mistakes named with file, key and remedy."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from sglang_sweep.campaign.model import load_campaign
from sglang_sweep.errors import UserError

MINIMAL: dict[str, Any] = {
    "question": "Is anything faster than the baseline here?",
    "stack": "cpu",
    "model": "tiny-llama",
    "baseline": {"flags": {"device": "cpu", "max-running-requests": 4}, "env": {"A": "1"}},
    "variants": [
        {"name": "one", "hypothesis": "faster", "change": {"flags": {"disable-radix-cache": True}}},
        {"name": "two", "parent": "one", "hypothesis": "both", "change": {"env": {"A": None, "B": "2"}}},
    ],
    "workloads": [
        {
            "name": "w",
            "dataset": "random-ids",
            "concurrency": 2,
            "prompts": 4,
            "input_tokens": 8,
            "output_tokens": 4,
        }
    ],
    "design": {"blocks": 2, "primary": {"workload": "w", "metric": "output_throughput"}},
}


def write(folder: Path, name: str = "c", **changes: Any) -> Path:
    (folder / f"{name}.yaml").write_text(yaml.safe_dump({**MINIMAL, **changes}))
    return folder


def variants(**first: Any) -> list[dict[str, Any]]:
    return [{**MINIMAL["variants"][0], **first}, MINIMAL["variants"][1]]


def test_a_variant_is_its_parent_plus_its_change(tmp_path: Path) -> None:
    campaign = load_campaign("c", write(tmp_path))
    two = campaign.variant("two")
    assert two.flags == {"device": "cpu", "max-running-requests": 4, "disable-radix-cache": True}
    assert two.env == {"B": "2"}
    assert campaign.variant("baseline-prime") is campaign.baseline


def test_a_campaign_may_extend_another_and_drop_its_variants(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "d.yaml").write_text("extends: c\nstack: cu130\nvariants: [{name: two, drop: true}]\n")
    campaign = load_campaign("d", tmp_path)
    assert campaign.stacks == ["cu130"]
    assert [v.name for v in campaign.variants] == ["one"]


def test_a_variant_without_blocks_stays_planned(tmp_path: Path) -> None:
    one, two = load_campaign("c", write(tmp_path, variants=variants(blocks=0))).variants
    assert one.planned_only and not two.planned_only
    assert one.why_planned == "put off: blocks is 0"


def test_null_leaves_out_what_the_extended_campaign_says(tmp_path: Path) -> None:
    flags = {**MINIMAL["baseline"]["flags"], "tp-size": 2}
    write(tmp_path, baseline={"flags": flags}, communication={"sizes_bytes": [8], "settings": {"ring": {}}})
    (tmp_path / "d.yaml").write_text("extends: c\nbaseline: {flags: {tp-size: 1}}\n")
    with pytest.raises(UserError, match="one rank has nobody to communicate with"):
        load_campaign("d", tmp_path)
    (tmp_path / "d.yaml").write_text("extends: c\nbaseline: {flags: {tp-size: 1}}\ncommunication: null\n")
    assert load_campaign("d", tmp_path).communication is None


def test_a_variant_that_needs_a_patch_stays_planned(tmp_path: Path) -> None:
    campaign = load_campaign("c", write(tmp_path, variants=variants(change={"patch": "force it"})))
    assert campaign.variant("one").planned_only
    assert not load_campaign("c", write(tmp_path)).variant("one").planned_only


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"typo": 1}, ["c.yaml: unknown key 'typo'"]),
        (
            {"variants": variants(hypotesis="x")},
            ["variants[one]", "unknown key 'hypotesis'", "did you mean 'hypothesis'"],
        ),
        ({"variants": variants(name="Two")}, ["variants[Two].name", "not a valid name"]),
        ({"variants": variants(name="two")}, ["variants[two].name", "also the name of a variant above"]),
        ({"variants": variants(name="../x")}, ["variants[../x].name", "not a valid name", "Lower-case"]),
        ({"variants": variants(name="x-prime")}, ["variants[x-prime].name", "A' arm"]),
        (
            {"variants": variants(parent="nobody")},
            ["variants[one].parent", "unknown parent 'nobody'", "baseline"],
        ),
        (
            {"design": {**MINIMAL["design"], "blocks": 0}},
            ["design.blocks", "0 is less than the minimum of 1"],
        ),
        (
            {"design": {"primary": {"workload": "v", "metric": "goodput"}}},
            ["design.primary.workload", "'v'", "one of w"],
        ),
        ({"design": {"primary": {"workload": "w", "metric": "goodput"}}}, ["design.primary.metric", "slo"]),
        (
            {"workloads": [{"name": "w", "dataset": "custom", "concurrency": 1}]},
            ["workloads[w]", "custom needs 'path'"],
        ),
        (
            {"forbidden": {"flags": ["disable-radix-cache"], "reason": "asked"}},
            ["variants[one].change.flags", "asked"],
        ),
        (
            {"design": {**MINIMAL["design"], "blocks": 3.0}},
            ["design.blocks: 3.0 is not a whole number", "write 3"],
        ),
        ({"design": {**MINIMAL["design"], "alpha": float("nan")}}, ["design.alpha: nan is not a number"]),
        (
            {"baseline": {"flags": {"mem-fraction-static": float("nan")}}},
            ["baseline.flags.mem-fraction-static: nan is not a number"],
        ),
        (
            {"variants": variants(change={"env": {"NCCL_IB_DISABLE": 1}})},
            ["variants[one].change.env.NCCL_IB_DISABLE: 1 is not a text", 'quote it: "1"'],
        ),
        (
            {"design": {"primary": {"workload": "w", "metric": "goodputt"}}},
            ["design.primary.metric", "'goodput'?"],
        ),
        (
            {"workloads": [{**MINIMAL["workloads"][0], "slo": {"ttft": 1}}]},
            ["workloads[w].slo.ttft", "ttft_ms"],
        ),
        ({"workloads": []}, ["c.yaml:workloads"]),
        ({"model": {"name": "x"}}, ["model", "fits none of the allowed forms", "config/models.yaml"]),
    ],
)
def test_a_mistake_is_named_with_file_key_and_remedy(
    tmp_path: Path, changes: dict, expected: list[str]
) -> None:
    with pytest.raises(UserError) as caught:
        load_campaign("c", write(tmp_path, **changes))
    for part in expected:
        assert part in str(caught.value)


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(UserError) as caught:
        load_campaign("c", write(tmp_path, typo=1, stack=3))
    assert str(caught.value).count("c.yaml") == 2


def test_a_mistake_beside_extends_is_named_by_variant(tmp_path: Path) -> None:
    write(tmp_path)
    change = "change: {flags: {x: 1}}"
    (tmp_path / "d.yaml").write_text(
        f"extends: c\nvariants: [{{name: three, hypothesis: why, bloks: 2, {change}}}]\n"
    )
    with pytest.raises(
        UserError, match=r"d.yaml:variants\[three\]: unknown key 'bloks'\n.*did you mean 'blocks'"
    ):
        load_campaign("d", tmp_path)
    (tmp_path / "d.yaml").write_text("extends: c\nvariants: [{name: three}, {name: three}]\n")
    with pytest.raises(UserError, match=r"variants\[three\]"):
        load_campaign("d", tmp_path)


def test_a_key_given_twice_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path) / "c.yaml"
    path.write_text(path.read_text() + "stack: cu130\n")
    with pytest.raises(UserError, match="'stack' stands twice"):
        load_campaign("c", tmp_path)


def test_broken_yaml_is_named_by_line(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("question: [unclosed\n")
    with pytest.raises(UserError, match="line 2"):
        load_campaign("c", tmp_path)


def test_an_unknown_campaign_lists_the_known_ones(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(UserError, match="known campaigns: c"):
        load_campaign("cc", tmp_path)


def test_the_shipped_campaigns_are_valid() -> None:
    for file in Path("config/campaigns").glob("*.yaml"):
        assert load_campaign(file.stem).question

"""Keys and schedules: what is missing, and nothing else."""

import dataclasses
from datetime import UTC, datetime, timedelta
from pathlib import Path

from launch_records import write
from sglang_sweep.campaign.model import Campaign, load_campaign
from sglang_sweep.plan.schedule import Arm, Schedule, arms_of, estimate, schedule

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def campaign(**design: object) -> Campaign:
    loaded = load_campaign("cpu-demo")
    return dataclasses.replace(loaded, design=loaded.design.model_copy(update=design))


def arms(of: Campaign, host: str = "h", stack: str = "s") -> tuple[Arm, ...]:
    return arms_of(of, {"cpu": stack}, {"smollm2-135m": "m"}, host, {})


def record(
    plan: Schedule, count: int, at: datetime = NOW, seconds: float = 60, gpus: str | None = None
) -> None:
    """Writes the first ``count`` missing launches as if they had run one after another."""
    for launch in plan.missing[:count]:
        write(
            launch.path,
            campaign=plan.campaign.name,
            variant=launch.arm.name,
            identity=launch.arm.identity,
            block=launch.block,
            started_at=at.isoformat(),
            finished_at=(at + timedelta(seconds=seconds)).isoformat(),
            host={"gpus_digest": gpus},
        )
        at += timedelta(seconds=seconds)


def test_every_block_holds_each_variant_once_and_the_baseline_twice(tmp_path: Path) -> None:
    plan = schedule(campaign(blocks=3), arms(campaign()), tmp_path, now=NOW)
    for block in (1, 2, 3):
        names = sorted(launch.arm.name for launch in plan.launches if launch.block == block)
        assert names == ["baseline", "baseline-prime", "mscclpp", "policy-lpm", "radix-off", "tp2"]


def test_a_block_may_hold_more_baselines_and_earlier_launches_keep_their_place(tmp_path: Path) -> None:
    two, four = campaign(blocks=2), campaign(blocks=2, baselines=4)
    record(schedule(two, arms(two), tmp_path, now=NOW), 100)
    plan = schedule(four, arms(four), tmp_path, now=NOW)
    first = sorted(launch.arm.name for launch in plan.launches if launch.block == 1)
    assert first[:4] == ["baseline", "baseline-prime", "baseline-prime-3", "baseline-prime-4"]
    assert {launch.arm.name for launch in plan.missing} == {"baseline-prime-3", "baseline-prime-4"}
    assert len({arm.key for arm in arms(four)[:4]}) == 1
    assert four.variant("baseline-prime-3") is four.baseline


def test_both_baseline_arms_share_a_key_and_not_a_folder() -> None:
    baseline, prime = arms(campaign())[:2]
    assert baseline.key == prime.key
    assert baseline.folder != prime.folder


def test_priorities_follow_the_random_order(tmp_path: Path) -> None:
    plan = schedule(campaign(), arms(campaign()), tmp_path, now=NOW)
    priorities = [plan.priority(launch.arm.folder, launch.block) for launch in plan.launches]
    assert priorities == sorted(priorities, reverse=True)
    assert [launch.block for launch in plan.launches] == sorted(launch.block for launch in plan.launches)


def test_what_was_measured_is_not_missing(tmp_path: Path) -> None:
    first = schedule(campaign(), arms(campaign()), tmp_path, now=NOW)
    record(first, 7)
    again = schedule(campaign(), arms(campaign()), tmp_path, now=NOW)
    assert [launch.path for launch in again.missing] == [launch.path for launch in first.missing[7:]]


def test_editing_one_variant_makes_exactly_its_launches_missing(tmp_path: Path) -> None:
    before = campaign()
    record(schedule(before, arms(before), tmp_path, now=NOW), 100)
    edited = [
        dataclasses.replace(v, flags={**v.flags, "schedule-policy": "dfs-weight"})
        if v.name == "policy-lpm"
        else v
        for v in before.variants
    ]
    after = dataclasses.replace(before, variants=tuple(edited))
    missing = schedule(after, arms(after), tmp_path, now=NOW).missing
    assert [(x.arm.name, x.block) for x in missing] == [
        ("policy-lpm", 1),
        ("policy-lpm", 2),
        ("policy-lpm", 3),
    ]


def test_a_variant_edited_long_after_gets_blocks_with_baselines_of_their_own(tmp_path: Path) -> None:
    before = campaign()
    record(schedule(before, arms(before), tmp_path, now=NOW), 100)
    variants = tuple(
        dataclasses.replace(v, env={"X": "1"}) if v.name == "tp2" else v for v in before.variants
    )
    after = dataclasses.replace(before, variants=variants)
    missing = schedule(after, arms(after), tmp_path, now=NOW + timedelta(days=9)).missing
    assert {x.block for x in missing} == {4, 5, 6}
    assert {x.arm.name for x in missing} == {"baseline", "baseline-prime", "tp2"}


def test_on_other_gpus_no_block_begun_elsewhere_is_joined(tmp_path: Path) -> None:
    begun = schedule(campaign(blocks=3), arms(campaign()), tmp_path, gpus="ours", now=NOW)
    record(begun, 9, gpus="ours")
    here = schedule(campaign(blocks=3), arms(campaign()), tmp_path, gpus="ours", now=NOW)
    assert [launch.path for launch in here.missing] == [launch.path for launch in begun.missing[9:]]
    elsewhere = schedule(campaign(blocks=3), arms(campaign()), tmp_path, gpus="theirs", now=NOW)
    assert min(launch.block for launch in elsewhere.missing) == 3
    whole = {launch.arm.name for launch in begun.launches if launch.block == 1}
    assert {launch.arm.name for launch in elsewhere.launches if launch.block == 1} == whole
    for arm in elsewhere.arms[2:]:  # each has three blocks with a baseline beside it
        blocks = [launch.block for launch in elsewhere.launches if launch.arm is arm]
        assert len(blocks) == 3
        assert all(any(x.block == b and x.arm.name == "baseline" for x in elsewhere.launches) for b in blocks)


def test_going_back_to_an_old_stack_finds_the_old_results(tmp_path: Path) -> None:
    for stack in ("old", "new"):
        record(schedule(campaign(), arms(campaign(), stack=stack), tmp_path, now=NOW), 100)
    assert schedule(campaign(), arms(campaign(), stack="old"), tmp_path, now=NOW).missing == []


def test_a_different_host_class_reopens_everything() -> None:
    assert {a.key for a in arms(campaign(), host="x")}.isdisjoint({a.key for a in arms(campaign(), host="y")})


def test_key_order_comments_and_hypotheses_change_no_key(tmp_path: Path) -> None:
    text = Path("config/campaigns/cpu-demo.yaml").read_text()
    shuffled = text.replace(
        "    device: cpu\n    dtype: float32\n", "    dtype:   float32  # same\n    device: cpu\n"
    )
    assert shuffled != text
    shuffled = shuffled.replace("a true null.", "surely nothing.")
    (tmp_path / "cpu-demo.yaml").write_text(shuffled)
    assert [a.key for a in arms(load_campaign("cpu-demo", tmp_path))] == [a.key for a in arms(campaign())]


def test_more_blocks_extend_what_exists(tmp_path: Path) -> None:
    record(schedule(campaign(blocks=2), arms(campaign()), tmp_path, now=NOW), 100)
    assert {x.block for x in schedule(campaign(blocks=3), arms(campaign()), tmp_path, now=NOW).missing} == {3}


def test_adaptive_mode_plans_at_most_its_maximum(tmp_path: Path) -> None:
    plan = schedule(campaign(mode="adaptive", max_blocks=5), arms(campaign()), tmp_path, now=NOW)
    assert max(launch.block for launch in plan.launches) == 5


def test_the_estimate_rests_on_past_launches(tmp_path: Path) -> None:
    plan = schedule(campaign(blocks=2), arms(campaign()), tmp_path, now=NOW)
    assert "assumed" in estimate(plan, tmp_path).basis
    record(plan, 6, seconds=30)
    cost = estimate(schedule(campaign(blocks=2), arms(campaign()), tmp_path, now=NOW), tmp_path)
    assert (cost.launches, cost.minutes, cost.basis) == (6, 3.0, "6 launches of this campaign")


def test_a_variant_may_ask_for_fewer_blocks(tmp_path: Path) -> None:
    before = campaign(blocks=3)
    variants = tuple(dataclasses.replace(v, blocks=1) if v.name == "tp2" else v for v in before.variants)
    fewer = arms(dataclasses.replace(before, variants=variants))
    assert [a.key for a in fewer] == [a.key for a in arms(before)]
    plan = schedule(dataclasses.replace(before, variants=variants), fewer, tmp_path, now=NOW)
    assert [x.block for x in plan.launches if x.arm.name == "tp2"] == [1]
    assert sum(x.arm.name == "baseline" for x in plan.launches) == 3

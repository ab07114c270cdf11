"""What a campaign will launch: arms with their keys, the blocks each is still missing, and the cost."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count, islice
from pathlib import Path
from statistics import median
from typing import Any

from sglang_sweep.campaign import keys
from sglang_sweep.campaign.checks import PRIME
from sglang_sweep.campaign.declared import ModelSpec
from sglang_sweep.campaign.model import Campaign, Variant
from sglang_sweep.files import places
from sglang_sweep.files.digest import canonical_json
from sglang_sweep.files.launches import read_launch
from sglang_sweep.plan.blocks import order


@dataclass(frozen=True)
class Arm:
    """One variant as launched in a block; the A' arm shares the baseline's variant and key."""

    name: str
    variant: Variant
    key: str
    identity: dict[str, Any]

    @property
    def folder(self) -> str:
        """The ``{launch}`` wildcard."""
        return f"{self.name}-{self.key}"


@dataclass(frozen=True)
class Launch:
    """One job: an arm in a block. ``position`` counts from 0 in the block's random order."""

    arm: Arm
    block: int
    position: int
    path: Path
    exists: bool


@dataclass(frozen=True)
class Schedule:
    """All launches that the campaign wants, in the order in which they run."""

    campaign: Campaign
    arms: tuple[Arm, ...]
    launches: tuple[Launch, ...]

    @property
    def missing(self) -> list[Launch]:
        """Launches still to be made."""
        return [launch for launch in self.launches if not launch.exists]

    def arm(self, folder: str) -> Arm:
        """The arm whose results lie in ``folder``."""
        return next(arm for arm in self.arms if arm.folder == folder)

    def priority(self, folder: str, block: int) -> int:
        """Snakemake runs higher priorities first; one launch at a time, so this is the order of running."""
        for index, launch in enumerate(self.launches):
            if launch.arm.folder == folder and launch.block == block:
                return len(self.launches) - index
        return 0


def arms_of(
    campaign: Campaign,
    stack_digests: dict[str, str],
    model_digests: dict[str, str],
    host_class: str,
    server_env: dict[str, str],
) -> tuple[Arm, ...]:
    """Baseline, A', then the variants in the campaign's order; variants that are only planned have none."""
    arms = []
    for variant in campaign.all_variants:
        if variant.planned_only:
            continue
        identity = keys.launch_identity(
            campaign,
            variant,
            stack_digest=stack_digests[variant.stack],
            model_digests={name: model_digests[name] for name in models_of(variant)},
            host_class=host_class,
            server_env=server_env,
        )
        key = keys.launch_key(identity)
        arms.append(Arm(variant.name, variant, key, identity))
        if variant is campaign.baseline:
            further = ["", *(f"-{n}" for n in range(3, campaign.design.baselines + 1))]
            arms += [Arm(f"{variant.name}{PRIME}{n}", variant, key, identity) for n in further]
    return tuple(arms)


def models_of(variant: Variant) -> dict[str, ModelSpec]:
    """Every model the variant needs, served or drafting, by canonical name."""
    specs = [variant.model, *(value["model"] for value in variant.flags.values() if is_model(value))]
    return {model_name(spec): spec for spec in specs}


def is_model(value: Any) -> bool:
    """A flag value of the form ``{model: NAME}``."""
    return isinstance(value, dict) and set(value) == {"model"}


def model_name(spec: ModelSpec) -> str:
    """One text for one model specification."""
    return spec if isinstance(spec, str) else canonical_json(spec)


def schedule(
    campaign: Campaign,
    arms: tuple[Arm, ...],
    results: Path,
    gpus: str | None = None,
    now: datetime | None = None,
) -> Schedule:
    """Which arm is launched in which block, given what exists.

    An arm joins a block only while all that ran in it is contemporary: started within the design's
    ``contemporary_hours`` of now, and on these ``gpus`` (a digest, None if unknown). A variant added later or
    on another host of the class gets new blocks, with baselines of their own.
    """
    now = now or datetime.now(UTC)
    twins = [arm for arm in arms if arm.variant.name == campaign.baseline.name]
    baseline, prime, others = *twins[:2], arms[len(twins) :]
    done = {arm.folder: places.launch_files(results, arm.folder) for arm in arms}
    oldest = now - timedelta(hours=campaign.design.contemporary_hours)
    closed = _closed_blocks(done.values(), campaign.name, oldest, gpus)
    wanted: dict[int, list[Arm]] = {}
    for arm in others or [prime]:
        paired = done[arm.folder].keys() & done[baseline.folder].keys()
        usable = (block for block in count(1) if block not in closed or block in paired)
        asked = min(arm.variant.blocks or campaign.design.planned_blocks, campaign.design.planned_blocks)
        for block in islice(usable, asked):
            wanted.setdefault(block, []).append(arm)
    launches = []
    for block in sorted(wanted):
        members = {
            arm.name: arm
            for arm in (*twins, *wanted[block])
            if block not in closed or block in done[arm.folder]
        }
        # Drawn over all arms, so that neighbouring blocks mirror each other whichever of them take part.
        drawn = [n for n in order([arm.name for arm in arms], block, campaign.design.seed) if n in members]
        for position, name in enumerate(drawn):
            arm = members[name]
            there = done[arm.folder].get(block)
            path = there or places.launch_file(results, arm.folder, block)
            launches.append(Launch(arm, block, position, path, there is not None))
    return Schedule(campaign, arms, tuple(launches))


def measured_so_far(campaign: Campaign, arms: tuple[Arm, ...], results: Path) -> Schedule:
    """The launches that are there and nothing else, for a report without any further measuring."""
    launches = [
        Launch(arm, block, read_launch(path).position, path, True)
        for arm in arms
        for block, path in places.launch_files(results, arm.folder).items()
    ]
    return Schedule(campaign, arms, tuple(sorted(launches, key=lambda x: (x.block, x.position))))


def _closed_blocks(
    done: Iterable[dict[int, Path]], campaign: str, oldest: datetime, gpus: str | None
) -> set[int]:
    """Blocks with a launch that started before ``oldest`` or ran on other GPUs: nothing new fits beside it.

    Neither does it beside one that another campaign left out because its own question was answered.
    """
    closed = set()
    for block, path in (launch for launches in done for launch in launches.items()):
        launch = read_launch(path)
        started, where = datetime.fromisoformat(launch.started_at), launch.host.gpus_digest
        left_out = launch.outcome == "not_run" and launch.campaign != campaign
        if left_out or started < oldest or (where and gpus and where != gpus):
            closed.add(block)
    return closed


@dataclass(frozen=True)
class Cost:
    """Estimated minutes of the missing launches, and what the estimate rests on."""

    minutes: float
    launches: int
    basis: str
    minutes_per_launch: float


def estimate(plan: Schedule, results: Path) -> Cost:
    """From the median duration of past launches of the same variant, else of any launch here."""
    assumed_s = plan.campaign.design.assumed_launch_s
    past: dict[str, list[float]] = {}
    for path in [
        *results.glob("launches/*/block-*/launch.json"),
        *results.glob("*/launches/*/block-*/launch.json"),
    ]:
        done = read_launch(path)
        if done.outcome != "not_run":
            for name in (f"{done.campaign}/{done.variant}", path.parents[1].name):
                past.setdefault(name, []).append(done.seconds)
    mine = {arm.name: (f"{plan.campaign.name}/{arm.name}", arm.folder) for arm in plan.arms}
    took = {name: past.get(older, []) or past.get(own, []) for name, (older, own) in mine.items()}
    same = [s for values in took.values() for s in values]
    anything = [s for name, values in past.items() if "/" in name for s in values]
    fallback = median(same or anything) if anything else assumed_s
    seconds = sum(median(took[launch.arm.name] or [fallback]) for launch in plan.missing)
    basis = (
        f"{len(same)} launches of this campaign"
        if same
        else f"{len(anything)} launches of other campaigns here"
        if anything
        else f"an assumed {assumed_s:.0f} s a launch, nothing was measured here yet"
    )
    return Cost(seconds / 60, len(plan.missing), basis, fallback / 60)

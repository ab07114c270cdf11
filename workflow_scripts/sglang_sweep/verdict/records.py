"""The records of verdicts.json: what is concluded about each variant of a campaign, and what it rests on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from sglang_sweep.files.models import Part, Record
from sglang_sweep.statistics.design import Design
from sglang_sweep.verdict.decision import Verdict
from sglang_sweep.verdict.outcomes import elsewhere

Ratio = Annotated[float, Field(gt=0)]
"""Variant to baseline, oriented so that above 1 is better."""

Interval = tuple[Ratio, Ratio]
"""95 % interval of a ratio, low then high."""

Probability = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]


class Numbers(Part):
    """An arm against its baseline on the primary metric. ``ci95`` is of this arm alone."""

    ratio: Ratio | None
    ci95: Interval | None
    p_value: Probability | None
    p_exact: Probability | None = None
    equivalence_p: Probability | None
    blocks: Count


class AA(Numbers):
    """A' against A. ``launch_sd`` of the log of a launch's value, from these two; ``detectable_effect`` is the
    relative effect that the declared blocks find with 80 % power at the session's noise."""

    launch_sd: float | None
    detectable_effect: float | None


class Noise(Part):
    """How much a launch varies (standard deviation on the log scale) over all arms that are alike, and the degrees
    of freedom of that."""

    launch_sd: float
    df: Count


class GpuBlocks(Part):
    """Which blocks ran on which GPUs: the digest of their UUIDs, None where records do not say."""

    gpus: str | None
    blocks: list[int]


class RuleText(Part):
    """A rule about launches or windows, fixed beforehand."""

    id: str
    scope: Literal["launch", "window"]
    description: str


class Removed(Part):
    """What a rule saw in a launch, or in one of its windows by index. Where ``counts`` it was not removed."""

    arm: str
    block: int
    file: str | None = None
    window: Count | None = None
    rule: str
    saw: str
    counts: bool = False


class Session(Part):
    """What the baseline's own launches say about the noise, and whether the session can be believed."""

    aa: AA
    noise: Noise | None = None
    void: bool
    reasons: list[str]
    family: list[str] = []
    gpus: list[GpuBlocks] = []
    rules: list[RuleText] = []
    removed: list[Removed] = []


class MetricRow(Part):
    """One metric of one workload, over the blocks and windows that the ratio is of."""

    workload: str
    metric: str
    unit: str
    ratio: Ratio | None
    ci95: Interval | None
    primary: bool
    baseline_mean: float | None = None
    variant_mean: float | None = None


class LaunchRow(Part):
    """One launch: the mean of the primary metric, or the rules that removed it."""

    block: int
    file: str | None
    outcome: Literal["completed", "failed", "not_run"]
    value: float | None
    removed: str | None


class Elsewhere(Part):
    """What an objective other than the primary metric does: ``worse`` or ``better`` by more than the smallest effect
    (the whole interval lies beyond it), a loss of that size ``not_excluded``, or ``not_measured``. Intervals are not
    corrected for the number of objectives."""

    workload: str
    metric: str
    kind: Literal["worse", "better", "not_excluded", "not_measured"]
    ratio: Ratio | None
    ci95: Interval | None


class OutcomeRow(Part):
    """In how many completed launches a rule spoke, beside the baseline's."""

    what: str
    launches: Count
    of: Count
    baseline_launches: Count
    baseline_of: Count
    more_often: bool
    sentence: str


class SpreadRow(Part):
    """Standard deviation of a launch (log scale) in this arm and in the others, and how many launches lie apart from
    the arm's own. ``unseen_share``: a slow mode in up to this share of launches may not have shown (95 %)."""

    launch_sd: float | None
    others_sd: float | None
    apart: Count
    launches: Count
    unseen_share: Probability


class HoldsFor(Part):
    """What a verdict holds for: software, and the hosts and GPUs that were measured. Empty for what is planned."""

    stack: str | dict[str, Any] | None = None
    sglang_version: str | None = None
    stack_digest: str | None = None
    host_class: str | None = None
    hosts: list[str] = []
    gpus: list[str] = []
    measured_on: str | None = None


class Row(Numbers):
    """One variant. ``ci_holm`` is the interval corrected for the number of variants, None where that is ``ci95``.
    ``more_blocks`` may be added to these; a fixed design is tested once, so there ``fresh_blocks`` of a new campaign
    would settle it."""

    name: str
    verdict: Verdict
    reasons: list[str] = []
    ci_holm: Interval | None = None
    p_holm: Probability | None
    more_blocks: Annotated[int, Field(ge=1)] | None
    fresh_blocks: Annotated[int, Field(ge=1)] | None = None
    outcome: Literal["completed", "failed", "not_run"] | None
    cause: str | None
    metrics: list[MetricRow]
    elsewhere: list[Elsewhere] = []
    outcomes: list[OutcomeRow] = []
    spread: SpreadRow | None = None
    launches: list[LaunchRow]
    key: str | None = None
    change: dict[str, Any] = {}
    hypothesis: str | None = None
    speculation: Literal["real", "simulated"] | None = None
    engagement: dict[str, Any] | None = None
    confounds: list[dict[str, Any]] = []
    correctness: dict[str, Any] | None = None
    evidence: list[dict[str, Any]] = []
    remedies: list[str | dict[str, Any]] = []
    reopen_when: list[str | dict[str, Any]] = []
    holds_for: HoldsFor = HoldsFor()


class Verdicts(Record):
    """verdicts.json. ``design`` has its defaults filled in; paths are relative to the working directory."""

    VERSION: ClassVar[int] = 2
    schema_version: int = 2
    campaign: str
    question: str | None
    baseline: dict[str, Any] = {}
    host: dict[str, Any]
    stacks: dict[str, Any]
    design: dict[str, Any]
    generated_from: list[str]
    session: Session
    variants: list[Row]

    @classmethod
    def of(cls, data: Any, file: Path) -> Self:
        """As `Record.of`; files published before 0.2 bear no version."""
        if isinstance(data, dict) and "schema_version" not in data:
            data = {"schema_version": 1, **data}
        return super().of(data, file)

    @classmethod
    def older(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Version 1 lacked what is optional here; what other objectives did stood in the metrics."""
        design, rows = data["design"], data["variants"]
        primary = (design["primary"]["workload"], design["primary"]["metric"])
        smallest = design.get("smallest_effect", Design().smallest_effect)
        told = [{"elsewhere": elsewhere(row["metrics"], primary, smallest), **row} for row in rows]
        return {**data, "schema_version": cls.VERSION, "variants": told}

"""What the report reads, typed: the verdicts, what was declared, what was launched, and report.json beside them.

The first group belongs to other steps: a key that the report does not show is passed over, one that an older record
lacks has a default. ``ReportData`` is the report's own record, written by `report.gather`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from sglang_sweep.files.models import Record

Interval = tuple[float | None, float | None]


class Read(BaseModel):
    """A part of another step's record. What is null there has its default here."""

    model_config = ConfigDict(extra="ignore", frozen=True, coerce_numbers_to_str=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if isinstance(data, str):  # evidence was once a bare sentence
            data = {"text": data}
        return {k: v for k, v in data.items() if v is not None} if isinstance(data, dict) else data


class Line(Read):
    """A line that shows something: of a file, or a sentence."""

    file: str = ""
    line: int | None = None
    text: str = ""
    source: str = ""


class Feature(Read):
    feature: str
    state: str
    note: str = ""
    source: str = ""
    evidence: list[Line] = []


class Engagement(Read):
    state: str = ""
    note: str = ""
    features: list[Feature] = []


class Confound(Read):
    setting: str
    baseline: Any = None
    variant: Any = None
    moves_performance: bool = False
    declared: bool = False
    pin: Any = None
    why: str = ""


class Correctness(Read):
    state: str = ""
    reason: str = ""
    agreement: float | None = None
    baseline_agreement: float | None = None
    notes: list[str] = []


class MetricRow(Read):
    """One metric at one load. ``ratio`` is oriented: above one is better, whatever the metric."""

    workload: str
    metric: str
    unit: str = ""
    ratio: float | None = None
    ci95: Interval | None = None
    primary: bool = False
    baseline_mean: float | None = None
    variant_mean: float | None = None


class LaunchRow(Read):
    block: int | None = None
    file: str = ""
    outcome: str = ""
    value: float | None = None
    removed: Any = None


class Reopening(Read):
    when: str = ""
    text: str = ""
    why: str = ""
    source: str = ""


class Elsewhere(Read):
    """An objective beside the verdict's own: worse, better, not_excluded (a loss) or not_measured."""

    workload: str
    metric: str
    kind: str
    ratio: float | None = None
    ci95: Interval | None = None


class OutcomeRow(Read):
    sentence: str
    more_often: bool = False


class Spread(Read):
    unseen_share: float | None = None


class Variant(Read):
    name: str
    verdict: str
    reasons: list[str] = []
    ratio: float | None = None
    ci95: Interval | None = None
    p_value: float | None = None
    p_exact: float | None = None
    p_holm: float | None = None
    equivalence_p: float | None = None
    blocks: int = 0
    more_blocks: int | None = None
    fresh_blocks: int | None = None
    elsewhere: list[Elsewhere] = []
    outcomes: list[OutcomeRow] = []
    spread: Spread = Spread()
    outcome: str = "not_run"
    cause: str = ""
    metrics: list[MetricRow] = []
    launches: list[LaunchRow] = []
    key: str = ""
    change: dict[str, Any] = {}
    hypothesis: str = ""
    speculation: str = ""
    engagement: Engagement = Engagement()
    confounds: list[Confound] = []
    correctness: Correctness = Correctness()
    evidence: list[Line] = []
    remedies: list[str] = []
    reopen_when: list[Reopening] = []
    holds_for: dict[str, Any] = {}

    @property
    def is_noise_arm(self) -> bool:
        """Whether this is A', the baseline launched a second time in each block."""
        return self.name.endswith("-prime")

    @property
    def is_control(self) -> bool:
        """Whether its accept length was forced: it prices speculation and is no way to serve."""
        return self.speculation == "simulated"

    @property
    def primary(self) -> MetricRow | None:
        """The row that the verdict rests on, if it was measured."""
        return next((row for row in self.metrics if row.primary), None)


class Aa(Read):
    ratio: float | None = None
    ci95: Interval | None = None
    p_value: float | None = None
    blocks: int = 0
    launch_sd: float | None = None
    detectable_effect: float | None = None


class Removal(Read):
    arm: str
    block: int | None = None
    window: int | None = None
    rule: str = ""
    saw: str = ""
    file: str = ""


class Rule(Read):
    id: str
    description: str = ""


class GpuBlocks(Read):
    gpus: Any = None
    blocks: list[int] = []


class Noise(Read):
    launch_sd: float | None = None


class Session(Read):
    aa: Aa = Aa()
    noise: Noise = Noise()
    void: bool = False
    reasons: list[str] = []
    family: list[str] = []
    gpus: list[GpuBlocks] = []
    rules: list[Rule] = []
    removed: list[Removal] = []


class Primary(Read):
    workload: str = ""
    metric: str = "output_throughput"


class Design(Read):
    mode: str = "fixed"
    blocks: int = 0
    max_blocks: int = 0
    windows: int = 0
    seed: int | None = None
    smallest_effect: float = 0.02
    alpha: float = 0.05
    primary: Primary = Primary()


class Arm(Read):
    """What was asked of one arm; of the baseline too."""

    name: str = "baseline"
    key: str = ""
    hypothesis: str = ""
    flags: dict[str, Any] = {}
    env: dict[str, Any] = {}
    stack: str = ""
    model: str = ""


class Verdicts(Read):
    """verdicts.json."""

    campaign: str
    question: str = ""
    baseline: Arm = Arm()
    stacks: dict[str, dict[str, Any]] = {}
    design: Design = Design()
    generated_from: list[str] = []
    session: Session = Session()
    variants: list[Variant] = []


class Load(Read):
    """A workload as declared; counts of requests and tokens."""

    name: str
    dataset: str = "random-ids"
    concurrency: int | None = None
    request_rate: float | None = None
    prompts: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    groups: int | None = None
    prompts_per_group: int | None = None
    prefix_tokens: int | None = None
    path: str = ""


class Declaration(Read):
    """declaration.json: arms by their folder."""

    arms: dict[str, Arm] = {}
    workloads: list[Load] = []

    def arm(self, name: str) -> Arm | None:
        return next((arm for arm in self.arms.values() if arm.name == name), None)


class Window(Read):
    workload: str
    window: int
    valid: bool = True
    metrics: dict[str, Any] = {}


class Launch(Read):
    """launch.json."""

    variant: str
    block: int
    started_at: datetime | None = None
    finished_at: datetime | None = None
    outcome: str = ""
    windows: list[Window] = []
    identity: dict[str, Any] = {}
    command: list[str] = []

    @property
    def seconds(self) -> float:
        """How long it held the machine."""
        if self.started_at is None or self.finished_at is None:
            return 0.0
        return (self.finished_at - self.started_at).total_seconds()


# What other steps computed for report.json.


class Check(Read):
    """One answer of the environment gate; ``passed`` is None where it could not be decided."""

    id: str
    title: str = ""
    scope: str = ""
    severity: str = ""
    passed: bool | None = None
    found: str = ""
    why: str = ""
    remedy: str = ""
    source: str = ""


class Prediction(Read):
    """A dead end that was known before any launch."""

    variant: str = ""
    verdict: str = "DEAD_END"
    cause: str = ""
    why: str = ""
    source: str = ""
    remedy: str = ""
    reopens_when: str = ""
    seen: bool = False


class Reopened(Read):
    variant: str
    verdict: str = ""
    why: str = ""
    source: str = ""


class KernelClass(Read):
    ms_per_step: float = 0.0
    share: float | None = None
    kernels_per_step: float | None = None


class Collective(Read):
    count_per_step: float = 0.0
    us_median: float | None = None
    ms_per_step: float | None = None
    share: float | None = None
    path: str = ""
    skew_ms: float | None = None
    late_rank: int | None = None


class Step(Read):
    kind: str
    batch_size: int | None = None
    count: int = 0
    ms_per_step: float = 0.0
    busy_ms: float | None = None
    kernels_per_step: float | None = None
    allreduce: Collective = Collective()
    classes: dict[str, KernelClass] = {}

    @property
    def label(self) -> str:
        return self.kind if self.batch_size is None else f"{self.kind} bs={self.batch_size}"


class Phase(Read):
    kind: str
    per_cycle: float | None = None
    busy_ms: float | None = None
    share: float | None = None
    allreduces: float | None = None
    allreduce_ms: float | None = None


class Cycle(Read):
    phases: list[Phase] = []
    busy_ms: float | None = None


class Unmatched(Read):
    name: str
    kind: str = ""
    share: float | None = None


class Breakdown(Read):
    """A profile as `analyze-trace --json` writes it."""

    ranks: list[int] = []
    world_size: int | None = None
    source: str = "gpu"
    steps: list[Step] = []
    cycle: Cycle = Cycle()
    unmatched: list[Unmatched] = []
    notes: list[str] = []

    @property
    def cycle_steps(self) -> list[Step]:
        """The steps of the decode cycle, or all where the profile has none."""
        cycle = {phase.kind for phase in self.cycle.phases}
        return [step for step in self.steps if step.kind in cycle] or self.steps


class Moved(Read):
    phase: str
    class_: str = ""
    ms_before: float | None = None
    ms_after: float | None = None
    share_of_change: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _class(cls, data: Any) -> Any:
        return {"class_": data["class"], **data} if isinstance(data, dict) and "class" in data else data


class Explanation(Read):
    sentence: str = ""
    explained: bool = False
    moved: list[Moved] = []


class CycleCost(Read):
    fixed_ms: float = 0.0
    per_token_ms: float = 0.0


class BreakEven(Read):
    accept_length: float | None = None
    ci95: tuple[float, float] | None = None
    reachable: bool = True


class Ceiling(Read):
    accept_length: float | None = None
    throughput: float | None = None
    speedup: float | None = None


class SpeculationPoint(Read):
    name: str
    accept_length: float = 0.0
    simulated: bool = False
    throughput: float = 0.0
    cycle_ms: float | None = None
    speedup: float | None = None


class Lever(Read):
    term: str
    now: float | None = None
    ideal: float | None = None
    speedup: float | None = None


class Economics(Read):
    """What speculation costs and pays, of `costs.speculation`; times in ms."""

    concurrency: int = 1
    n_steps: int = 1
    baseline_throughput: float = 0.0
    t_decode_ms: float | None = None
    points: list[SpeculationPoint] = []
    cycle: CycleCost = CycleCost()
    break_even: BreakEven = BreakEven()
    ceiling: Ceiling = Ceiling()
    terms: dict[str, Any] = {}
    levers: list[Lever] = []
    attack: str = ""
    notes: list[str] = []


class CollectiveRow(Read):
    variant: str = ""
    kind: str = ""
    batch_size: int | None = None
    count: float | None = None
    bytes: int | None = None
    us_alone: float | None = None
    us_profiled: float | None = None
    predicted_ms: float | None = None
    profiled_ms: float | None = None
    skew_ms: float | None = None
    share_of_tpot: float | None = None


class Cliff(Read):
    setting: str = ""
    mode: str = ""
    from_bytes: int | None = None
    to_bytes: int | None = None
    from_us: float | None = None
    to_us: float | None = None
    ratio: float | None = None


class Growth(Read):
    sentence: str = ""


class Collectives(Read):
    rows: list[CollectiveRow] = []
    cliffs: list[Cliff] = []
    growth: Growth = Growth()


class Level(Read):
    """One level of a ladder: geometric means over launches with 95 % intervals. ``per_user`` is 1000 / mean TPOT,
    both rates in tokens a second; ``attainment`` the share of requests within the objectives."""

    arm: str
    load: float
    launches: int = 0
    per_user: float | None = None
    per_user_ci95: Interval | None = None
    per_gpu: float | None = None
    per_gpu_ci95: Interval | None = None
    p99_ttft_ms: float | None = None
    attainment: float | None = None
    best: bool = False
    """No other arm and level has more of both rates."""


class Carried(Read):
    """The load an arm carries within the objectives, and where its throughput passes the baseline's."""

    arm: str
    value: float | None = None
    ci95: Interval | None = None
    bound: str = ""
    launches: int = 0
    crosses: float | None = None
    crosses_ci95: Interval | None = None


class Ladder(Read):
    name: str
    unit: str = ""
    levels: list[Level] = []
    carried: list[Carried] = []


class ReportData(Record):
    """report.json: what the report shows beside the verdicts. A part that was not made is absent.

    ``environment`` is the host as fingerprinted; ``profiles`` and ``explanations`` are by variant; ``notes`` are the
    engineer's own Markdown.
    """

    VERSION: ClassVar[int] = 2
    schema_version: int = 2
    environment: dict[str, Any] | None = None
    gate: list[Check] = Field(default_factory=list)
    profiles: dict[str, Breakdown] = Field(default_factory=dict)
    explanations: dict[str, Explanation] = Field(default_factory=dict)
    speculation: Economics | None = None
    communication: Collectives | None = None
    ladders: list[Ladder] = Field(default_factory=list)
    reopened: list[Reopened] = Field(default_factory=list)
    predictions: list[Prediction] = Field(default_factory=list)
    notes: str = ""

    @classmethod
    def older(cls, data: dict[str, Any]) -> dict[str, Any]:
        """Version 1 wrote null for what was not made, and named two parts that nothing filled."""
        gone = ("launches", "stacks", "schema_version")
        return {k: v for k, v in data.items() if v is not None and k not in gone}

    @classmethod
    def of(cls, data: Any, file: Path) -> Self:
        """Version 1 did not say its version."""
        return super().of({"schema_version": 1, **data} if isinstance(data, dict) else data, file)


def day(moment: datetime | None) -> str:
    """``30 November 2026``, in UTC."""
    return f"{moment.astimezone(UTC):%-d %B %Y}" if moment else ""

"""A campaign as it is written: the models of ``config/campaigns/<name>.yaml``, with every key's meaning and default.

Editors complete from them (config/schemas/), config/README.md lists them, and nothing else says a default.
"""

import math
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    StringConstraints,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from sglang_sweep.files.models import Declared, Items, Number, Positive

Name = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]{0,47}$"),
    Field(description="Lower-case letters, digits and dashes; the name becomes part of paths."),
]
Count = Annotated[int, Field(ge=1)]
Share = Annotated[Number, Field(gt=0, lt=0.5)]


def _plain(value: Any) -> Any:
    """A flag's value, with everything in it, must survive JSON: no date, no ``.nan``."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner:
        _plain(item)
    if isinstance(value, float) and not math.isfinite(value):
        raise PydanticCustomError(
            "number", "{value} is not a number", {"value": str(value), "remedy": "write one"}
        )
    if not isinstance(value, str | int | float | list | dict | None):
        raise PydanticCustomError(
            "plain", "{value} was read as a {kind}",
            {"value": str(value), "kind": type(value).__name__, "remedy": f'quote it: "{value}"'},
        )  # fmt: skip
    return value


def _text(value: Any) -> Any:
    """A variable is a text; YAML takes ``1`` and ``on`` for something else."""
    if value is not None and not isinstance(value, str):
        written = str(value).lower() if isinstance(value, bool) else value
        raise PydanticCustomError(
            "variable", "{value} is not a text, and a variable is one",
            {"value": str(written), "remedy": f'quote it: "{written}"'},
        )  # fmt: skip
    return value


VariableName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"),
    Field(description="The name of an environment variable."),
]
Text = Annotated[str, BeforeValidator(_text)]
Flags = dict[str, Annotated[Any, AfterValidator(_plain)]]
Environment = dict[VariableName, Text]
MovedEnvironment = dict[VariableName, Annotated[str | None, BeforeValidator(_text)]]


class ModelFolder(Declared):
    """A checkpoint on this machine."""

    path: str


class HubModel(Declared):
    """A model of the hub."""

    hub: str
    revision: str | None = None


Model = str | ModelFolder | HubModel
ModelSpec = str | dict[str, str]
"""A model in plain data: a name in config/models.yaml, ``{"path": folder}`` or ``{"hub": "org/name"}``."""

_FLAGS = (
    "SGLang's flag names without \"--\". true gives the bare flag, null removes the parent's, a list several values, "
    "a mapping JSON; {model: NAME} the folder of a model."
)
_MODEL = "A name in config/models.yaml, a folder ({path: ...}), or a hub id ({hub: org/name})."


class Change(Declared):
    """What differs from the parent. Everything else is held equal, and checked."""

    flags: Annotated[Flags, Field(description=_FLAGS)] = {}
    env: MovedEnvironment = {}
    """Environment variables; null takes away the parent's."""
    stack: str | None = None
    """Another stack, a folder under envs/."""
    model: Annotated[Model | None, Field(description=_MODEL)] = None
    patch: str | None = None
    """A source change of SGLang that this variant needs. It stays PLANNED until a stack that carries the patch
    is named in change.stack."""

    def as_dict(self) -> dict[str, Any]:
        """Only what was declared, for reports."""
        return {
            name: value
            for name, value in self.model_dump(exclude_unset=True).items()
            if value not in (None, {})
        }


class Baseline(Declared):
    """What every variant is compared with."""

    name: Name = "baseline"
    hypothesis: str = "what is served today"
    """What is expected of it."""
    flags: Annotated[Flags, Field(description=_FLAGS)] = {}
    env: MovedEnvironment = {}
    """Environment variables."""
    profile: bool = False
    """Also make one profile launch."""


class DeclaredVariant(Declared):
    """The baseline plus one declared change."""

    name: Name
    parent: str | None = None
    """The variant whose flags and environment this one starts from. Default, the baseline. The comparison is
    always with the baseline."""
    hypothesis: Annotated[str, Field(min_length=3)]
    """Why it might help, and by how much."""
    change: Change
    """What differs from the parent. Everything else is held equal, and checked."""
    proof: Items[str] = ()
    """Features of config/knowledge/engagement.yaml whose state shows that the change is active. Default,
    derived from the change."""
    tolerance: Literal["exact", "numeric"] | None = None
    """How far greedy probe outputs may differ from the baseline's."""
    declares: Items[str] = ()
    """Settings that move with the change and are accepted as part of it, by their name in /server_info."""
    blocks: Annotated[int, Field(ge=0)] | None = None
    """Blocks of this variant, where it needs fewer than the design's; it takes part in the first ones. With 0
    it stays PLANNED."""
    profile: bool = False
    """Also make one profile launch, apart from the measured ones and before them."""
    speculation: Literal["real", "simulated"] | None = None
    """How this variant enters the speculation economics; simulated when SGLANG_SIMULATE_ACC_LEN forces the
    accept length."""


_LADDER = WithJsonSchema(
    {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "array", "items": {"type": "number"}}]}
)
"""In a file a list may stand here; `loads.expanded` makes one workload a level of it before the model reads it."""


class Workload(Declared):
    """What is asked of a launch. Lengths are in tokens, rates in requests per second, objectives in ms."""

    name: Name
    dataset: Literal[
        "random-ids", "random", "generated-shared-prefix", "custom", "sharegpt", "openai", "mooncake",
        "agentic-trace", "longbench_v2", "image",
    ]  # fmt: skip
    """The kind of load, by the name of SGLang's client. random-ids needs no tokenizer data but its token ids mean
    nothing, so never judge speculation on it; generated-shared-prefix exercises the prefix cache, with `turns` also
    conversations; agentic-trace replays conversations turn by turn with the server's own answers; the others read
    what their names say. Files are checked before any launch."""
    path: str | None = None
    """File of the prompts, relative to the working directory: JSONL for custom, openai, mooncake and longbench_v2,
    one JSON document for sharegpt, random and agentic-trace."""
    concurrency: Annotated[Count, _LADDER]
    """Requests in flight. A rising list makes a ladder: one workload a level, `<name>-<level>`, all in one launch."""
    prompts: Annotated[Count | None, _LADDER] = None
    """Requests in one window (groups x prompts_per_group for generated-shared-prefix); conversations, where they
    have turns. On a ladder, a list of as many numbers as there are levels, or one for all."""
    request_rate: Annotated[Positive | None, _LADDER] = None
    """Requests per second; default all at once, held back by concurrency. May be a ladder instead of concurrency."""
    turns: Annotated[int, Field(ge=1)] | None = None
    """Turns of each conversation of generated-shared-prefix; the most turns of an agentic-trace."""
    first_turn_only: bool = False
    """Accept that SGLang's client sends of each conversation of a custom or sharegpt file the first turn alone."""
    ladder: Name | None = None
    """The ladder this level belongs to; set where concurrency or request_rate is a list."""
    input_tokens: Count | None = None
    """Tokens of a prompt."""
    output_tokens: Count | None = None
    """Tokens of an answer."""
    groups: Count | None = None
    """Prefix groups of generated-shared-prefix."""
    prompts_per_group: Annotated[Count | None, _LADDER] = None
    """Prompts that share one prefix."""
    prefix_tokens: Annotated[int, Field(ge=0)] | None = None
    """Tokens shared by the prompts of a group."""
    seed: Annotated[int, Field(ge=0)] = 1
    """Window w uses seed + w in every arm."""
    slo: Annotated[
        dict[
            Literal["ttft_ms", "tpot_ms", "e2e_ms"],
            Positive | dict[Literal["p50", "p90", "p95", "p99"], Positive],
        ],
        PlainSerializer(lambda slo: slo),  # as written: a union of numbers warns of whole ones
    ] = {}
    """Service-level objectives `ttft_ms`, `tpot_ms`, `e2e_ms`: a limit, which is one for p99, or limits by percentile
    ({p95: 500}). goodput counts the requests that meet all of them, attainment is their share, and slo_margin the least
    of limit over measured percentile: at 1 and above the objectives are met."""
    bench_flags: Flags = {}
    """Further flags of sglang.benchmark.serving, names without "--"."""

    @property
    def requests(self) -> int:
        """Requests in one window; conversations, where they have turns."""
        if self.dataset == "generated-shared-prefix":
            return (self.groups or 1) * (self.prompts_per_group or 1)
        return self.prompts or 1


Metric = Literal[
    "output_throughput", "request_throughput", "total_throughput", "goodput", "slo_margin", "joules_per_token",
    "mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "median_tpot_ms", "p99_tpot_ms",
    "mean_itl_ms", "p99_itl_ms", "mean_e2e_latency_ms", "p99_e2e_latency_ms",
]  # fmt: skip


class Primary(Declared):
    """The workload and metric that decide the verdict; every other one is shown and not tested."""

    workload: str
    metric: Metric
    level: Positive | None = None
    """The level of a ladder, where workload names one."""


class Design(Declared):
    """How many launches, and what counts as an effect; effects are relative, so 0.02 is 2 %."""

    primary: Primary
    """The workload and metric that decide the verdict; every other one is shown and not tested."""
    mode: Literal["fixed", "adaptive"] = "fixed"
    """adaptive stops an arm when its verdict is settled."""
    blocks: Annotated[int, Field(ge=1, le=200)] = 6
    """Blocks of fresh launches (fixed mode)."""
    max_blocks: Annotated[int, Field(ge=2, le=40)] = 10
    """The most blocks adaptive mode may use."""
    windows: Count = 3
    """Timed passes of each workload in a launch; averaged."""
    seed: Annotated[int, Field(ge=0)] = 1
    """Order of launches within each block."""
    smallest_effect: Annotated[Number, Field(gt=0, lt=1)] = 0.02
    """Smallest relative effect of interest; 0.02 is 2 %."""
    alpha: Share = 0.05
    """Family-wise error rate of the campaign's verdicts."""
    contemporary_hours: Positive = 24
    """A variant's launch and its block's baseline must start within this many hours of each other, on the same
    GPUs."""
    baselines: Annotated[int, Field(ge=2, le=8)] = 2
    """Launches of the baseline in each block, A and A' among them. About the root of the number of variants takes the
    fewest launches for the same certainty."""
    aa_alpha: Share = 0.01
    """The A/A' pair voids the session below this p-value."""
    assumed_launch_s: Positive = 180
    """Seconds a launch is expected to take, for the estimate before anything was measured here."""

    @property
    def planned_blocks(self) -> int:
        """The most blocks that may be launched."""
        return self.max_blocks if self.mode == "adaptive" else self.blocks


class MeantFor(Declared):
    """The hardware the campaign was written for."""

    gpu: str
    """The GPU's name."""
    gpu_count: Count
    compute_capability: Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]$")]
    """As text, for example '12.0'."""
    nvlink: bool | None = None
    """Every pair of GPUs is joined by NVLink."""
    p2p: bool | None = None
    """Every pair of GPUs can read each other's memory."""


class Forbidden(Declared):
    """What must never run on this campaign's host."""

    reason: str = "the campaign forbids it"
    """Why; said to whoever asks for it."""
    flags: Items[str] = ()
    env: Items[str] = ()


class Collectives(Declared):
    """Collectives measured alone."""

    sizes_bytes: Items[Count] | None = None
    """Message sizes."""
    settings: dict[str, MovedEnvironment] | None = None
    """Named NCCL environments to compare, for example ring against tree."""
    repeats: Annotated[int, Field(ge=3)] | None = None
    """Timings of each size."""


class Profile(Declared):
    """How profile launches are made."""

    steps: Count = 4
    """Scheduler steps recorded for each stage."""
    size_limit_mb: Positive = 512
    """Traces beyond this are not kept."""
    timeout_s: Positive = 180
    """How long to wait for the traces."""
    nsys: bool = False
    """Also record with Nsight Systems, where it is installed; nsys.nsys-rep lies beside profile.json."""
    nccl_log: bool = False
    """Also log NCCL's choices (NCCL_DEBUG=INFO with TUNING); far too loud for a measured launch."""


class CampaignFile(Declared):
    """One question on one host. A baseline, variants, workloads and a design. File name = campaign name."""

    extends: str | None = None
    """Another campaign of the same folder whose keys this one starts from."""
    question: Annotated[str, Field(min_length=10)]
    """One sentence; opens the report."""
    notes: str | None = None
    """What the engineer keeps beside the numbers, such as prior findings to compare with; Markdown, shown in
    the report. Not taken over by `extends`."""
    stack: str
    """Software the servers run in, a folder under envs/."""
    model: Annotated[Model, Field(description=_MODEL)]
    baseline: Baseline
    """What every variant is compared with."""
    variants: Items[DeclaredVariant] = ()
    """The baseline plus one declared change each."""
    workloads: Annotated[Items[Workload], Field(min_length=1)]
    """What is asked of every launch."""
    design: Design
    """How many launches, and what counts as an effect."""
    meant_for: MeantFor | None = None
    """The hardware the campaign was written for. On a host without GPUs the plan predicts for this one, and
    says so."""
    forbidden: Forbidden = Forbidden()
    """What must never run on this campaign's host, with the reason; a variant that asks for it is a
    configuration error."""
    communication: Collectives | None = None
    """Also measure the collectives alone, on the ranks and stack of the baseline."""
    profile: Profile = Profile()
    """How profile launches are made."""

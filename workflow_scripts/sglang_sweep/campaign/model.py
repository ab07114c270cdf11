"""A campaign as declared: its variants with every inherited setting resolved, its workloads and design."""

import copy
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sglang_sweep.campaign.checks import PRIME, semantic_problems
from sglang_sweep.errors import UserError, UserErrors
from sglang_sweep.files import yaml_files

Flags = dict[str, Any]
Environment = dict[str, str]
ModelSpec = str | dict[str, str]


@dataclass(frozen=True)
class Change:
    """What was declared to differ from the parent, as written in the campaign."""

    flags: Flags = field(default_factory=dict)
    env: dict[str, str | None] = field(default_factory=dict)
    stack: str | None = None
    model: ModelSpec | None = None
    patch: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Only what was declared, for reports."""
        return {name: value for name, value in vars(self).items() if value not in (None, {})}


@dataclass(frozen=True)
class Variant:
    """The baseline plus a declared change, with what it inherits resolved."""

    name: str
    parent: str | None
    hypothesis: str
    change: Change
    flags: Flags
    env: Environment
    stack: str
    model: ModelSpec
    proof: tuple[str, ...] = ()
    tolerance: str | None = None
    declares: tuple[str, ...] = ()
    profile: bool = False
    speculation: str | None = None
    blocks: int | None = None

    @property
    def planned_only(self) -> bool:
        """Declared and not to be launched: put off, or no stack carries the source patch it needs."""
        return self.blocks == 0 or (self.change.patch is not None and self.change.stack is None)

    @property
    def why_planned(self) -> str:
        """What a variant that is only planned waits for."""
        return "put off: blocks is 0" if self.blocks == 0 else f"needs a patch: {self.change.patch}"


@dataclass(frozen=True)
class Workload:
    """What is asked of a launch. Lengths are in tokens, rates in requests per second, objectives in ms."""

    name: str
    dataset: str
    concurrency: int
    seed: int = 1
    prompts: int | None = None
    request_rate: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    groups: int | None = None
    prompts_per_group: int | None = None
    prefix_tokens: int | None = None
    path: str | None = None
    slo: dict[str, float] = field(default_factory=dict)
    bench_flags: Flags = field(default_factory=dict)

    @property
    def requests(self) -> int:
        """Requests in one window."""
        if self.dataset == "generated-shared-prefix":
            return (self.groups or 1) * (self.prompts_per_group or 1)
        return self.prompts or 1


@dataclass(frozen=True)
class Design:
    """How launches are arranged and what counts as an effect; relative effects, so 0.02 is 2 %."""

    primary_workload: str
    primary_metric: str
    mode: str = "fixed"
    blocks: int = 6
    max_blocks: int = 10
    windows: int = 3
    seed: int = 1
    smallest_effect: float = 0.02
    alpha: float = 0.05
    aa_alpha: float = 0.01
    contemporary_hours: float = 24.0
    assumed_launch_s: float = 180.0

    @property
    def planned_blocks(self) -> int:
        """The most blocks that may be launched."""
        return self.max_blocks if self.mode == "adaptive" else self.blocks


@dataclass(frozen=True)
class Campaign:
    """One question on one host."""

    name: str
    file: Path
    question: str
    baseline: Variant
    variants: tuple[Variant, ...]
    workloads: tuple[Workload, ...]
    design: Design
    communication: dict[str, Any] | None = None
    forbidden: dict[str, Any] = field(default_factory=dict)
    profile: dict[str, Any] = field(default_factory=dict)
    meant_for: dict[str, Any] | None = None
    notes: str | None = None

    @property
    def all_variants(self) -> tuple[Variant, ...]:
        """Baseline first."""
        return (self.baseline, *self.variants)

    def variant(self, name: str) -> Variant:
        """The variant of that name; the A' arm is the baseline."""
        name = name.removesuffix(PRIME)
        return next(variant for variant in self.all_variants if variant.name == name)

    @property
    def stacks(self) -> list[str]:
        """Names of all stacks that something runs in, the baseline's first."""
        return list(dict.fromkeys(v.stack for v in self.all_variants if not v.planned_only))


def load_campaign(name: str, folder: Path = Path("config/campaigns")) -> Campaign:
    """Reads and checks ``<folder>/<name>.yaml``. Raises UserError(s) naming file, key, reason and remedy."""
    file = folder / f"{name}.yaml"
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
        raise UserError(
            f"{name!r} is not a campaign name", file=file, remedy="lower-case letters, digits, dashes"
        )
    if not file.exists():
        known = sorted(path.stem for path in folder.glob("*.yaml"))
        raise UserError("there is no such campaign", file=file, remedy=f"known campaigns: {', '.join(known)}")
    raw = _with_extends(file)
    yaml_files.check(raw, "campaign", file)
    problems = list(semantic_problems(raw, file))
    if problems:
        raise UserErrors(problems)
    return _build(name, file, raw)


def _with_extends(file: Path, seen: tuple[Path, ...] = ()) -> dict[str, Any]:
    if file in seen:
        raise UserError("extends itself", file=file, key="extends", remedy="break the circle")
    raw = yaml_files.read_yaml(file)
    if not isinstance(raw, dict):
        raise UserError("a campaign is a mapping of keys", file=file, remedy="see config/README.md")
    base_name = raw.pop("extends", None)
    if base_name is None:
        return raw
    base_file = file.parent / f"{base_name}.yaml"
    if not base_file.exists():
        raise UserError(f"no campaign {base_name!r} to extend", file=file, key="extends")
    base = _with_extends(base_file, (*seen, file))
    base.pop("notes", None)  # what was found in another campaign was not found in this one
    merged: dict[str, Any] = _merge(base, raw)
    return {key: value for key, value in merged.items() if value is not None}


def _merge(base: Any, over: Any) -> Any:
    """Mappings merge by key, lists of named items by name; ``{name: x, drop: true}`` removes one.

    A key that is null is the caller's to remove: under flags and env it takes away the parent's.
    """
    if isinstance(base, dict) and isinstance(over, dict):
        merged = copy.deepcopy(base)
        for key, value in over.items():
            merged[key] = _merge(base[key], value) if key in base else value
        return merged
    if _named(base) and _named(over):
        items = {item["name"]: item for item in base}
        for item in over:
            if item.get("drop"):
                items.pop(item["name"], None)
            else:
                items[item["name"]] = _merge(items.get(item["name"], {}), item)
        return list(items.values())
    return over


def _named(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) and "name" in item for item in value)


def _build(name: str, file: Path, raw: dict[str, Any]) -> Campaign:
    base = raw["baseline"]
    baseline = Variant(
        name=base["name"],
        parent=None,
        hypothesis=base.get("hypothesis", "what is served today"),
        change=Change(),
        flags={k: v for k, v in base["flags"].items() if v is not None},
        env={k: v for k, v in base["env"].items() if v is not None},
        stack=raw["stack"],
        model=raw["model"],
        profile=base["profile"],
    )
    variants: dict[str, Variant] = {baseline.name: baseline}
    for item in raw.get("variants", []):
        parent = variants[item.get("parent", baseline.name)]
        change = Change(**item["change"])
        variants[item["name"]] = Variant(
            name=item["name"],
            parent=parent.name,
            hypothesis=" ".join(item["hypothesis"].split()),
            change=change,
            flags=_overlaid(parent.flags, change.flags),
            env=_overlaid(parent.env, change.env),
            stack=change.stack or parent.stack,
            model=change.model or parent.model,
            proof=tuple(item.get("proof", ())),
            tolerance=item.get("tolerance"),
            declares=tuple(item.get("declares", ())),
            profile=item["profile"],
            speculation=item.get("speculation"),
            blocks=item.get("blocks"),
        )
    design = dict(raw["design"])
    primary = design.pop("primary")
    return Campaign(
        name=name,
        file=file,
        question=" ".join(raw["question"].split()),
        baseline=baseline,
        variants=tuple(list(variants.values())[1:]),
        workloads=tuple(Workload(**workload) for workload in raw["workloads"]),
        design=Design(primary_workload=primary["workload"], primary_metric=primary["metric"], **design),
        communication=raw.get("communication"),
        forbidden=raw.get("forbidden", {}),
        profile=raw["profile"],
        meant_for=raw.get("meant_for"),
        notes=raw.get("notes"),
    )


def _overlaid(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``over`` wins; ``null`` removes."""
    return {key: value for key, value in {**base, **over}.items() if value is not None}

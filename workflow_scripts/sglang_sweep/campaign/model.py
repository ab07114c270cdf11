"""A campaign as declared: its variants with every inherited setting resolved, its workloads and design."""

import copy
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglang_sweep.campaign import loads
from sglang_sweep.campaign.checks import PRIME, semantic_problems
from sglang_sweep.campaign.declared import (
    CampaignFile,
    Change,
    Design,
    Forbidden,
    Model,
    ModelSpec,
    Profile,
    Workload,
)
from sglang_sweep.errors import UserError, UserErrors
from sglang_sweep.files import yaml_files
from sglang_sweep.files.models import Declared
from sglang_sweep.files.places import RESERVED

Settings = dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """The baseline plus a declared change, with what it inherits resolved."""

    name: str
    parent: str | None
    hypothesis: str
    change: Change
    flags: Settings
    env: dict[str, str]
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
class Campaign:
    """One question on one host."""

    name: str
    file: Path
    question: str
    baseline: Variant
    variants: tuple[Variant, ...]
    workloads: tuple[Workload, ...]
    design: Design
    forbidden: Forbidden
    profile: Profile
    communication: Settings | None = None
    meant_for: Settings | None = None
    notes: str | None = None

    @property
    def all_variants(self) -> tuple[Variant, ...]:
        """Baseline first."""
        return (self.baseline, *self.variants)

    def variant(self, name: str) -> Variant:
        """The variant of that name; the A' arm is the baseline."""
        name = name.partition(PRIME)[0]
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
    if name in RESERVED:
        raise UserError(
            f"{name} is a folder of results, no campaign's name", file=file, remedy="rename the file"
        )
    if not file.exists():
        known = sorted(path.stem for path in folder.glob("*.yaml"))
        raise UserError("there is no such campaign", file=file, remedy=f"known campaigns: {', '.join(known)}")
    raw = loads.expanded(_with_extends(file))
    declared = CampaignFile.of(raw, file)
    problems = list(semantic_problems(declared, file))
    if problems:
        raise UserErrors(problems)
    return _resolved(name, file, declared)


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
        names = [item["name"] for item in over]
        if len(set(map(str, names))) < len(names):
            return [*base, *over]  # a name given twice is told, not merged with itself
        for item in over:
            if item.get("drop"):
                items.pop(item["name"], None)
            else:
                items[item["name"]] = _merge(items.get(item["name"], {}), item)
        return list(items.values())
    return over


def _named(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) and "name" in item for item in value)


def _resolved(name: str, file: Path, declared: CampaignFile) -> Campaign:
    base = declared.baseline
    baseline = Variant(
        name=base.name,
        parent=None,
        hypothesis=base.hypothesis,
        change=Change(),
        flags=_overlaid({}, base.flags),
        env=_overlaid({}, base.env),
        stack=declared.stack,
        model=_spec(declared.model),
        profile=base.profile,
    )
    variants: dict[str, Variant] = {baseline.name: baseline}
    for item in declared.variants:
        parent, change = variants[item.parent or baseline.name], item.change
        variants[item.name] = Variant(
            name=item.name,
            parent=parent.name,
            hypothesis=" ".join(item.hypothesis.split()),
            change=change,
            flags=_overlaid(parent.flags, change.flags),
            env=_overlaid(parent.env, change.env),
            stack=change.stack or parent.stack,
            model=_spec(change.model) if change.model else parent.model,
            **{key: getattr(item, key) for key in _OF_THE_VARIANT},
        )
    return Campaign(
        name=name,
        file=file,
        question=" ".join(declared.question.split()),
        baseline=baseline,
        variants=tuple(list(variants.values())[1:]),
        workloads=declared.workloads,
        design=declared.design,
        communication=_plain(declared.communication),
        forbidden=declared.forbidden,
        profile=declared.profile,
        meant_for=_plain(declared.meant_for),
        notes=declared.notes,
    )


_OF_THE_VARIANT = ("proof", "tolerance", "declares", "profile", "speculation", "blocks")


def _spec(model: Model) -> ModelSpec:
    return model if isinstance(model, str) else {k: v for k, v in model.model_dump().items() if v is not None}


def _plain(part: Declared | None) -> Settings | None:
    """As it was written, as data."""
    return None if part is None else part.model_dump(mode="json", exclude_unset=True)


def _overlaid(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``over`` wins; ``null`` removes."""
    return {key: value for key, value in {**base, **over}.items() if value is not None}

"""What a JSON Schema cannot say about a campaign: names, parents, workloads, what is forbidden here."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sglang_sweep.campaign.flags import ranks
from sglang_sweep.errors import UserError

PRIME = "-prime"
"""Suffix of the second baseline launch of a block, the A' arm: same key, another folder."""


def semantic_problems(raw: dict[str, Any], file: Path) -> Iterable[UserError]:
    """Every mistake in a campaign that fits the schema, with file, key and remedy."""
    baseline = raw["baseline"]["name"]
    seen: dict[str, str] = {baseline.casefold(): "baseline.name"}
    for index, variant in enumerate(raw.get("variants", [])):
        key, name = f"variants[{index}].name", variant["name"]
        if name.casefold() in seen:
            yield UserError(
                f"{name!r} is also the name at {seen[name.casefold()]}",
                file=file,
                key=key,
                remedy="rename one",
            )
        elif name.endswith(PRIME):
            yield UserError(
                f"names ending in {PRIME!r} belong to the A' arm", file=file, key=key, remedy="rename it"
            )
        parent = variant.get("parent", baseline)
        if parent.casefold() not in seen:
            yield UserError(
                f"unknown parent {parent!r}",
                file=file,
                key=f"variants[{index}].parent",
                remedy=f"name the baseline or a variant above this one: {', '.join([baseline, *list(seen)[1:]])}",
            )
        seen.setdefault(name.casefold(), key)
    workloads = [workload["name"] for workload in raw["workloads"]]
    for index, workload in enumerate(raw["workloads"]):
        if workloads.index(workload["name"]) != index:
            yield UserError(f"{workload['name']!r} stands twice", file=file, key=f"workloads[{index}].name")
        yield from _workload_problems(workload, file, f"workloads[{index}]")
    primary = raw["design"]["primary"]
    chosen = next((w for w in raw["workloads"] if w["name"] == primary["workload"]), None)
    if chosen is None:
        yield UserError(
            f"no workload is called {primary['workload']!r}",
            file=file,
            key="design.primary.workload",
            remedy=f"one of {', '.join(workloads)}",
        )
    elif primary["metric"] == "goodput" and not chosen.get("slo"):
        yield UserError(
            "goodput needs service-level objectives", file=file, key="design.primary.metric",
            remedy=f"give the workload {chosen['name']!r} an slo",
        )  # fmt: skip
    wrong = list(_rank_problems(raw, file))
    yield from wrong
    if "communication" in raw and not wrong and ranks(raw["baseline"]["flags"]) == 1:
        yield UserError(
            "one rank has nobody to communicate with", file=file, key="communication",
            remedy="raise the baseline's tp-size, or remove the key (communication: null where it is inherited)",
        )  # fmt: skip
    yield from _forbidden_problems(raw, file)


_NEEDS = {
    "random-ids": ("prompts", "input_tokens", "output_tokens"),
    "generated-shared-prefix": (
        "groups",
        "prompts_per_group",
        "prefix_tokens",
        "input_tokens",
        "output_tokens",
    ),
    "custom": ("path", "prompts"),
}


def _workload_problems(workload: dict[str, Any], file: Path, key: str) -> Iterable[UserError]:
    needs = _NEEDS[workload["dataset"]]
    for missing in (name for name in needs if name not in workload):
        yield UserError(
            f"{workload['dataset']} needs {missing!r}",
            file=file,
            key=key,
            remedy=f"needed: {', '.join(needs)}",
        )
    if workload["dataset"] == "custom" and "path" in workload and not Path(workload["path"]).exists():
        yield UserError(f"no such file {workload['path']!r}", file=file, key=f"{key}.path")


def _settings(raw: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Where flags and variables are written, with the key that leads there: the baseline and every change."""
    changes = [(f"variants[{i}].change", v["change"]) for i, v in enumerate(raw.get("variants", []))]
    return [("baseline", raw["baseline"]), *changes]


def _rank_problems(raw: dict[str, Any], file: Path) -> Iterable[UserError]:
    for key, item in _settings(raw):
        try:
            ranks(item.get("flags") or {})
        except UserError as error:
            yield UserError(error.message, file=file, key=f"{key}.flags.{error.key}", remedy=error.remedy)


def _forbidden_problems(raw: dict[str, Any], file: Path) -> Iterable[UserError]:
    forbidden = raw.get("forbidden", {})
    reason = forbidden.get("reason", "it is listed under forbidden")
    for key, item in _settings(raw):
        for kind in ("flags", "env"):
            asked = {name for name, value in (item.get(kind) or {}).items() if value is not None}
            for name in asked & set(forbidden.get(kind, [])):
                yield UserError(
                    f"{name} must not run here: {reason}", file=file, key=f"{key}.{kind}", remedy="remove it"
                )

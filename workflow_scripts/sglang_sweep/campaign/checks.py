"""What no single key can say about a campaign: names, parents, workloads, what is forbidden here."""

from collections.abc import Iterable
from pathlib import Path

from sglang_sweep.campaign import loads
from sglang_sweep.campaign.declared import Baseline, CampaignFile, Change, Workload
from sglang_sweep.campaign.flags import ranks
from sglang_sweep.errors import UserError

PRIME = "-prime"
"""What follows the baseline's name in its further launches of a block: -prime (A'), -prime-3, ..."""
"""Suffix of the second baseline launch of a block, the A' arm: same key, another folder."""


def semantic_problems(raw: CampaignFile, file: Path) -> Iterable[UserError]:
    """Every mistake in a campaign whose keys are each right, with file, key and remedy."""
    baseline = raw.baseline.name
    seen = [baseline]
    for variant in raw.variants:
        name = variant.name
        key = f"variants[{name}].name"
        if name in seen:
            whose = "the baseline's name" if name == baseline else "the name of a variant above"
            yield UserError(f"{name!r} is also {whose}", file=file, key=key, remedy="rename one")
        elif PRIME in name:
            yield UserError(
                f"names with {PRIME!r} belong to the A' arm and the baseline's further launches",
                file=file,
                key=key,
                remedy="rename it",
            )
        if variant.parent is not None and variant.parent not in seen:
            yield UserError(
                f"unknown parent {variant.parent!r}",
                file=file,
                key=f"variants[{name}].parent",
                remedy=f"name the baseline or a variant above this one: {', '.join(seen)}",
            )
        seen.append(name)
    workloads = [workload.name for workload in raw.workloads]
    for index, workload in enumerate(raw.workloads):
        if workloads.index(workload.name) != index:
            yield UserError(
                f"{workload.name!r} stands twice",
                file=file,
                key=f"workloads[{workload.name}].name",
                remedy="rename one",
            )
        yield from _workload_problems(workload, file, f"workloads[{workload.name}]")
    primary = raw.design.primary
    chosen = next((w for w in raw.workloads if w.name == primary.workload), None)
    if chosen is None:
        yield UserError(
            f"no workload is called {primary.workload!r}",
            file=file,
            key="design.primary.workload",
            remedy=f"one of {', '.join(workloads)}",
        )
    elif primary.metric in ("goodput", "slo_margin") and not chosen.slo:
        yield UserError(
            f"{primary.metric} needs service-level objectives", file=file, key="design.primary.metric",
            remedy=f"give the workload {chosen.name!r} an slo",
        )  # fmt: skip
    wrong = list(_rank_problems(raw, file))
    yield from wrong
    if raw.communication is not None and not wrong and ranks(raw.baseline.flags) == 1:
        yield UserError(
            "one rank has nobody to communicate with", file=file, key="communication",
            remedy="raise the baseline's tp-size, or remove the key (communication: null where it is inherited)",
        )  # fmt: skip
    yield from _forbidden_problems(raw, file)


def _workload_problems(workload: Workload, file: Path, key: str) -> Iterable[UserError]:
    needs = loads.KINDS[workload.dataset].needs
    for missing in (name for name in needs if getattr(workload, name) is None):
        yield UserError(
            f"{workload.dataset} needs {missing!r}",
            file=file,
            key=key,
            remedy=f"needed: {', '.join(needs)}",
        )
    if workload.path is not None and not Path(workload.path).exists():
        yield UserError(
            f"no such file {workload.path!r}",
            file=file,
            key=f"{key}.path",
            remedy="check the name for a typo",
        )
        return
    for where, wrong in loads.file_faults(workload):
        remedy = f"a file of {workload.dataset} is needed; config/README.md says what each kind of load holds"
        if where == "the file":
            yield UserError(f"{workload.path} {wrong}", file=file, key=f"{key}.path", remedy=remedy)
        else:
            yield UserError(f"{where} {wrong}", file=str(workload.path), remedy=remedy)


def _settings(raw: CampaignFile) -> list[tuple[str, Baseline | Change]]:
    """Where flags and variables are written, with the key that leads there: the baseline and every change."""
    return [("baseline", raw.baseline), *((f"variants[{v.name}].change", v.change) for v in raw.variants)]


def _rank_problems(raw: CampaignFile, file: Path) -> Iterable[UserError]:
    for key, item in _settings(raw):
        try:
            ranks(item.flags)
        except UserError as error:
            yield UserError(error.message, file=file, key=f"{key}.flags.{error.key}", remedy=error.remedy)


def _forbidden_problems(raw: CampaignFile, file: Path) -> Iterable[UserError]:
    for key, item in _settings(raw):
        for kind, given, banned in (
            ("flags", item.flags, raw.forbidden.flags),
            ("env", item.env, raw.forbidden.env),
        ):
            for name in banned:
                if given.get(name) is not None:
                    yield UserError(
                        f"{name} must not run here: {raw.forbidden.reason}",
                        file=file,
                        key=f"{key}.{kind}",
                        remedy="remove it",
                    )

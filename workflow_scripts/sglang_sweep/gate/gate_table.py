"""The gate's findings for people: a terminal table, Markdown, and one message per reason to refuse."""

import io
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sglang_sweep.campaign.model import Variant
from sglang_sweep.gate.findings import Finding
from sglang_sweep.gate.gate import fatal, runnable

WIDTH = 110
_ORDER = {"fail": 0, "warn": 1, "info": 2}
_STYLE = {"FAIL": "bold red", "warn": "yellow", "info": "cyan", "unknown": "magenta", "ok": "green"}


def word_of(finding: Finding) -> str:
    """``ok``, ``unknown``, or the severity of a failed check."""
    if finding.passed is None:
        return "unknown"
    if finding.passed:
        return "ok"
    return "FAIL" if finding.severity == "fail" else finding.severity


def render(findings: Sequence[Finding]) -> Table:
    """A rich table: what is not well first, each with reason, remedy and source; the rest in one line each."""
    table = Table(box=box.SIMPLE_HEAD, width=WIDTH, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("where", overflow="fold", max_width=26)
    table.add_column("what was checked, and found", overflow="fold")
    for finding, scopes in in_order(findings):
        word = word_of(finding)
        text = Text.assemble((finding.title, "bold"), f": {finding.found}")
        if finding.failed:
            text.append(f"\n{finding.why}\nRemedy: {finding.remedy}\nSource: {_source(finding)}", "dim")
        table.add_row(Text(word, _STYLE[word]), "\n".join(scopes), text)
    return table


def in_order(findings: Sequence[Finding]) -> list[tuple[Finding, list[str]]]:
    """Failed ones by severity, then those not decided, then the rest; equal answers once, with all scopes."""

    def rank(finding: Finding) -> int:
        if finding.failed:
            return _ORDER[finding.severity]
        return 3 if finding.passed is None else 4

    grouped: dict[tuple[Any, ...], tuple[Finding, list[str]]] = {}
    for finding in sorted(findings, key=rank):
        same = (finding.id, finding.passed, finding.severity, finding.found, finding.source)
        grouped.setdefault(same, (finding, []))[1].append(finding.scope)
    return list(grouped.values())


def as_text(renderable: Any) -> str:
    """A rich object as plain text of :data:`WIDTH` columns."""
    console = Console(file=io.StringIO(), width=WIDTH, color_system=None)
    console.print(renderable)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines())


def refusals(findings: Sequence[Finding], requested: Collection[str] | None = None) -> list[str]:
    """One message for each reason why what was asked for must not run here."""
    return [
        f"{finding.scope}: {finding.title}: {finding.found}.\n"
        f"  {finding.why}\n  remedy: {finding.remedy}\n  stops: {', '.join(finding.concerns)}"
        for finding in fatal(findings, requested)
    ]


def what_can_run(findings: Sequence[Finding], variants: Sequence[Variant]) -> list[str]:
    """Which variants can run here, and for the others what forbids it; variants with equal reasons together."""
    told: dict[str, list[str]] = {}
    for name, reasons in runnable(findings, variants).items():
        why = "; ".join(f"{reason.title}: {reason.found}" for reason in reasons)
        told.setdefault(f"cannot run here: {why}" if reasons else "can run here", []).append(name)
    for variant in variants:
        if variant.planned_only:
            told.setdefault(f"planned only, {variant.why_planned}", []).append(variant.name)
    return [f"{', '.join(names)}: {verdict}" for verdict, names in told.items()]


def headline(fp: Mapping[str, Any]) -> str:
    """One line that names the host."""
    gpus = fp["gpus"]
    if gpus:
        names = [gpu["name"] or "unnamed GPU" for gpu in gpus]
        devices = " + ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names))
        devices += f", driver {fp['driver']['version'] or '?'}, CUDA {fp['driver']['cuda'] or '?'}"
    else:
        devices = "no GPUs" if gpus == [] else "GPUs that cannot be read"
    cpu, memory = fp["cpu"], fp["memory"]["total_gib"]
    processor = f"{cpu['threads'] or '?'} threads of {cpu['model'] or 'an unknown processor'}"
    return f"{fp['hostname'] or 'this host'}: {devices}; {processor}, {memory or '?'} GiB; class {fp['class_digest']}"


def _source(finding: Finding) -> str:
    return f"{finding.source} ({finding.evidence})"

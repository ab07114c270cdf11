"""Writes all that a campaign's report folder holds, from the records of the steps before; nothing else is asked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import yaml

from sglang_sweep.costs.communication import read_curves
from sglang_sweep.files.launches import read_launch
from sglang_sweep.files.records import read_json
from sglang_sweep.report.answer import Campaign
from sglang_sweep.report.document import Document, Facts, Section, Terms
from sglang_sweep.report.figures import (
    figure_blocks,
    figure_latency,
    figure_profiles,
    figure_ratios,
    figure_speculation,
    figure_windows,
)
from sglang_sweep.report.markdown import markdown_of
from sglang_sweep.report.page import TEMPLATES, Page
from sglang_sweep.report.record import Declaration, Launch, ReportData, Verdicts
from sglang_sweep.report.sections import Pictures
from sglang_sweep.report.tables import write_tables
from sglang_sweep.report.view import report_of
from sglang_sweep.verdict import records


def read_campaign(results: Path, launches: Sequence[Path] | None = None) -> Campaign:
    """The campaign whose results lie in ``results``; its launches are those given, or all that are there."""
    found = sorted(results.glob("launches/*/block-*/launch.json")) if launches is None else launches
    return Campaign(
        Verdicts.model_validate(records.Verdicts.read(results / "verdicts.json").model_dump(mode="json")),
        Declaration.model_validate(read_json(results / "declaration.json")),
        ReportData.read(results / "report.json"),
        [Launch.model_validate(read_launch(path).as_read()) for path in found if path.exists()],
    )


def write_documents(
    results: Path, launches: Sequence[Path], folder: Path, communication: Path | None = None
) -> None:
    """Writes findings.md, index.html, figures and tables of ``results`` (``results/<campaign>``) into ``folder``."""
    campaign = read_campaign(results, launches)
    folder.mkdir(parents=True, exist_ok=True)
    document = explained(report_of(campaign, draw(campaign, folder, communication)))
    (folder / "findings.md").write_text(markdown_of(document, folder), encoding="utf-8")
    (folder / "index.html").write_text(Page(folder).html(document), encoding="utf-8")
    write_tables(campaign, folder)


def draw(campaign: Campaign, folder: Path, communication: Path | None) -> Pictures:
    """Every figure that has data, by its name; each is also saved as SVG."""
    beside = campaign.beside
    pictures = {
        "ratios": figure_ratios(campaign, folder / "ratios.svg"),
        "blocks": figure_blocks(campaign, folder / "blocks.svg"),
        "windows": figure_windows(campaign, folder / "windows.svg"),
    }
    if beside.profiles:
        pictures["profiles"] = figure_profiles(beside.profiles, folder / "profiles.svg")
    if beside.speculation:
        pictures["speculation"] = figure_speculation(beside.speculation, folder / "speculation.svg")
    if beside.communication and communication:
        pictures["communication"] = figure_latency(read_curves(communication), folder / "communication.svg")
    return pictures


def explained(document: Document) -> Document:
    """The document with "how to read this" at its end, and each term linked to it at its first use."""
    entries = yaml.safe_load((TEMPLATES / "terms.yaml").read_text(encoding="utf-8"))
    terms = {written: f"term-{n}" for n, entry in enumerate(entries) for written in entry["written"]}
    linked = Terms(terms).linked(document)
    rows = [(", ".join(entry["written"][:2]), entry["means"]) for entry in entries]
    last = Section("How to read this", "how-to-read", [Facts(rows, [f"term-{n}" for n in range(len(rows))])])
    return Document(linked.title, linked.question, linked.head, [*linked.sections, last])

"""Both documents of a campaign, from verdicts.json, report.json and the figures: nothing else is asked."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sglang_sweep.costs.communication import read_curves
from sglang_sweep.costs.communication_figure import figure_latency
from sglang_sweep.costs.speculation_figure import figure_accept_length
from sglang_sweep.files.records import read_json
from sglang_sweep.report.findings import write_findings
from sglang_sweep.report.page import write_page
from sglang_sweep.report.profile_figure import figure_profiles
from sglang_sweep.report.sections import Sections

CAPTIONS = ("Change against the baseline", "Launches over time", "Windows within launches")


def write_documents(
    verdicts: Path,
    beside: Path,
    figures: Sequence[Path],
    findings: Path,
    page: Path,
    communication: Path | None = None,
) -> None:
    """Writes findings.md and index.html; ``figures`` are ratios, blocks and windows, in this order."""
    concluded = read_json(verdicts)
    shown, more = draw_parts(Sections(**read_json(beside)), findings.parent, communication)
    drawn = dict(zip(CAPTIONS, figures, strict=True)) | more
    write_findings(concluded, findings, figures=drawn, sections=shown)
    write_page(concluded, page, figures=drawn, sections=shown)


def draw_parts(shown: Sections, folder: Path, communication: Path | None) -> tuple[Sections, dict[str, Path]]:
    """Draws the figures of the optional parts into ``folder``.

    Returns the sections with their figures named, and by caption those that no section places itself.
    """
    if shown.speculation:
        figure_accept_length(dict(shown.speculation), folder / "speculation")
        shown = replace(shown, speculation={**shown.speculation, "figure": str(folder / "speculation.svg")})
    if shown.communication and communication:
        figure_latency(read_curves(communication), folder / "communication")
        shown = replace(
            shown, communication={**shown.communication, "figure": str(folder / "communication.svg")}
        )
    if not shown.profiles:
        return shown, {}
    figure_profiles(dict(shown.profiles), folder / "profiles.svg")
    return shown, {"Where a step's time goes": folder / "profiles.svg"}

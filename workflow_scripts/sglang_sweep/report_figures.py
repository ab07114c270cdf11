"""Figures of the optional parts of a report: profiles, speculation, communication."""

from pathlib import Path

from sglang_sweep.report.profile_figure import figure_profiles
from sglang_sweep.report.sections import Sections
from sglang_sweep.traces.communication import read_curves
from sglang_sweep.traces.communication_figure import figure_latency
from sglang_sweep.traces.speculation_figure import figure_accept_length


def draw_parts(shown: Sections, folder: Path, communication: Path | None) -> dict[str, Path]:
    """Draws what ``shown`` names into ``folder``; returns the figures by caption that no section places itself."""
    if shown.speculation:
        figure_accept_length(dict(shown.speculation), folder / "speculation")
    if shown.communication and communication:
        figure_latency(read_curves(communication), folder / "communication")
    if not shown.profiles:
        return {}
    figure_profiles(dict(shown.profiles), folder / "profiles.svg")
    return {"Where a step's time goes": folder / "profiles.svg"}

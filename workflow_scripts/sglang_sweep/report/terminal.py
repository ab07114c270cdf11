"""Shows a campaign in the terminal at the end of a run: the answer, one line a variant, what was given up."""

from __future__ import annotations

from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sglang_sweep.report.answer import Campaign, answer_of
from sglang_sweep.report.document import plain
from sglang_sweep.report.escape import clean
from sglang_sweep.report.numbers import MISSING
from sglang_sweep.report.words import chip_class, kind_of, primary_change, reason

# Named terminal colours follow the reader's own theme; words and signs carry the meaning without them.
_COLOURS = {
    "win": "bold blue",
    "loss": "red",
    "same": "green",
    "doubt": "magenta",
    "mixed": "yellow",
    "old": "yellow",
}


def closing(campaign: Campaign, report: Path) -> RenderableType:
    """The answer with what makes it believable, the verdicts, and where the report is."""
    answer = answer_of(campaign)
    said = [Text(clean(f"\n{campaign.verdicts.campaign}: {answer.headline}"), style="bold")]
    for label, words in (("Given up", answer.given_up), ("Noise here", answer.noise)):
        if words:
            said.append(Text(clean(f"{label}: {words}")))
    parts: list[RenderableType] = [*said, verdict_table(campaign)]
    if campaign.planned:
        parts.append(Text(clean(f"Not measured yet: {', '.join(v.name for v in campaign.planned)}")))
    return Group(
        *parts, Text(f"{report / 'index.html'} (the command to copy, evidence) · {report / 'findings.md'}")
    )


def verdict_table(campaign: Campaign) -> Table:
    """One row a variant that was launched or is known to fail; numbers not believed are dimmed."""
    table = Table(box=None, pad_edge=False, expand=True, padding=(0, 2, 0, 0))
    table.add_column("variant", no_wrap=True, header_style="dim")
    table.add_column("verdict", no_wrap=True, header_style="dim")
    table.add_column("change (95 % interval)", no_wrap=True, header_style="dim")
    table.add_column("why", header_style="dim", ratio=1)
    for v in (*campaign.candidates, *campaign.controls):
        if campaign.controls and v is campaign.controls[0]:
            table.add_section()
            table.add_row("", "", "", Text("controls, none a way to serve:", style="dim"))
        kind = kind_of(v.verdict)
        change = (
            "".join(s.text for s in primary_change(v, campaign.metric).words(way=False))
            if v.ratio
            else MISSING
        )
        prediction = next((p for p in campaign.beside.predictions if p.variant == v.name), None)
        table.add_row(
            Text(clean(v.name)),
            Text(f"{kind.glyph} {v.verdict}", style=_COLOURS.get(chip_class(v), "")),
            Text(change, style="" if kind.believed else "dim"),
            Text(clean(plain(reason(v, campaign.smallest, campaign.metric, prediction)))),
        )
    return table

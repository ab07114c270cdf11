"""Shows the verdicts in the terminal at the end of a run, one line a variant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from sglang_sweep.report.answer import answer
from sglang_sweep.report.escape import clean
from sglang_sweep.report.numbers import MISSING, change_interval, signed_percent
from sglang_sweep.report.words import BELIEVED, GLYPHS, ORDER, elsewhere_words, meaning, reading_order
from sglang_sweep.verdict.decision import VERDICTS, Verdict

# Named terminal colours follow the reader's own theme; words and glyphs carry the meaning without them.
_COLOURS = {"win": "bold blue", "loss": "red", "same": "green", "doubt": "magenta", "old": "yellow"}


def verdict_table(verdicts: Mapping[str, Any]) -> Table:
    """Return the verdicts as a rich table titled with the answer; numbers not believed are dimmed.

    Below it stands what another workload says against a verdict: the last column is cut to the terminal's width.
    """
    table = Table(
        title=clean(answer(verdicts)[0]),
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        expand=True,
    )
    for header, options in (
        ("variant", {"no_wrap": True}),
        ("verdict", {"no_wrap": True}),
        ("change", {"justify": "right", "no_wrap": True}),
        ("95 % interval", {"justify": "right", "no_wrap": True}),
        ("blocks", {"justify": "right"}),
        ("what it means", {"no_wrap": True, "overflow": "ellipsis", "ratio": 1}),
    ):
        table.add_column(header, header_style="dim", **options)
    smallest = (verdicts.get("design") or {}).get("smallest_effect")
    for variant in reading_order(list(verdicts["variants"])):
        verdict, value = str(variant["verdict"]), variant.get("ratio")
        style = "" if verdict in BELIEVED else "dim"
        table.add_row(
            Text(clean(variant["name"])),
            Text(f"{GLYPHS.get(verdict, ' ')} {verdict}", style=_colour(verdict)),
            Text(signed_percent(None if value is None else value - 1), style=style),
            Text(change_interval(variant.get("ci95")), style=style),
            Text(str(variant.get("blocks") or MISSING), style=style),
            Text(clean(meaning(variant, smallest))),
        )
    against = [
        f"{variant['name']}: {elsewhere}"
        for variant in reading_order(list(verdicts["variants"]))
        if (elsewhere := elsewhere_words(variant, smallest))
    ]
    if against:
        table.caption = Text(clean("Against its verdict, " + "; ".join(against)))
        table.caption_justify = "left"
    return table


def _colour(verdict: str) -> str:
    return _COLOURS.get(VERDICTS[Verdict(verdict)].colour, "") if verdict in ORDER else ""

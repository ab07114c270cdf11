"""Gives every verdict and arm a colour and a marker shape that stay apart without colour vision."""

from __future__ import annotations

from sglang_sweep.verdict.decision import VERDICTS

# Written into a figure, so that the page knows it for one whose colours it may change.
CREATOR = "sglang-sweep"

# Okabe and Ito (2008), the orange darkened and the greys chosen so that each has a contrast of at least 3:1
# on white and on the dark page alike: the same picture serves both.
INK = "#1f2328"
MUTED = "#75808a"
PAPER = "#ffffff"

COLOURS = {
    "win": "#0072b2",
    "loss": "#d55e00",
    "same": "#009e73",
    "open": "#7f7f7f",
    "doubt": "#b5679a",
    "old": "#a87900",
}

VERDICT = {str(verdict): (COLOURS[about.colour], about.marker) for verdict, about in VERDICTS.items()}

ARM_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b5679a", "#a87900", "#4a97c9", "#8a6d5b", "#5f7d4f")
ARM_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")


def arm_style(index: int) -> tuple[str, str]:
    """Return colour and marker of the arm with this number: pairs repeat only after 88 arms."""
    return ARM_COLOURS[index % len(ARM_COLOURS)], ARM_MARKERS[index % len(ARM_MARKERS)]


# What a colour becomes inside the page, whose style sheet has a lighter set for the dark.
ON_PAGE = {
    INK: "currentColor",
    MUTED: "var(--muted)",
    PAPER: "var(--paper)",
    **{colour: f"var(--{name})" for name, colour in COLOURS.items()},
}

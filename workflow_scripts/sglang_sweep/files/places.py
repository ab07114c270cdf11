"""Where what was measured lies: under its own name and key, whichever campaign asked for it.

``folder`` is an arm's ``<name>-<key>``, ``results`` the folder ``results``. Trees of versions before 0.2 hold the same
below ``results/<campaign>/``; they are read where they are.
"""

from pathlib import Path

RESERVED = ("launches", "profiles", "communication", "stacks", "bundles", "logs")
"""Names in ``results`` that no campaign can have."""


def launch_files(results: Path, folder: str) -> dict[int, Path]:
    """Every launch.json of an arm that is there, by block."""
    found: dict[int, Path] = {}
    for path in sorted(results.glob(f"*/launches/{folder}/block-*/launch.json")) + sorted(
        results.glob(f"launches/{folder}/block-*/launch.json")
    ):
        block = path.parent.name.removeprefix("block-")
        if block.isdigit():  # and no block-1.bak
            found[int(block)] = path
    return dict(sorted(found.items()))


def launch_file(results: Path, folder: str, block: int) -> Path:
    """Where a launch that is still to be made will lie."""
    return results / "launches" / folder / f"block-{block}" / "launch.json"


def profile_file(results: Path, folder: str) -> Path:
    """profile.json of an arm, there or still to be made."""
    return _there_or(results, Path("profiles") / folder / "profile.json")


def collectives_file(results: Path, folder: str, asked: str) -> Path:
    """The collectives measured alone for an arm; ``asked`` is the digest of what was asked."""
    return _there_or(results, Path("communication") / folder / f"{asked}.json")


def _there_or(results: Path, place: Path) -> Path:
    older = sorted(results.glob(f"*/{place}"))
    return older[0] if older and not (results / place).exists() else results / place

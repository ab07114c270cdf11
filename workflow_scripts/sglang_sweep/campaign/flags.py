"""Flag names checked against one SGLang version before any GPU time is spent.

SGLang's parser is argparse with prefix matching on, so ``--mem-fraction 0.9`` is silently accepted as
``--mem-fraction-static``: only exact names are let through here.
"""

import json
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from packaging.version import Version

from sglang_sweep.errors import UserError

TABLES = Path(__file__).parents[3] / "config" / "knowledge" / "flags"

RENAMED = {
    "cuda-graph-max-bs": "cuda-graph-max-bs-decode",
    "cuda-graph-bs": "cuda-graph-bs-decode",
    "enable-flashinfer-allreduce-fusion": "flashinfer-allreduce-fusion-backend",
    "tp": "tp-size",
    "dp": "dp-size",
    "ep": "ep-size",
}
"""Names that near-match the wrong thing or nothing; seen in sglang.md section 1.3."""


@dataclass(frozen=True)
class FlagTable:
    """The long options of one SGLang version; ``note`` says when it is a neighbour's."""

    version: str
    names: frozenset[str]
    deprecated: frozenset[str]
    note: str | None = None


def recorded_table(version: str, folder: Path = TABLES) -> FlagTable:
    """The table recorded for ``version``, or the nearest recorded version's with a note."""
    recorded = {path.stem: path for path in folder.glob("*.txt")}
    if version in recorded:
        return _read(version, recorded[version])
    wanted = Version(version)
    older = [v for v in recorded if Version(v) <= wanted]
    nearest = max(older, key=Version) if older else min(recorded, key=Version)
    table = _read(nearest, recorded[nearest])
    return FlagTable(
        nearest, table.names, table.deprecated, f"no flag table for SGLang {version}; {nearest}'s was used"
    )


def known_to_any_version(name: str, folder: Path = TABLES) -> bool:
    """Whether some recorded SGLang has the flag."""
    return any(name in _read(path.stem, path).names for path in folder.glob("*.txt"))


@cache
def _read(version: str, path: Path) -> FlagTable:
    rows = [line.split() for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return FlagTable(
        version,
        frozenset(row[0] for row in rows),
        frozenset(row[0] for row in rows if "deprecated" in row[1:]),
    )


def unknown_flags(flags: dict[str, Any], table: FlagTable, file: Path, key: str) -> list[UserError]:
    """One error for each flag that this SGLang does not know by exactly this name."""
    errors = []
    for name in flags:
        bare = name.lstrip("-")
        if name != bare:
            errors.append(
                UserError(
                    f"flag {name!r} is written without dashes", file=file, key=key, remedy=f"write {bare}:"
                )
            )
        elif bare not in table.names:
            errors.append(
                UserError(
                    f"SGLang {table.version} has no flag --{bare}" + _prefix_warning(bare, table),
                    file=file,
                    key=f"{key}.{bare}",
                    remedy=_suggestion(bare, table),
                )
            )
    return errors


def _prefix_warning(name: str, table: FlagTable) -> str:
    matches = sorted(flag for flag in table.names if flag.startswith(name))
    if len(matches) == 1:
        return f" (argparse would silently take it for --{matches[0]})"
    return ""


def _suggestion(name: str, table: FlagTable) -> str:
    renamed = RENAMED.get(name)
    if renamed in table.names:
        return f"did you mean --{renamed}?"
    starting = sorted(flag for flag in table.names if flag.startswith(name))
    words = set(name.split("-"))
    sharing = sorted(table.names, key=lambda flag: (-len(words & set(flag.split("-"))), flag))[:1]
    close = starting[:1] or get_close_matches(name, table.names, n=1, cutoff=0.6) or sharing
    return f"did you mean --{close[0]}?"


def ranks(flags: dict[str, Any]) -> int:
    """Processes that serve one replica of the model: tensor x pipeline ranks. Raises UserError for no number."""
    return _count(flags, "tp-size", "tensor-parallel-size") * _count(
        flags, "pp-size", "pipeline-parallel-size"
    )


def _count(flags: dict[str, Any], *names: str) -> int:
    """The value of the first of several names of one flag, 1 where none is given."""
    given = [(name, flags[name]) for name in names if flags.get(name) is not None]
    for name, value in given:
        if not (str(value).isdigit() and int(value) > 0):
            raise UserError(f"{value!r} is no number of ranks", key=name, remedy="a whole number from 1 on")
    return int(given[0][1]) if given else 1


def command_line(flags: dict[str, Any]) -> list[str]:
    """``{"tp-size": 2, "skip": True}`` to ``["--skip", "--tp-size", "2"]``, sorted by name."""
    words: list[str] = []
    for name, value in sorted(flags.items()):
        if value is None or value is False:
            continue
        words.append(f"--{name}")
        if value is True:
            continue
        if isinstance(value, list):
            words.extend(str(item) for item in value)
        elif isinstance(value, dict):
            words.append(json.dumps(value, sort_keys=True, separators=(",", ":")))
        else:
            words.append(str(value))
    return words

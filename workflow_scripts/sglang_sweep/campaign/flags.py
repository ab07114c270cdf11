"""SGLang's flags and variables, checked against one version's own parser before any GPU time is spent.

SGLang's parser is argparse with prefix matching on, so ``--mem-fraction 0.9`` is silently accepted as
``--mem-fraction-static``: only exact names are let through here.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from packaging.version import Version

from sglang_sweep.errors import UserError

KNOWLEDGE = Path(__file__).parents[3] / "config" / "knowledge"
TABLES = KNOWLEDGE / "flags"

RENAMED = {
    "cuda-graph-max-bs": "cuda-graph-max-bs-decode",
    "cuda-graph-bs": "cuda-graph-bs-decode",
    "enable-flashinfer-allreduce-fusion": "flashinfer-allreduce-fusion-backend",
    "tp": "tp-size",
    "dp": "dp-size",
    "ep": "ep-size",
}
"""Names that near-match the wrong thing or nothing; seen in sglang.md section 1.3."""

OURS = {
    **dict.fromkeys(("host", "port"), "each launch binds a free port of its own on 127.0.0.1"),
    **dict.fromkeys(("model-path", "model"), "write model: beside the flags, or change.model"),
    "config": "write the flags of that file here, so that they enter the launch's key",
}
"""Flags that a campaign cannot set, with what to do instead."""

LARGEST = 2**63
"""No setting of SGLang is larger; such a number is a slip of the keyboard."""


@dataclass(frozen=True)
class Option:
    """One option of the parser. ``kind`` is flag (bare), bool (bare, or with ``no-``), int, float, size, str or any
    (JSON and what has a syntax of its own), followed by argparse's ``*``, ``+`` or ``?`` where it takes several."""

    names: tuple[str, ...]
    kind: str = "any"
    choices: frozenset[str] = frozenset()
    deprecated: bool = False


@dataclass(frozen=True)
class FlagTable:
    """The options of one SGLang version by each of their names; ``note`` says when it is a neighbour's."""

    version: str
    options: Mapping[str, Option] = field(repr=False)
    note: str | None = None

    @property
    def names(self) -> frozenset[str]:
        """Every name that the parser knows."""
        return frozenset(self.options)

    @property
    def settings(self) -> frozenset[str]:
        """The names under which /server_info shows the options: an attribute of ServerArgs each."""
        return frozenset(name.replace("-", "_") for name in self.options)


def table_of(version: str, rows: Iterable[str], note: str | None = None) -> FlagTable:
    """The table in rows of ``names<TAB>kind<TAB>choices<TAB>deprecated``; later columns may be left out."""
    options: dict[str, Option] = {}
    for row in rows:
        names, kind, choices, old = [*row.split("\t"), "", "", ""][:4]
        option = Option(tuple(names.split(",")), kind or "any", frozenset(choices.split()), bool(old))
        options |= dict.fromkeys(option.names, option)
        if option.kind == "bool":
            options |= {f"no-{name}": option for name in option.names}
    return FlagTable(version, options, note)


def recorded_table(version: str, folder: Path = TABLES) -> FlagTable:
    """The table recorded for ``version``, or the nearest recorded version's with a note."""
    recorded = {path.stem: path for path in folder.glob("*.tsv")}
    if version in recorded:
        return _read(version, recorded[version])
    wanted = Version(version)
    older = [v for v in recorded if Version(v) <= wanted]
    nearest = max(older, key=Version) if older else min(recorded, key=Version)
    note = f"no flag table for SGLang {version}; {nearest}'s was used"
    return FlagTable(nearest, _read(nearest, recorded[nearest]).options, note)


def known_to_any_version(name: str, folder: Path = TABLES) -> bool:
    """Whether some recorded SGLang has the flag."""
    return any(name in _read(path.stem, path).options for path in folder.glob("*.tsv"))


@cache
def _read(version: str, path: Path) -> FlagTable:
    return table_of(version, lines_of(path))


@cache
def lines_of(path: Path) -> tuple[str, ...]:
    """The lines of a list in the knowledge, without its comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


def flag_problems(flags: dict[str, Any], table: FlagTable, file: Path, key: str) -> list[UserError]:
    """One error for each flag that this SGLang does not know by exactly this name, or not with this value."""
    problems = []
    seen: dict[Option, str] = {}
    for name, value in flags.items():
        where, option = f"{key}.{name}", table.options.get(name)
        if name.startswith("-"):
            bare = name.lstrip("-")
            found = (f"flag {name!r} is written without dashes", f"write {bare}:")
        elif name in OURS:
            found = (f"--{name} is not a campaign's to set", OURS[name])
        elif option is None:
            message = f"SGLang {table.version} has no flag --{name}" + _prefix_warning(name, table)
            found = (message, _suggestion(name, table.names))
        elif option in seen:
            found = (f"--{name} and --{seen[option]} are one option of SGLang", "keep one of them")
        else:
            seen[option] = name
            wrong = None if value is None else _wrong_value(name, value, option)
            if wrong is None:
                continue
            found = wrong
        problems.append(UserError(found[0], file=file, key=where, remedy=found[1]))
    return problems


def _wrong_value(name: str, value: Any, option: Option) -> tuple[str, str] | None:
    """What is wrong with a value that is not null, and what to do; None when the parser would take it."""
    kind = option.kind.rstrip("*+?")
    if value is False:
        if kind == "bool":
            return None
        if kind == "flag":
            return (
                f"--{name} cannot be switched off: it has no --no-{name}",
                "null takes away a flag of the parent",
            )
        return f"--{name} takes a value, not false", "YAML reads no and off as false: put the word in quotes"
    if kind in ("flag", "bool"):
        return None if value is True else (f"--{name} takes no value, not {value!r}", f"write {name}: true")
    if value is True:
        return f"--{name} needs a value", "YAML reads yes and on as true: put the word in quotes"
    if isinstance(value, list):
        if option.kind[-1] not in "*+":
            return f"--{name} takes one value, not a list", "write one of them; a variant each for the others"
        return next((wrong for item in value if (wrong := _wrong_word(name, item, option, kind))), None)
    return _wrong_word(name, value, option, kind)


def _wrong_word(name: str, value: Any, option: Option, kind: str) -> tuple[str, str] | None:
    if kind in ("int", "size", "float"):
        number = _number(value, whole=kind != "float")
        if number is None and not (kind == "size" and isinstance(value, str) and value[:1].isdigit()):
            wanted = "a number" if kind == "float" else "a whole number"
            return f"--{name} takes {wanted}, not {value!r}", f"write {wanted}"
        if number is not None and not -1 <= number < LARGEST:
            return f"--{name} cannot be {value}", "a number from 0 on (some flags take -1 for none)"
    if option.choices and str(value) not in option.choices:
        return f"--{name} has no choice {value!r}", _suggestion(str(value), option.choices, dashes="")
    return None


def _number(value: Any, *, whole: bool) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number == number and not (whole and number != int(number)) else None


def _prefix_warning(name: str, table: FlagTable) -> str:
    matches = sorted(flag for flag in table.names if flag.startswith(name))
    if len(matches) == 1:
        return f" (argparse would silently take it for --{matches[0]})"
    return ""


def _suggestion(name: str, known: frozenset[str], dashes: str = "--") -> str:
    if (renamed := RENAMED.get(name)) in known:
        return f"did you mean {dashes}{renamed}?"
    starting = sorted(flag for flag in known if flag.startswith(name))
    close = starting[:1] or get_close_matches(name, known, n=1, cutoff=0.6)
    if not close and not dashes:
        return f"one of {', '.join(sorted(known))}"
    words = set(name.split("-"))
    close = close or sorted(known, key=lambda flag: (-len(words & set(flag.split("-"))), flag))[:1]
    return f"did you mean {dashes}{close[0]}?"


def variable_problems(env: Mapping[str, Any], file: str | Path, key: str) -> list[UserError]:
    """One error for each ``SGLANG_`` or ``NCCL_`` variable that nobody reads and that is nearly one that is read."""
    known = lines_of(KNOWLEDGE / "variables.txt")
    problems = []
    for name in env:
        if name.startswith(("SGLANG_", "NCCL_")) and name not in known:
            close = get_close_matches(name, known, n=1, cutoff=0.85)
            if close:
                problems.append(
                    UserError(
                        f"no version of SGLang or NCCL reads {name}",
                        file=file,
                        key=f"{key}.{name}",
                        remedy=f"did you mean {close[0]}? A variable of your own needs another name",
                    )
                )
    return problems


def client_flag_problems(flags: Mapping[str, Any], file: Path, key: str) -> list[UserError]:
    """One error for each flag that SGLang's load client does not have, or that is ours to set."""
    known = frozenset(lines_of(TABLES / "client.txt"))
    ours = [
        UserError(
            f"--{name} is not a campaign's: our client asks our server, and writes where its record is",
            file=file,
            key=f"{key}.{name}",
            remedy="remove it",
        )
        for name in flags
        if name in ("base-url", "host", "port", "output-file", "backend", "model", "tokenizer")
    ]
    return ours + [
        UserError(
            f"SGLang's load client has no flag --{name}",
            file=file,
            key=f"{key}.{name}",
            remedy=_suggestion(name, known),
        )
        for name in flags
        if name not in known
    ]


def ranks(flags: Mapping[str, Any]) -> int:
    """Processes that serve one replica of the model: tensor x pipeline ranks. Raises UserError for no number."""
    return _count(flags, "tp-size", "tensor-parallel-size") * _count(
        flags, "pp-size", "pipeline-parallel-size"
    )


def gpus_needed(flags: Mapping[str, Any]) -> int:
    """GPUs of all nodes together that a server with these flags uses.

    SGLang's rule (``ServerArgs`` and ``DataParallelController``): each of ``dp-size`` replicas has tensor x pipeline
    ranks, except with ``enable-dp-attention``, where the replicas lie within the tensor-parallel ranks.
    """
    replicas = 1 if flags.get("enable-dp-attention") else _count(flags, "dp-size", "data-parallel-size")
    return ranks(flags) * replicas


def gpus_here(flags: Mapping[str, Any]) -> int:
    """GPUs that one of the server's ``nnodes`` hosts gives."""
    return -(-gpus_needed(flags) // _count(flags, "nnodes"))


def _count(flags: Mapping[str, Any], *names: str) -> int:
    """The value of the first of several names of one flag, 1 where none is given."""
    given = [(name, flags[name]) for name in names if flags.get(name) is not None]
    for name, value in given:
        if not (str(value).isdigit() and int(value) > 0):
            raise UserError(f"{value!r} is no number of ranks", key=name, remedy="a whole number from 1 on")
    return int(given[0][1]) if given else 1


def command_line(flags: Mapping[str, Any]) -> list[str]:
    """``{"tp-size": 2, "skip": True, "trust": False}`` to ``["--skip", "--tp-size", "2", "--no-trust"]``, sorted."""
    words: list[str] = []
    for name, value in sorted(flags.items()):
        if value is None:
            continue
        words.append(f"--no-{name}" if value is False else f"--{name}")
        if isinstance(value, bool):
            continue
        if isinstance(value, list):
            words.extend(str(item) for item in value)
        elif isinstance(value, dict):
            words.append(json.dumps(value, sort_keys=True, separators=(",", ":")))
        else:
            words.append(str(value))
    return words

"""Makes lock files anew: ``python -m sglang_sweep lock [NAME...]``, by default all of them."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uv import find_uv_bin

from sglang_sweep.errors import UserError
from sglang_sweep.stacks.stack import read_stack_file

ENVS = Path(__file__).parents[3] / "envs"

HEADER = "# Made by `python -m sglang_sweep lock {name}` from requirements.in and stack.yaml. Do not edit.\n"

_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")


@dataclass(frozen=True)
class Pin:
    """One requirement of a lock: several of a name stand for different markers."""

    name: str
    version: str
    hashes: int


def read_lock(text: str) -> list[Pin]:
    """The pins of a lock file. Raises ValueError naming the first line that is not pinned and hashed."""
    found: list[Pin] = []
    for entry in re.split(r"\n(?=\S)", text.replace("\\\n", " ")):
        line = entry.partition("#")[0].strip()
        if not line:
            continue
        match = _PIN.match(line)
        if not match:
            raise ValueError(f"not pinned with ==: {line.splitlines()[0]}")
        hashes = line.count("--hash=sha256:")
        if not hashes:
            raise ValueError(f"without a hash: {match['name']}=={match['version']}")
        found.append(Pin(match["name"].lower(), match["version"], hashes))
    return found


def inconsistencies(directory: Path) -> list[str]:
    """What is wrong between ``stack.yaml`` and the lock beside it; empty when they agree."""
    declared = declaration(directory)
    try:
        lock = read_lock((directory / declared["lock"]).read_text(encoding="utf-8"))
    except ValueError as error:
        return [str(error)]
    versions = {pin.name: {other.version for other in lock if other.name == pin.name} for pin in lock}
    problems = []
    for name in ("sglang", "torch"):
        if versions.get(name, set()) != {declared[name]}:
            held = ", ".join(sorted(versions.get(name, set()))) or "no such thing"
            problems.append(f"stack.yaml says {name} {declared[name]}, the lock holds {held}")
    left_out = {name for names in declared["left_out"].values() for name in names}
    problems += [
        f"{name} is left out by stack.yaml and yet in the lock" for name in sorted(left_out & set(versions))
    ]
    return problems


def declaration(directory: Path) -> dict[str, Any]:
    """The checked ``stack.yaml`` of a folder."""
    file = directory / "stack.yaml"
    return read_stack_file(file)


def compile_command(directory: Path, declared: dict[str, Any]) -> list[str]:
    """uv's command line: nothing is downloaded but metadata.

    A stack with one exact Python and platform is resolved for it; any other for all of them at once.
    """
    exact = re.fullmatch(r"==(3\.\d+)\.\*", declared["python"])
    lowest = re.search(r"3\.\d+", declared["python"])
    if exact and len(declared["platforms"]) == 1:
        target = [
            "--python-version",
            exact[1],
            "--python-platform",
            declared["platforms"][0],
            "--only-binary",
            ":all:",
        ]
    else:
        target = ["--universal", "--python-version", lowest[0] if lowest else "3.11"]
    left_out = sorted({name for names in declared["left_out"].values() for name in names})
    return [
        find_uv_bin(),
        *("pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--upgrade"),
        *target,
        *(("--exclude-newer", f"{declared['exclude_newer']}T00:00:00Z") if declared["exclude_newer"] else ()),
        *(word for name in left_out for word in ("--no-emit-package", name)),
        *("requirements.in", "--output-file", declared["lock"]),
    ]


def make_lock(directory: Path) -> None:
    """Resolves ``requirements.in`` anew. Raises UserError with the resolver's words when it cannot."""
    declared = declaration(directory)
    done = subprocess.run(
        compile_command(directory, declared), cwd=directory, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UserError(
            f"cannot be resolved:\n{done.stderr.strip()}",
            file=directory / "requirements.in",
            remedy="correct the requirements, or see whether the package registry can be reached",
        )
    lock = directory / declared["lock"]
    lock.write_text(HEADER.format(name=directory.name) + lock.read_text(encoding="utf-8"), encoding="utf-8")


def main(argv: list[str] | None = None) -> int:
    """Exit status 1 when a new lock and its stack.yaml do not agree."""
    parser = argparse.ArgumentParser(prog="python -m sglang_sweep lock", description=__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a folder under envs/; default: all that have a lock"
    )
    names = parser.parse_args(argv).names or [
        path.parent.name for path in sorted(ENVS.glob("*/requirements.in"))
    ]
    failed = 0
    for name in names:
        try:
            make_lock(ENVS / name)
        except UserError as error:
            print(error, file=sys.stderr)
            failed = 1
            continue
        problems = inconsistencies(ENVS / name)
        print(f"{name}: {'; '.join(problems) or 'locked'}")
        failed = failed or bool(problems)
    return int(failed)

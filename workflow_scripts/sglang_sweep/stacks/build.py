"""Builds a stack once for all campaigns and clones, and records what is really in it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from uv import find_uv_bin

from sglang_sweep.errors import InfrastructureFault, UserError
from sglang_sweep.stacks.stack import Stack

Log = Callable[[str], None]

IMPORTABLE = Path(__file__).with_name("importable.py")
"""Run with the stack's own interpreter: what can be imported, which flags are known."""

MARKER = "stack.json"
"""Written last: a folder without it is the rest of a build that was killed, and is believed by nobody."""

INSTALL_TIMEOUT_S = 3600
IMPORT_TIMEOUT_S = 900


def build_stack(stack: Stack, store: Path, log: Log) -> None:
    """Makes ``stack.folder(store)`` complete: the environment, ``stack.json`` and ``flags.json``.

    Returns at once when it is. A virtual environment cannot be moved, so it is built in its final place and
    believed only once the marker is there; a lock file lets a second workflow wait instead of building too.
    Raises InfrastructureFault (no disk, no registry, no interpreter), UserError for an existing interpreter
    or image that holds no SGLang.
    """
    folder = stack.folder(store)
    with locked(folder.with_suffix(".lock"), f"the stack {stack.name}", log):
        if (folder / MARKER).exists():
            log(f"stack {stack.name} is complete: {folder}")
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        started = time.monotonic()
        try:
            if stack.kind == "lock":
                _install(stack, folder, log)
            found = look_inside(stack, store, log)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        _write_json(folder / "flags.json", found["flags"])
        facts = {"name": stack.name, "kind": stack.kind, "digest": stack.digest, **found["stack"]}
        _write_json(folder / MARKER, facts)
        size = f", {_gigabytes(folder):.1f} GB" if stack.kind == "lock" else ""
        log(f"stack {stack.name} ready after {(time.monotonic() - started) / 60:.1f} min{size}: {folder}")


def look_inside(stack: Stack, store: Path, log: Log) -> dict[str, Any]:
    """What is importable in the stack and the flags of its SGLang, asked of its own interpreter.

    Raises UserError when SGLang's server or its load client cannot be imported there: better now, with the
    reason, than as the dead end of every variant.
    """
    log(f"importing SGLang in the stack {stack.name} to see what is really there (about a minute)")
    # What is imported is byte-compiled, for fast launches, whatever the caller prefers.
    ambient = {n: v for n, v in os.environ.items() if n not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
    environment = ambient | stack.env
    if stack.kind == "container":
        command = [*stack.run(store), "-c", IMPORTABLE.read_text(encoding="utf-8")]
    else:
        command = [*stack.run(store), str(IMPORTABLE)]
    done = _run(command, IMPORT_TIMEOUT_S, environment, "importing SGLang")
    found: dict[str, Any] = json.loads(done.splitlines()[-1])
    facts = found["stack"]
    if not facts["serves"]:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in facts["reasons"].items())
        raise UserError(
            f"the stack {stack.name} cannot start a server: {reasons}",
            file=stack.directory / "stack.yaml",
            remedy="add what is missing to its requirements and make the lock anew; or correct interpreter or image",
        )
    if stack.kind == "lock" and facts["sglang"] != stack.sglang_version:
        raise UserError(
            f"declared SGLang {stack.sglang_version}, but its lock holds {facts['sglang']}",
            file=stack.directory / "stack.yaml",
            key="sglang",
            remedy="make the lock anew: python -m sglang_sweep lock",
        )
    return found


def _install(stack: Stack, folder: Path, log: Log) -> None:
    needed = float(stack.declared["disk_gb"])
    free = shutil.disk_usage(folder).free / 1e9
    if free < needed:
        raise InfrastructureFault(
            f"{folder.parent} has {free:.1f} GB free, building the stack {stack.name} needs up to {needed:.0f} GB",
            remedy="free some space, or set `store:` in config/config.yaml to a larger disk",
        )
    # A cache of its own, on the same disk: files are linked from it, not copied, and pruned ones really go.
    cache = folder / "uv-cache"
    environment = {
        **os.environ,
        "UV_CACHE_DIR": str(cache),
        "UV_LINK_MODE": "hardlink",
        "UV_NO_PROGRESS": "1",
    }
    environment.pop("VIRTUAL_ENV", None)
    download = stack.declared["download_gb"]
    log(
        f"installing {stack.name}: SGLang {stack.sglang_version}"
        + (f", {download} GB to download" if download else "")
    )
    python = folder / "bin" / "python"

    def uv(*arguments: str | Path) -> None:
        _run([find_uv_bin(), *map(str, arguments)], INSTALL_TIMEOUT_S, environment, f"uv {arguments[0]}")

    uv("venv", "--quiet", "--allow-existing", "--python", stack.python_version, folder)
    install = ("pip", "install", "--quiet", "--python", python, "--no-deps")
    started = time.monotonic()
    # --no-deps: the lock is the whole list, and leaves out on purpose what SGLang asks for (stack.yaml says what).
    uv(*install, "--require-hashes", "--requirement", stack.lock)
    log(f"installed after {time.monotonic() - started:.0f} s, {_gigabytes(folder):.1f} GB")
    for package in stack.packages:
        sources = cache / package.name  # building leaves files beside the sources, so a copy is built
        shutil.copytree(package, sources, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
        uv(*install, "--no-build-isolation", sources)
    shutil.rmtree(cache, ignore_errors=True)
    freed = prune(next((folder / "lib").glob("python3*")) / "site-packages", stack.declared["prune"])
    if freed:
        log(f"pruned {freed / 1e9:.1f} GB that nothing loads in this stack")


def prune(site_packages: Path, patterns: list[str]) -> int:
    """Removes what matches the glob patterns, relative to ``site_packages``. Returns the bytes freed."""
    freed = 0
    for pattern in patterns:
        for path in sorted(site_packages.glob(pattern)):
            freed += _bytes(path)
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    return freed


@contextmanager
def locked(path: Path, what: str, log: Log) -> Iterator[None]:
    """Holds an exclusive lock on ``path`` (released by the system if we die), waiting for whoever has it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log(f"another workflow is making {what}: waiting for it")
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def _run(command: list[str], timeout_s: int, environment: dict[str, str], what: str) -> str:
    """Standard output. Raises InfrastructureFault with the end of standard error."""
    try:
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            errors="replace",
        )
    except FileNotFoundError:
        raise InfrastructureFault(
            f"{what}: there is no program {command[0]}", remedy="install it, then run again"
        ) from None
    except subprocess.TimeoutExpired:
        raise InfrastructureFault(
            f"{what} did not end within {timeout_s} s", remedy="look at the network and the disk"
        ) from None
    if done.returncode:
        last = "\n    ".join(done.stderr.strip().splitlines()[-12:])
        raise InfrastructureFault(
            f"{what} failed (exit {done.returncode}):\n    {last}",
            remedy="see whether the package registry can be reached and whether the disk is full, then run again",
        )
    return done.stdout


def _write_json(path: Path, value: Any) -> None:
    """All or nothing: a reader never sees half a file."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(path)


def _bytes(path: Path) -> int:
    if path.is_symlink():
        return 0
    if path.is_file():
        return path.stat().st_size
    return sum(_bytes(child) for child in path.iterdir())


def _gigabytes(folder: Path) -> float:
    """On disk, a file linked twice counted once."""
    seen: dict[tuple[int, int], int] = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        seen[status.st_dev, status.st_ino] = status.st_size
    return sum(seen.values()) / 1e9

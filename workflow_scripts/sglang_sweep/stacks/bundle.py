"""Packs what an air-gapped host lacks: ``python -m sglang_sweep bundle TARGET.yaml OUT [--part-size-mib N]``.

The result is an archive in parts, ``manifest.json`` with a hash of each, and ``install_bundle.py``, which needs
nothing but the host's Python.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from uv import find_uv_bin

from sglang_sweep.errors import InfrastructureFault, UserError
from sglang_sweep.files import yaml_files
from sglang_sweep.stacks.lock import read_lock

Log = Callable[[str], None]

INSTALLER = Path(__file__).with_name("install_bundle.py")
PROJECT = Path(__file__).parents[3] / "pyproject.toml"

COMPRESSION = 1
"""xz preset: on a tree of compiled kernels the higher ones take many times longer for some per cent."""


@dataclass(frozen=True)
class Group:
    """One environment of the host: what goes in, and what does not, with the reason."""

    name: str
    requirements: tuple[str, ...]
    lock: Path
    exclude_newer: str | None
    from_source: tuple[str, ...]
    host_has: dict[str, str | None]
    left_out: dict[str, list[str]]
    prune: dict[str, list[str]]

    @property
    def not_carried(self) -> list[str]:
        """Packages that the lock leaves out."""
        return sorted({*self.host_has, *(name for names in self.left_out.values() for name in names)})


@dataclass(frozen=True)
class BundleTarget:
    """The host a bundle is made for."""

    name: str
    description: str
    python: str
    platform: str
    gpu: str | None
    groups: tuple[Group, ...]


def load_target(file: Path) -> BundleTarget:
    """``envs/bundles/<name>.yaml``. Its locks lie beside it. Raises UserError(s)."""
    declared = yaml_files.read_yaml(file)
    yaml_files.check(declared, "bundle", file)
    groups = tuple(
        Group(
            name=name,
            requirements=tuple(group["requirements"]),
            lock=file.with_name(f"{file.stem}.{name}.lock"),
            exclude_newer=group["exclude_newer"],
            from_source=tuple(group["from_source"]),
            host_has=dict(group["host_has"]),
            left_out=dict(group["left_out"]),
            prune=dict(group["prune"]),
        )
        for name, group in declared["groups"].items()
    )
    about = {key: declared[key] for key in ("description", "python", "platform", "gpu")}
    return BundleTarget(name=file.stem, groups=groups, **about)


def make_lock(target: BundleTarget, group: Group) -> None:
    """Resolves the group for the target's Python and platform into its lock file, with hashes."""
    with tempfile.TemporaryDirectory() as scratch:
        asked = Path(scratch) / "requirements.in"
        asked.write_text("\n".join(line for line in group.requirements if line != PROJECT.name) + "\n")
        sources = [asked, *([PROJECT] if PROJECT.name in group.requirements else [])]
        until = ["--exclude-newer", f"{group.exclude_newer}T00:00:00Z"] if group.exclude_newer else []
        _uv(
            [
                "pip",
                "compile",
                "--quiet",
                "--generate-hashes",
                "--no-header",
                "--no-annotate",
                *_target(target),
                *until,
            ]
            + [word for name in group.not_carried for word in ("--no-emit-package", name)]
            + [*map(str, sources), "--output-file", str(group.lock)],
            f"resolving {target.name}: {group.name}",
        )


def make_bundle(target: BundleTarget, out_dir: Path, part_size_mib: int, log: Log) -> dict[str, Any]:
    """Writes the bundle into ``out_dir`` and returns its manifest. Whatever was in there of an earlier one goes.

    Raises UserError when a lock is missing, InfrastructureFault when the registry cannot be reached.
    """
    missing = [group.lock.name for group in target.groups if not group.lock.is_file()]
    if missing:
        raise UserError(
            f"the lock of a group is missing: {', '.join(missing)}",
            file=target.groups[0].lock.parent,
            remedy="make it with `python -m sglang_sweep bundle --lock TARGET.yaml`",
        )
    out_dir.mkdir(parents=True, exist_ok=True)
    for old in (*out_dir.glob(f"{target.name}.tar.xz.*"), out_dir / "manifest.json"):
        old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=out_dir, prefix=".stage-") as stage:
        groups = {group.name: _stage(target, group, Path(stage) / group.name, log) for group in target.groups}
        log("packing")
        parts = _pack(Path(stage), out_dir / f"{target.name}.tar.xz", part_size_mib << 20)
    manifest = {
        "schema_version": 1,
        "name": target.name,
        "description": target.description,
        "python": target.python,
        "platform": target.platform,
        "gpu": target.gpu,
        "groups": groups,
        "parts": parts,
    }
    shutil.copy(INSTALLER, out_dir / INSTALLER.name)
    (out_dir / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    total = sum(part["bytes"] for part in parts) / 2**20
    log(f"{target.name}: {total:.0f} MiB in {len(parts)} parts of at most {part_size_mib} MiB: {out_dir}")
    return manifest


def _stage(target: BundleTarget, group: Group, folder: Path, log: Log) -> dict[str, Any]:
    """Installs a group for the target's platform into ``folder`` and takes out what is pruned."""
    pins = read_lock(group.lock.read_text(encoding="utf-8"))
    log(f"fetching {len(pins)} packages for {group.name}")
    # Only the named ones may be built here: anything compiled would be for this machine, not for that host.
    wheels = [
        word for pin in pins if pin.name not in group.from_source for word in ("--only-binary", pin.name)
    ]
    options = ["--quiet", "--no-deps", "--require-hashes", "--link-mode", "copy", *_target(target), *wheels]
    _uv(
        ["pip", "install", *options, "--target", str(folder), "--requirement", str(group.lock)],
        f"fetching {group.name}",
    )
    pruned = []
    for reason, patterns in group.prune.items():
        for pattern in patterns:
            for path in sorted(folder.glob(pattern)):
                size = sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                pruned.append({"path": path.relative_to(folder).as_posix(), "bytes": size, "reason": reason})
    return {
        "packages": {pin.name: pin.version for pin in pins},
        "host_has": group.host_has,
        "left_out": group.left_out,
        "pruned": pruned,
    }


def _pack(stage: Path, archive: Path, part_bytes: int) -> list[dict[str, Any]]:
    """One tar of everything under ``stage``, compressed and cut. The same files give the same bytes."""
    parts = _Parts(archive, part_bytes)
    with (
        lzma.open(cast(IO[bytes], parts), "wb", preset=COMPRESSION) as compressed,
        tarfile.open(fileobj=cast(IO[bytes], compressed), mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(stage.rglob("*")):
            name = path.relative_to(stage).as_posix()
            if "__pycache__" not in path.parts and path.is_file():
                tar.add(path, name, recursive=False, filter=_anonymous)
    return parts.close()


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member


class _Parts:
    """A writable file that is really several, each at most ``limit`` bytes."""

    def __init__(self, archive: Path, limit: int) -> None:
        self._archive, self._limit = archive, limit
        self._done: list[dict[str, Any]] = []
        self._open_next()

    def _open_next(self) -> None:
        self._path = self._archive.with_name(f"{self._archive.name}.{len(self._done):03d}")
        self._stream = self._path.open("wb")
        self._hash, self._size = hashlib.sha256(), 0

    def _finish(self) -> None:
        self._stream.close()
        self._done.append({"file": self._path.name, "bytes": self._size, "sha256": self._hash.hexdigest()})

    def write(self, data: bytes) -> int:
        """All of ``data``, over as many parts as it takes."""
        view = memoryview(data)
        while view:
            if self._size == self._limit:
                self._finish()
                self._open_next()
            piece = view[: self._limit - self._size]
            self._stream.write(piece)
            self._hash.update(piece)
            self._size += len(piece)
            view = view[len(piece) :]
        return len(data)

    def close(self) -> list[dict[str, Any]]:
        """Name, size and hash of each part."""
        self._finish()
        return self._done


def _target(target: BundleTarget) -> list[str]:
    return ["--python-version", target.python, "--python-platform", target.platform]


def _uv(arguments: list[str], what: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    interpreter = ["--python", sys.executable] if arguments[1] == "install" else []
    done = subprocess.run(
        [find_uv_bin(), *arguments, *interpreter],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode:
        raise InfrastructureFault(
            f"{what} failed:\n{done.stderr.strip()[-2000:]}",
            remedy="see whether the package registry can be reached",
        )


def main(argv: list[str] | None = None) -> int:
    """0, or 1 with a message when the bundle could not be made."""
    parser = argparse.ArgumentParser(prog="python -m sglang_sweep bundle", description=__doc__)
    parser.add_argument("target", type=Path, help="a file in envs/bundles/")
    parser.add_argument("out", type=Path, nargs="?", help="folder for the bundle")
    parser.add_argument("--part-size-mib", type=int, default=1024)
    parser.add_argument("--lock", action="store_true", help="only make the lock files anew")
    arguments = parser.parse_args(argv)
    try:
        target = load_target(arguments.target)
        if arguments.lock:
            for group in target.groups:
                make_lock(target, group)
        elif arguments.out is None:
            parser.error("OUT is missing")
        else:
            make_bundle(target, arguments.out, arguments.part_size_mib, print)
    except (UserError, InfrastructureFault) as error:
        print(error, file=sys.stderr)
        return 1
    return 0

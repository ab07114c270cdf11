"""What a launch reads besides its command: data sets, templates, adapters. They enter its key by what is in them."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sglang_sweep.files.digest import digest, file_sha256

LARGE = 1 << 26
"""Bytes beyond which a file counts by its size and ends: weights of an adapter are not read whole for every plan."""


def read_by_flags(flags: Mapping[str, Any]) -> dict[str, str]:
    """The digest of every file or folder that a flag's value names: a chat template, a LoRA (``name=path``)."""
    found: dict[str, str] = {}
    for name, value in flags.items():
        for item in value if isinstance(value, list) else [value]:
            path = Path(str(item).rpartition("=")[2]).expanduser() if isinstance(item, str) and item else None
            if path is not None and ("/" in str(item) or path.is_file()) and path.exists():
                found[f"{name}:{path.name}"] = content_of(path)
    return found


def content_of(path: Path) -> str:
    """A digest of a file, or of a folder's files with their names."""
    if path.is_file():
        return _content(path, path.stat().st_size, path.stat().st_mtime_ns)
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return digest([[str(file.relative_to(path)), content_of(file)] for file in files])


@cache
def _content(path: Path, size: int, _changed: int) -> str:
    if size <= LARGE:
        return digest([size, file_sha256(path)])
    with path.open("rb") as stream:
        head = stream.read(LARGE // 2)
        stream.seek(size - LARGE // 2)
        return digest([size, digest(head.hex()), digest(stream.read().hex())])

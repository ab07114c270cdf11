"""What a launch reads besides its command: data sets, templates, adapters. They enter its key by what is in them."""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sglang_sweep.errors import UserError
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


def conversation_problems(path: Path, prompts: int | None, file: Path, key: str) -> Iterable[UserError]:
    """What SGLang's load client would leave out without a word: lines that are no JSON, conversations of one turn."""
    if not path.is_file():
        yield UserError(f"no such file {str(path)!r}", file=file, key=key, remedy="check the name for a typo")
        return
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        yield UserError(
            f"cannot read {path}: {error}", file=file, key=key, remedy="give a JSONL file in UTF-8"
        )
        return
    good = 0
    for number, line in enumerate(lines, start=1):
        if line.strip():
            wrong = _wrong_line(line)
            good += wrong is None
            if wrong:
                yield UserError(
                    f"line {number} {wrong}",
                    file=path,
                    remedy='one conversation a line: {"conversations": [{"role": "user", "content": "..."}, '
                    '{"role": "assistant", "content": "..."}]}',
                )
                return  # the rest is likely to be alike
    if not good or (prompts or 0) > good:
        yield UserError(
            f"{path} holds {good} conversations, {prompts} are asked",
            file=file,
            key=key,
            remedy="add some, or ask for fewer prompts",
        )


def _wrong_line(line: str) -> str | None:
    try:
        data = json.loads(line)
    except ValueError as error:
        return f"is no JSON ({error})"
    turns = data.get("conversations", data.get("conversation")) if isinstance(data, dict) else None
    if not isinstance(turns, list) or len(turns) < 2:
        return "has no conversation of two turns"
    texts = [t.get("content", t.get("value")) if isinstance(t, dict) else None for t in turns[:2]]
    return None if all(isinstance(t, str) and t.strip() for t in texts) else "has a turn without text"

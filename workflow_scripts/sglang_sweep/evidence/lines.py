"""The lines of a log file, plain or gzip, as a stream of bounded size."""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from sglang_sweep.errors import UserError

CHUNK = 1 << 20
LONGEST = 1 << 18
"""Bytes kept of one line; SGLang's longest (its arguments) has about 14 kB."""


def open_log(path: Path) -> IO[bytes]:
    """The file opened for reading, gzip recognised by its magic number.

    Raises UserError when it is missing, empty, a folder, unreadable or plainly no text.
    """
    if path.is_dir():
        raise UserError("this is a folder, not a log", file=path, remedy="name the server.log inside it")
    try:
        with path.open("rb") as file:
            start = file.read(2)
        zipped = start == b"\x1f\x8b"
        stream = cast(IO[bytes], gzip.open(path, "rb")) if zipped else path.open("rb")  # noqa: SIM115 (returned open)
        head = stream.read1(4096)  # type: ignore[attr-defined]
    except FileNotFoundError:
        raise UserError("there is no such file", file=path, remedy="check the name for a typo") from None
    except PermissionError:
        raise UserError("this file may not be read", file=path, remedy="ask its owner, or copy it") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        head = b""
    if not head:
        raise UserError(
            "the log is empty",
            file=path,
            remedy="was the server's output redirected, and did it start at all?",
        )
    if b"\x00" in head:
        raise UserError(
            "this is a binary file, not a log",
            file=path,
            remedy="give the text log, plain or gzip-compressed (.gz)",
        )
    stream.seek(0)
    return stream


def read_lines(path: Path) -> Iterator[bytes]:
    """Every line without its end; an over-long line is cut, a damaged gzip tail ends the stream quietly."""
    with open_log(path) as stream:
        rest = b""
        while True:
            try:
                # read1 gives what is whole before the damage; read would lose it with the exception.
                chunk = stream.read1(CHUNK)  # type: ignore[attr-defined]
            except (EOFError, zlib.error, gzip.BadGzipFile):
                chunk = b""
            if not chunk:
                break
            parts = (rest + chunk).split(b"\n")
            rest = parts.pop()
            if len(rest) > LONGEST:
                rest = rest[:LONGEST]
            yield from parts
        if rest:
            yield rest

"""The lines of a log as its server printed them: out of gzip, containers, journals, launchers and log exports."""

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from os.path import commonprefix
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

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
    if head.count(b"\x00") > len(head) // 20:
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


class Printed(NamedTuple):
    """A line as the server printed it: the file's line number, the text, and who printed it (a container, a pod, an
    actor, a rank of mpirun) where a prefix or a field says so."""

    number: int
    text: bytes
    source: bytes


SAMPLE = 400
"""Lines looked at to learn what stands before every line."""

LARGEST_REVERSED = 1 << 26
"""Bytes of a newest-first export that are put in order in memory."""

_ANSI = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\\\)|[@-Z\\\\-_])")
_STAMP = re.compile(rb"\[20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_LOGGER = re.compile(
    rb"^(20\d\d-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)\S*\s+\[?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL)\]?"
    rb"(?:\s+[\w.:\-]+?:)?\s+(?=\S)"
)
"""A framework's own logger in place of SGLang's, such as Dynamo's: time, level, module."""
_TIME = re.compile(
    rb"20\d\d-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-][\d:]+)?|(?:[A-Z][a-z]{2} )?[A-Z][a-z]{2} +\d+ [\d:]{8}(?: \d{4})?"
    rb"|[A-Z][a-z]{2} \d+, \d{4} @ [\d:.]+|\b(?:stdout|stderr|[FP])\b|\d{10,}"
)
_WORD = re.compile(rb"[\w.+@/-]+")
_MESSAGE = ("log", "message", "msg", "MESSAGE", "line", "event", "body", "textPayload", "text", "_raw")
_SOURCE = (
    "pod_name",
    "pod",
    "container_name",
    "container",
    "CONTAINER_NAME",
    "_SYSTEMD_UNIT",
    "service",
    "instance",
    "host",
)


def printed_lines(path: Path, known_prefixes: Iterable[re.Pattern[bytes]] = ()) -> Iterator[Printed]:
    """Every line that the server printed, in the order in which it printed them. Raises UserError for no text file.

    What stands before every line is recognised by being there, not by a list of formats: most lines with SGLang's
    time stamp have it at the same place, behind words of the same shape. ``known_prefixes`` help where no line has
    a stamp. A line of JSON is taken for its message. Pieces of one long line are joined.
    """
    numbered = (
        (n, _ANSI.sub(b"", raw) if b"\x1b" in raw else raw) for n, raw in enumerate(read_lines(path), 1)
    )
    sample = list(islice(numbered, SAMPLE))
    texts = [raw.rstrip(b"\r") for _, raw in sample if raw.strip()]
    lines = chain(sample, numbered)
    if _mostly(texts, lambda raw: raw.startswith(b"{") and _from_json(raw) is not None):
        found = _joined(_json_lines(lines))
        stamps = [time for raw in texts if (time := _time_of(raw))]
    elif prefix := _prefix_of(texts, tuple(known_prefixes)):
        found = _joined(_without_prefix(lines, prefix))
        stamps = [m[0] for raw in texts if (m := _STAMP.search(raw))]
    else:
        found = (Printed(number, raw, b"") for number, raw in lines)
        stamps = []
    if len(stamps) > 4 and stamps[0] > stamps[-1] and stamps == sorted(stamps, reverse=True):
        found = _oldest_first(found, path)
    if not any(_STAMP.search(raw) for raw in texts) and _mostly(texts, _LOGGER.match, 0.3):
        found = (Printed(n, _LOGGER.sub(rb"[\1 \2] ", raw), source) for n, raw, source in found)
    return found


def _mostly(texts: list[bytes], true: Any, share: float = 0.8) -> bool:
    return bool(texts) and sum(bool(true(raw)) for raw in texts) >= share * len(texts)


def _shape(prefix: bytes) -> bytes:
    """A prefix with its words alike: ``(Actor pid=6680) `` and ``(Actor pid=7) `` have one shape."""
    return _WORD.sub(b"W", prefix)


def _prefix_of(texts: list[bytes], known: tuple[re.Pattern[bytes], ...]) -> re.Pattern[bytes] | None:
    """What stands before most lines; None where nothing does."""
    shapes = Counter(_shape(raw[: m.start()]) for raw in texts if (m := _STAMP.search(raw)))
    if not shapes:
        return next((prefix for prefix in known if _mostly(texts, prefix.match, 0.9)), _common_prefix(texts))
    regular = [
        shape for shape, count in shapes.items() if count >= max(2, 0.1 * shapes.total()) or len(shapes) == 1
    ]
    if shapes[b""] > 0.5 * shapes.total() or not any(regular):
        return None
    words = {
        shape: re.escape(shape).replace(b"W", rb"[\w.+@/-]+").replace(rb"\ ", b" ")
        for shape in regular
        if shape
    }
    # Names are padded to one width, so a run of spaces stands for any; the last belongs to what is printed.
    padded = [re.sub(rb" +(?=.)", b" +", word[:-1]) + word[-1:] for word in words.values()]
    return re.compile(b"^(?:" + b"|".join(sorted(padded, reverse=True)) + b")")


def _common_prefix(texts: list[bytes]) -> re.Pattern[bytes] | None:
    """The name that stands before every line, up to its last separator; None where there is none."""
    common = cast(bytes, commonprefix(texts)) if len(texts) > 2 else b""  # noqa: RUF071 (these are no paths)
    ends = [common.rfind(mark) + len(mark) for mark in (b"| ", b"] ", b") ", b">: ", b">:") if mark in common]
    return re.compile(b"^" + re.escape(common[: max(ends)])) if ends else None


def _without_prefix(
    lines: Iterable[tuple[int, bytes]], prefix: re.Pattern[bytes]
) -> Iterator[tuple[Printed, bool]]:
    for number, raw in lines:
        match = prefix.match(raw)
        if match is None:
            yield Printed(number, raw, b""), True
            continue
        text, before = raw[match.end() :], match[0]
        if before.endswith(b'"'):  # a column of CSV
            text = text.rstrip(b"\r").removesuffix(b'"').replace(b'""', b'"')
        source = b" ".join(_TIME.sub(b" ", before).split()).strip(b' |:<>[](),"')
        yield Printed(number, text, source), not before.endswith(b" P ")


def _json_lines(lines: Iterable[tuple[int, bytes]]) -> Iterator[tuple[Printed, bool]]:
    for number, raw in lines:
        got = _from_json(raw)
        if got is None:
            yield Printed(number, raw, b""), True
            continue
        text, source, whole = got
        for piece in text.split(b"\n"):
            yield Printed(number, piece, source), whole


def _from_json(raw: bytes) -> tuple[bytes, bytes, bool] | None:
    """Message, source and whether the message is whole; None for a line that is no JSON object with a message."""
    try:
        fields = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    flat = dict(_flat(fields)) if isinstance(fields, dict) else {}
    message = next((flat[name] for name in _MESSAGE if isinstance(flat.get(name), str)), None)
    if message is None:
        return None
    source = next((flat[name] for name in _SOURCE if isinstance(flat.get(name), str)), "")
    # Docker's json-file ends each whole line with a newline; other forms have none.
    whole = message.endswith("\n") or not ("log" in flat and "stream" in flat)
    return _ANSI.sub(b"", message.removesuffix("\n").encode()), source.encode(), whole


def _time_of(raw: bytes) -> bytes | None:
    """When a line of JSON was logged, by the export's own time or else by SGLang's stamp; None where neither is."""
    if named := re.search(rb'"(?:@timestamp|timestamp|time|ts)"\s*:\s*"([^"]+)"', raw):
        return named[1]
    got = _from_json(raw)
    stamp = _STAMP.search(got[0]) if got else None
    return stamp[0] if stamp else None


def _flat(fields: dict[str, Any], depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every field by its last name, outer ones last, so that they win."""
    for value in fields.values():
        if isinstance(value, dict) and depth < 3:
            yield from _flat(value, depth + 1)
    yield from (
        (name.rpartition(".")[2], value) for name, value in fields.items() if not isinstance(value, dict)
    )


def _joined(pieces: Iterable[tuple[Printed, bool]]) -> Iterator[Printed]:
    """Lines with the parts put together into which a container's runtime cut long ones."""
    begun: dict[bytes, Printed] = {}
    for piece, whole in pieces:
        first = begun.pop(piece.source, None)
        if first is not None:
            piece = Printed(first.number, (first.text + piece.text)[:LONGEST], piece.source)
        if whole:
            yield piece
        else:
            begun[piece.source] = piece
    yield from begun.values()


def _oldest_first(lines: Iterable[Printed], path: Path) -> Iterator[Printed]:
    """The lines of a newest-first export in the order of time, numbered from the export's end."""
    kept, size = [], 0
    for line in lines:
        kept.append(line)
        size += len(line.text)
        if size > LARGEST_REVERSED:
            raise UserError(
                "this export is newest first and too large to be put in order here",
                file=path,
                remedy="export it oldest first",
            )
    for number, line in enumerate(reversed(kept), start=1):
        yield line._replace(number=number)

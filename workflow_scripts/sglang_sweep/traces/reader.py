"""Reads one rank's torch-profiler Chrome trace as a stream, into columns of a few bytes per event.

Memory is bounded by the kernels, launches and operators kept (about 40 bytes each), not by the file: most of
a trace is ``python_function`` events and kernel arguments, which pass through one at a time.
"""

import json
import math
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import ijson
import numpy as np

from sglang_sweep.errors import UserError
from sglang_sweep.traces.trace import Annotation, Trace

NOT_A_TRACE = (
    "give the *.trace.json.gz files which SGLang's /start_profile wrote (or any torch.profiler Chrome trace)"
)

_GPU_ACTIVITY = {"kernel", "gpu_memcpy", "gpu_memset"}
_HEADER_BYTES = 4 << 20
_DTYPE_BYTES = {"Byte": 1, "Char": 1, "Bool": 1, "Half": 2, "BFloat16": 2, "Float": 4, "Int": 4}
# [prefix-]profile_id-TP-rank[-DP-n][-PP-n][-EP-n][-STAGE].trace.json.gz: profiler_manager.py of SGLang 0.5.23
FILE_NAME = re.compile(
    r"(?:(?P<id>.+?)-)?TP-(?P<rank>\d+)(?:-(?:DP|PP|EP)-\d+)*(?:-(?P<stage>[A-Za-z_]+))?\.trace\.json"
)


# Each level costs ijson a prefix as long as the levels above it: a megabyte of "[" took 10 GB.
_TOO_DEEP = re.compile(rb'(?:[\[{]\s{0,8}(?:"[^"]{0,64}"\s{0,8}:\s{0,8})?){100}')


class _Source:
    """A trace's bytes, unpacked as far as they go: ``gzip`` would throw away the last block of a truncated file."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        # by content: a renamed or already unpacked file still opens
        zipped = self._file.read(2) == b"\x1f\x8b"
        self._file.seek(0)
        self._unpacker = zlib.decompressobj(31) if zipped else None
        self.count = 0

    def __enter__(self) -> "_Source":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, size: int = 1 << 18) -> bytes:
        """At least one byte, or b"" at the end. Raises EOFError where a gzip file is cut, zlib.error if damaged."""
        chunk = b""
        while not chunk and size:
            packed = self._file.read(size)
            if self._unpacker is None:
                chunk = packed
                break
            if not packed:
                if not self._unpacker.eof:
                    raise EOFError("the compressed file ends early")
                break
            chunk = self._unpacker.decompress(packed)
            while self._unpacker.eof and (rest := self._unpacker.unused_data):
                self._unpacker = zlib.decompressobj(31)
                chunk += self._unpacker.decompress(rest)
        if _TOO_DEEP.search(chunk):
            raise ijson.JSONError("nested more than 100 deep")
        self.count += len(chunk)
        return chunk


def read_trace(path: str | Path) -> Trace:
    """Reads a ``.json`` or ``.json.gz`` torch-profiler trace.

    A trace that ends early is kept as far as it goes, and ``truncated`` says how far. Raises UserError when
    the file is missing, empty, corrupt, not a Chrome trace, or a merge of several ranks.
    """
    path = Path(path)
    header, prefix = _header(path)
    try:
        trace = _described(path, header)
    except (AttributeError, TypeError, ValueError, OverflowError):
        trace = _described(path, {})  # the description is of another form; the events are read anyway
    index: dict[str, int] = {}
    devices: set[int] = set()
    try:
        for event in _events(path, prefix, trace):
            # An event of another form says nothing; it is passed over.
            with suppress(AttributeError, LookupError, TypeError, ValueError, OverflowError):
                if isinstance(event, dict):
                    _keep(trace, event, index, devices)
    except (ijson.JSONError, EOFError, OSError, zlib.error, UnicodeDecodeError) as error:
        _stopped_early(trace, error)
    if not trace.events:
        raise UserError("holds no trace events", file=path, remedy=NOT_A_TRACE)
    if len(devices) > 1:
        raise UserError(
            f"holds kernels of {len(devices)} GPUs: a merged trace, whose ranks can no longer be told apart",
            file=path,
            remedy="profile without merge_profiles and give the file of each rank",
        )
    trace.names = list(index)
    return trace


def _header(path: Path) -> tuple[dict[str, Any], str]:
    """What stands before ``traceEvents``, and the ijson prefix of one event."""
    if not path.exists():
        raise UserError("there is no such file", file=path, remedy="check the name for a typo")
    if path.is_dir():
        raise UserError("is a folder", file=path, remedy="name the trace files themselves")
    if not path.stat().st_size:
        raise UserError(
            "is empty",
            file=path,
            remedy="the profiler had not written it yet, or the disk was full; profile again",
        )
    text = _beginning(path).lstrip("\ufeff \t\r\n")
    if text.startswith("["):
        return {}, "item"
    before, found, _ = text.partition('"traceEvents"')
    if not text.startswith("{") or (not found and len(text) < _HEADER_BYTES):
        raise UserError("is not a Chrome trace: it has no traceEvents", file=path, remedy=NOT_A_TRACE)
    try:
        header = json.loads(before.rstrip().rstrip(",") + "}")
    except ValueError:
        header = {}  # only a description; the events themselves are read anyway
    return header, "traceEvents.item"


def _beginning(path: Path) -> str:
    """The first part of the file, as much of it as can be unpacked."""
    text = b""
    with _Source(path) as source:
        try:
            while (
                len(text) < _HEADER_BYTES and b'"traceEvents"' not in text and (chunk := source.read(1 << 16))
            ):
                text += chunk
        except (EOFError, zlib.error, OSError, ijson.JSONError) as error:
            if not text:
                raise UserError(
                    f"cannot be unpacked ({error})", file=path, remedy="copy or record it again"
                ) from None
    return text.decode("utf-8", "replace")


def _described(path: Path, header: dict[str, Any]) -> Trace:
    name = FILE_NAME.search(path.name)
    distributed = header.get("distributedInfo") or {}
    rank = distributed.get("rank", int(name["rank"]) if name else None)
    return Trace(
        path=path,
        rank=rank,
        world_size=distributed.get("world_size"),
        # SGLang's profile ids are times; "decode-TP-0" renamed by hand is no id
        profile_id=name["id"] if name and name["id"] and re.search(r"\d{6,}", name["id"]) else None,
        stage=name["stage"] if name else None,
        base_ns=int(header.get("baseTimeNanoseconds") or 0),
        devices=[str(device.get("name")) for device in header.get("deviceProperties") or []],
        python_stacks=bool(header.get("with_stack")),
    )


def _events(path: Path, prefix: str, trace: Trace) -> Iterator[Any]:
    with _Source(path) as source:
        try:
            for event in ijson.items(source, prefix, use_float=True, buf_size=1 << 17):
                trace.events += 1
                yield event
        finally:
            trace.bytes_read = source.count


def _keep(trace: Trace, event: dict[str, Any], index: dict[str, int], devices: set[int]) -> None:
    category, phase = event.get("cat"), event.get("ph")
    name = str(event.get("name", ""))
    if phase == "M":
        if event.get("name") == "process_name" and "sglang" in str((event.get("args") or {}).get("name", "")):
            trace.sglang = True
            if trace.rank is None and (found := re.search(r"TP(\d+)", event["args"]["name"])):
                trace.rank = int(found[1])
        return
    if phase != "X" or category is None:
        return
    start, duration = _number(event.get("ts")), _number(event.get("dur"))
    if start is None or duration is None:
        return
    if category == "python_function":
        trace.python_stacks = True
        if name.startswith("sglang/srt/"):
            trace.sglang = True
            if "worker" in name or "_runner" in name:
                trace.python_spans.append(Annotation(name, start, duration, _lane(event.get("tid"))))
        return
    arguments = event.get("args")
    if not isinstance(arguments, dict):
        arguments = {}
    correlation = arguments.get("correlation", -1)
    if not isinstance(correlation, int):
        correlation = -1
    if category in _GPU_ACTIVITY:
        devices.add(_lane(arguments.get("device", 0)))
        number = index.setdefault(name, len(index))
        stream = _lane(arguments.get("stream", event.get("tid")))
        trace.kernels.append(start, duration, number, stream, correlation, _message_bytes(arguments))
    elif category == "user_annotation":
        trace.annotations.append(Annotation(name, start, duration, _lane(event.get("tid"))))
    elif category == "gpu_user_annotation":
        trace.gpu_annotations.append(Annotation(name, start, duration, _lane(event.get("tid"))))
    elif category == "cpu_op":
        number = index.setdefault(name, len(index))
        trace.ops.append(start, duration, number, _lane(event.get("tid")), -1, _message_bytes(arguments))
    elif category.endswith(("_runtime", "_driver")) and correlation >= 0:
        number = index.setdefault(name, len(index))
        trace.launches.append(start, duration, number, _lane(event.get("tid")), correlation, np.nan)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _lane(value: Any) -> int:
    return value if isinstance(value, int) else hash(str(value)) % (1 << 31)


def _message_bytes(arguments: dict[str, Any]) -> float:
    if "bytes" in arguments:
        return float(arguments["bytes"])
    elements = max(arguments.get("In msg nelems", 0) or 0, arguments.get("Out msg nelems", 0) or 0)
    return float(elements * _DTYPE_BYTES.get(str(arguments.get("dtype")), 8)) if elements else np.nan


def _stopped_early(trace: Trace, error: Exception) -> None:
    read = f"{trace.events} events, {trace.bytes_read / 1e6:.1f} MB unpacked"
    # yajl calls every error incomplete; only its words tell a file that stops from one that is wrong
    ended = isinstance(error, EOFError) or "EOF" in str(error) or "ncomplete" in str(error)
    what = "ends early (truncated)" if ended else f"is corrupt ({' '.join(str(error).split())[:80]})"
    if not trace.events:
        raise UserError(
            f"{what}: nothing could be read", file=trace.path, remedy="copy or record it again"
        ) from error
    trace.truncated = f"{trace.path.name} {what}; read {read}, and only that was analysed"

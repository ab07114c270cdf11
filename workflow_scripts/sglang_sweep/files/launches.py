"""launch.json and profile.json: the record of one launch, typed, sealed when written, checked when read."""

from __future__ import annotations

import argparse
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from sglang_sweep.errors import InfrastructureFault, UserError
from sglang_sweep.files.digest import digest, file_sha256
from sglang_sweep.files.models import Part, Record
from sglang_sweep.files.records import finite, read_json
from sglang_sweep.files.redaction import printable, redacted_data


def _in_utc(text: str) -> str:
    moment = datetime.fromisoformat(text)
    if moment.utcoffset() != timedelta(0):
        raise ValueError("a time in UTC is needed, as 2026-12-01T12:00:00+00:00")
    return text


Moment = Annotated[str, AfterValidator(_in_utc)]
"""ISO-8601, UTC."""

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]


class _Strict(Part):
    """A text for a number is damage, not a number."""

    model_config = ConfigDict(strict=True)


class Stack(_Strict):
    """The software as it was found when the launch was made; versions are null where it could not be asked."""

    name: str
    digest: str
    sglang_version: str | None
    python: str | None


class Host(_Strict):
    """Where it ran; ``gpus_digest`` is of the GPUs' UUIDs."""

    hostname: str
    class_digest: str
    gpus_digest: str | None = None


class Exit(_Strict):
    """The server's end: ``code`` as a shell gives it, 128 + signal."""

    code: int | None
    stopped_by: Literal["self", "TERM", "KILL"] | None


class Probe(_Strict):
    """A greedy answer to a fixed prompt."""

    prompt: str
    text: str
    output_ids: list[int]
    logprobs: list[float | None]
    prompt_tokens: Count | None
    completion_tokens: Count | None
    cached_tokens: Count | None
    finish_reason: str | None
    tokenizer_prompt_tokens: Count | None = None
    spec_accept_length: float | None = None
    spec_verify_ct: Count | None = None


class WindowGpu(_Strict):
    """What one GPU did during a window."""

    index: Count
    samples: Annotated[int, Field(ge=1)]
    sm_mhz_min: float | None
    temperature_c_max: float | None
    power_w_mean: float | None
    throttle_reasons: list[str]


class Window(_Strict):
    """One timed pass. ``metrics``: throughputs in tokens or requests per second, latencies in milliseconds, null where
    not reported. ``level`` is the concurrency or request rate of a ladder's step."""

    workload: str
    window: Count
    started_at: Moment
    duration_s: Annotated[float, Field(gt=0)]
    valid: bool
    invalid: list[str]
    metrics: dict[str, float | None]
    retracted_requests: Count | None = None
    gpus: list[WindowGpu] | None = None
    level: float | None = None
    energy_j: Seconds | None = None
    server_tokens: Count | None = None
    quality: dict[str, Any] | None = None


class Room(_Strict):
    """Processes and ports of ours on the machine; after a launch both must be empty."""

    processes: list[str]
    ports: list[int]
    orphans_ended: list[str] | None = None
    left_alone: list[str] | None = None


class LaunchRecord(Record):
    """One launch, from spawn to proven-gone, or why it was not made: written once, whatever happened.

    From version 2 on it is sealed: ``raw`` holds the SHA-256 of each file beside it, ``seal`` that of all the rest.
    """

    model_config = ConfigDict(strict=True)
    VERSION: ClassVar[int] = 2

    measuring_version: Annotated[int, Field(ge=1)]
    campaign: str
    variant: str
    """Name of the arm; ``<baseline>-prime`` is the A' arm."""
    key: Annotated[str, Field(pattern="^[0-9a-f]{10}$")]
    """Digest of ``identity``: of everything that can change the numbers."""
    identity: dict[str, Any]
    block: Count
    position: Count
    """Place in the block's random order, from 0."""
    stack: Stack
    host: Host
    started_at: Moment
    finished_at: Moment
    outcome: Literal["completed", "failed", "not_run"]
    cause: str | None
    """Of a failure, a name in config/knowledge/causes.yaml."""
    reason: str | None
    """Of a failure the first exception; of a launch that was not made, what settled its verdict before."""
    probe: list[Probe]
    windows: list[Window]
    measuring_code: str | None = None
    """Digest of the code that made the launch."""
    command: Annotated[list[str], Field(min_length=1)] | None = None
    environment: dict[str, str] | None = None
    """What was set for the server beside the ambient environment, secrets redacted."""
    exit: Exit | None = None
    timeline: dict[str, Seconds | None] | None = None
    """Seconds of each step; ``ready_s`` is null for a server that never was."""
    files: dict[str, str | None] | None = None
    """Raw data beside this file, null where there is none."""
    host_samples: dict[str, dict[str, Any]] | None = None
    """Clocks, temperatures, throttle reasons and load beside the launch."""
    clean_room: dict[str, Room] | None = None
    raw: dict[str, str] | None = None
    seal: str | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        if self.outcome == "not_run":
            if self.windows or self.reason is None:
                raise ValueError("a launch that was not made has a reason and no windows")
            return self
        parts = ("command", "environment", "exit", "timeline", "files", "host_samples", "clean_room")
        if absent := [part for part in parts if getattr(self, part) is None]:
            raise ValueError(f"a launch that was made has {', '.join(absent)}")
        if (self.outcome == "failed") != (self.cause is not None):
            raise ValueError("a cause belongs to a failed launch, and only to one")
        ready = (self.timeline or {}).get("ready_s")
        timed = self.windows or isinstance(self, ProfileRecord)
        if self.outcome == "completed" and not (self.probe and timed and ready is not None):
            raise ValueError("a completed launch has a time to ready, a probe and windows")
        if outside := [f for f in (self.files or {}).values() if f and not _inside(f)]:
            raise ValueError(f"raw files lie beside the record, {outside[0]!r} does not")
        return self

    @property
    def seconds(self) -> float:
        """How long it held the machine."""
        span = datetime.fromisoformat(self.finished_at) - datetime.fromisoformat(self.started_at)
        return span.total_seconds()

    def as_read(self) -> dict[str, Any]:
        """The record as it stands in the file."""
        return self.model_dump(exclude_unset=True)


class ProfileRecord(LaunchRecord):
    """A launch under the profiler: what was recorded, and what the traces say by stage."""

    profile: dict[str, Any]
    breakdown: dict[str, Any]
    nccl_tuning: dict[str, Any] | None = None


def _inside(name: str) -> bool:
    return not (Path(name).is_absolute() or ".." in Path(name).parts)


def sealed(result: dict[str, Any], parent: Path) -> dict[str, Any]:
    """``result`` as it is written, with its seal; raw files are named from ``parent``, the folder of its own."""
    named = [file for file in (result.get("files") or {}).values() if file]
    raw = {file: raw_sha256(parent / file) for file in named if (parent / file).is_file()}
    whole = {**redacted_data(finite(result)), "schema_version": LaunchRecord.VERSION, "raw": raw}
    return {**whole, "seal": _seal(whole)}


_BUCKET = re.compile(r"[^#\s{]*_bucket[{ ]")


def without_buckets(metrics: str) -> str:
    """A /metrics answer without its histograms' buckets: two thirds of it, and evidence reads none of them."""
    return "".join(line for line in metrics.splitlines(keepends=True) if not _BUCKET.match(line))


def raw_sha256(file: Path) -> str:
    """Of a raw file as it is published, so that its record stays sound there."""
    if file.name.startswith("metrics_"):
        text = without_buckets(file.read_text(encoding="utf-8", errors="replace"))
        return hashlib.sha256(text.encode()).hexdigest()
    return file_sha256(file)


def _seal(data: dict[str, Any]) -> str:
    return digest({name: value for name, value in data.items() if name != "seal"}, 64)


def read_launch(path: Path) -> LaunchRecord:
    """The record at ``path``, launch.json or profile.json. Raises UserError where it is not what was measured there."""
    status = path.stat()
    return _read(path, status.st_mtime_ns, status.st_size)


def read_launches(paths: Iterable[Path]) -> list[LaunchRecord]:
    """Those that exist. Raises UserError(s), as `read_launch`."""
    return [read_launch(path) for path in paths if path.exists()]


@lru_cache(maxsize=1 << 15)
def _read(path: Path, changed: int, size: int) -> LaunchRecord:
    data = read_json(path)
    model = ProfileRecord if path.name == "profile.json" else LaunchRecord
    record = model.of(data, path)
    if wrong := _mismatch(record, data, path):
        raise UserError(wrong, file=path, remedy=ASIDE)
    return record


ASIDE = "`sglang-sweep verify` sets it aside and keeps it; the next run measures it again"


def _mismatch(record: LaunchRecord, data: dict[str, Any], path: Path) -> str | None:
    if (record.schema_version >= 2 or record.seal) and record.seal != _seal(data):
        return "was changed after it was measured (its seal does not fit)"
    if record.key != digest(record.identity):
        return "its key is not that of its identity"
    where, there = path.parent, (f"{record.variant}-{record.key}", f"block-{record.block}")
    if where.name.startswith("block-") and (where.parent.name, where.name) != there:
        return f"belongs to {'/'.join(there)}"
    if where.parent.name == "profiles" and where.name != there[0]:
        return f"belongs to {there[0]}"
    return None


def damage(path: Path) -> str | None:
    """Why a record may not be used, its raw files included; None for a sound one."""
    try:
        record = read_launch(path)
    except (UserError, InfrastructureFault, OSError) as error:
        return str(error).partition("\n")[0]
    for file, known in (record.raw or {}).items():
        raw = path.parent / file
        if not raw.resolve().is_relative_to(path.parent.resolve()):
            return f"{path}: names a file outside its folder, {file}"
        if raw.is_file() and raw_sha256(raw) != known:
            return f"{path}: its raw file {file} was changed after it was measured"
    return None


def records_in(campaign: Path) -> list[Path]:
    """Every record of a launch in ``results/<campaign>``, profiles too."""
    found = [*campaign.glob("launches/*/block-*/launch.json"), *campaign.glob("profiles/*/profile.json")]
    return sorted(found)


def set_aside(campaign: Path) -> list[str]:
    """Renames damaged records in ``campaign`` (``results/<campaign>``), so that they are measured again.

    Returns a sentence for each; nothing is deleted.
    """
    told = []
    for path in records_in(campaign):
        if wrong := damage(path):
            kept = next(
                p for n in count(1) if not (p := path.with_name(f"{path.stem}.damaged-{n}.json")).exists()
            )
            try:
                path.rename(kept)
                told.append(f"{wrong}; set aside as {kept.name}, measured again by the next run")
            except OSError as error:
                raise UserError(
                    f"{wrong}, and it cannot be set aside: {error.strerror}",
                    file=path,
                    remedy="make its folder writable, then run again",
                ) from None
    return told


def main(arguments: Sequence[str]) -> int:
    """``sglang-sweep verify [RESULTS]``: 0 where every record is as it was measured, else 1."""
    parser = argparse.ArgumentParser(prog="sglang-sweep verify", description="which records are damaged?")
    parser.add_argument(
        "results", nargs="?", type=Path, default=Path("results"), help="results, or one campaign's"
    )
    parser.add_argument(
        "--set-aside", action="store_true", help="rename damaged records, as the next run does"
    )
    asked = parser.parse_args(arguments)
    if not asked.results.is_dir():
        raise UserError(
            "there is no such folder", file=asked.results, remedy="name the folder of the results"
        )
    campaigns = [c for c in (asked.results, *sorted(asked.results.iterdir())) if records_in(c)]
    sound = 0
    told: list[str] = []
    for campaign in campaigns:
        if asked.set_aside:
            told += set_aside(campaign)
        wrong = {path: damage(path) for path in records_in(campaign)}
        told += [f"{why}\n  remedy: {ASIDE}" for why in wrong.values() if why]
        good = [read_launch(path) for path, why in wrong.items() if not why]
        told += mixtures(good)
        sound += len(good)
    print("\n".join([*map(printable, told), f"{sound} records are as they were measured"]))
    return 1 if told else 0


def mixtures(launches: Iterable[LaunchRecord]) -> list[str]:
    """A sentence for each campaign whose launches were measured by more than one code or measuring version."""
    told = []
    by_campaign: dict[str, list[LaunchRecord]] = {}
    for launch in launches:
        if launch.outcome != "not_run":
            by_campaign.setdefault(launch.campaign, []).append(launch)
    for campaign, made in by_campaign.items():
        codes = Counter(launch.measuring_code or "unrecorded" for launch in made)
        if len(codes) > 1:
            parts = ", ".join(f"{count} by {code}" for code, count in codes.most_common())
            told.append(
                f"{campaign}: launches were measured by {len(codes)} states of the measuring code: {parts}"
            )
    return told

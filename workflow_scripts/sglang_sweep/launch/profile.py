"""Profiles a running server through /start_profile, bounded in time and in size.

The caller owns the server (a launch of its own, never a measured one) and stops it afterwards; whatever happens
here is recorded, not raised: a profiler that hangs or floods the disk costs a profile, not the campaign.
"""

import shutil
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import requests

from sglang_sweep.launch.asking import Asking, BadAnswer
from sglang_sweep.traces.files import TraceFile, trace_files

_POLL_S = 0.25
# a server that answers /start_profile only when the steps are done needs requests meanwhile
_START_ANSWER_S = 5.0
_STOP_ANSWER_S = 20.0
_FLUSH_S = 30.0
_FREE_DISK_MB = 512


def profile_server(
    server: Asking,
    out_dir: str | Path,
    steps: int,
    stages: Sequence[str],
    workload_driver: Callable[[], object],
    size_limit_mb: float = 2000.0,
    timeout_s: float = 300.0,
    *,
    ranks: int = 1,
    activities: Sequence[str] = ("CPU", "GPU"),
    with_stack: bool = False,
    record_shapes: bool = False,
) -> dict[str, Any]:
    """Records ``steps`` steps of each stage (``prefill``, ``decode``) on every rank.

    ``workload_driver`` sends requests and returns; it is called again until the traces are there. ``activities``
    is ``("CPU",)`` on a host without a GPU. Stacks and shapes slow the host and stretch its gaps: off by default.

    Returns ``outcome`` (completed, partial, refused, hung, too_large, server_died, driver_failed), ``reason``,
    ``profile_id``, ``traces`` (rank, stage, file relative to ``out_dir``, bytes), ``bytes`` and ``elapsed_s``.
    """
    return _Profile(
        server,
        Path(out_dir),
        steps,
        list(stages),
        workload_driver,
        size_limit_mb,
        timeout_s,
        ranks,
    ).run(list(activities), with_stack, record_shapes)


class _Profile:
    def __init__(
        self,
        server: Asking,
        folder: Path,
        steps: int,
        stages: list[str],
        driver: Callable[[], object],
        size_limit_mb: float,
        timeout_s: float,
        ranks: int,
    ) -> None:
        self.server, self.folder, self.steps, self.stages = server, folder, steps, stages
        self.driver, self.size_limit, self.timeout, self.ranks = driver, size_limit_mb * 1e6, timeout_s, ranks
        self.profile_id = f"{time.time():.4f}"
        self.done = threading.Event()
        self.start_error: str | None = None
        self.driver_error: str | None = None
        self.complete: set[Path] = set()
        self.sizes: dict[Path, int] = {}

    def run(self, activities: list[str], with_stack: bool, record_shapes: bool) -> dict[str, Any]:
        self.folder.mkdir(parents=True, exist_ok=True)
        begin = time.monotonic()
        body = {
            "output_dir": str(self.folder.resolve()),
            "num_steps": self.steps,
            "activities": activities,
            "profile_by_stage": True,
            "profile_stages": self.stages,
            "with_stack": with_stack,
            "record_shapes": record_shapes,
            "profile_id": self.profile_id,
        }
        starting = threading.Thread(target=self._start, args=(body,), daemon=True)
        starting.start()
        starting.join(_START_ANSWER_S)
        if self.start_error:
            return self._result("refused", self.start_error, begin)
        driving = threading.Thread(target=self._drive, daemon=True)
        driving.start()
        try:
            outcome, reason = self._watch(begin)
        finally:
            self.done.set()
        if outcome != "completed":
            outcome, reason = self._stop(outcome, reason)
        driving.join(_POLL_S)
        return self._result(outcome, reason, begin)

    def _start(self, body: dict[str, Any]) -> None:
        try:
            answer = self.server.ask("/start_profile", self.timeout, body)
            if answer.status != 200:
                text = " ".join(answer.text.split())[:300]
                self.start_error = f"/start_profile answered {answer.status}: {text}"
        except (requests.RequestException, BadAnswer) as error:
            self.start_error = f"/start_profile gave no answer ({type(error).__name__})"

    def _drive(self) -> None:
        while not self.done.is_set():
            try:
                self.driver()
            except Exception as error:  # the caller's code: any failure ends the profile, and is told
                self.driver_error = f"{type(error).__name__}: {error}"
                return
            self.done.wait(0.05)

    def _watch(self, begin: float) -> tuple[str, str | None]:
        while True:
            size = _folder_size(self.folder)
            if size > self.size_limit:
                limit = self.size_limit / 1e6
                return "too_large", f"traces grew to {size / 1e6:.0f} MB, the limit is {limit:.0f} MB"
            free = shutil.disk_usage(self.folder).free / 1e6
            if free < _FREE_DISK_MB:
                return "too_large", f"only {free:.0f} MB are left on the disk of {self.folder}"
            if self._all_there():
                return "completed", None
            if self.start_error:
                return "refused", self.start_error
            if self.driver_error:
                return ("driver_failed" if self._alive() else "server_died"), self.driver_error
            if time.monotonic() - begin > self.timeout:
                if not self._alive():
                    return "server_died", "the server stopped answering while it was profiled"
                return "hung", f"no complete trace of every rank within {self.timeout:.0f} s"
            time.sleep(_POLL_S)

    def _stop(self, outcome: str, reason: str | None) -> tuple[str, str | None]:
        """Stops the profiler; a hung one is given a moment to write, a flooding one's files are removed."""
        with suppress(requests.RequestException, BadAnswer):
            self.server.ask("/stop_profile", _STOP_ANSWER_S, post=True)
        if outcome == "too_large":
            for found in self._files():
                found.path.unlink(missing_ok=True)
            return outcome, reason
        deadline = time.monotonic() + min(_FLUSH_S, self.timeout)
        while outcome == "hung" and time.monotonic() < deadline and not self._all_there():
            time.sleep(_POLL_S)
        if outcome == "hung" and self._complete():
            missing = self._missing()
            return "partial", f"{reason}; after /stop_profile {missing or 'everything'} was missing"
        return outcome, reason

    def _alive(self) -> bool:
        try:
            return self.server.ask("/server_info", 5).status < 500
        except (requests.RequestException, BadAnswer):
            return False

    def _files(self) -> list[TraceFile]:
        return trace_files(self.folder, self.profile_id)

    def _complete(self) -> list[TraceFile]:
        found = []
        for file in self._files():
            size = file.path.stat().st_size
            # a file that still grows is not worth unpacking
            if file.path not in self.complete and self.sizes.get(file.path) == size and _whole(file.path):
                self.complete.add(file.path)
            self.sizes[file.path] = size
            if file.path in self.complete:
                found.append(file)
        return found

    def _missing(self) -> str:
        have = {(file.stage, file.rank) for file in self._complete()}
        wanted = [(stage, rank) for stage in self.stages for rank in range(self.ranks)]
        return ", ".join(f"{stage} of rank {rank}" for stage, rank in wanted if (stage, rank) not in have)

    def _all_there(self) -> bool:
        counts: dict[str | None, int] = {}
        for file in self._complete():
            counts[file.stage] = counts.get(file.stage, 0) + 1
        return all(counts.get(stage, 0) >= self.ranks for stage in self.stages)

    def _result(self, outcome: str, reason: str | None, begin: float) -> dict[str, Any]:
        traces = [
            {
                "rank": file.rank,
                "stage": file.stage,
                "file": file.path.relative_to(self.folder).as_posix(),
                "bytes": file.path.stat().st_size,
            }
            for file in self._complete()
        ]
        return {
            "outcome": outcome,
            "reason": reason,
            "profile_id": self.profile_id,
            "steps": self.steps,
            "traces": traces,
            "bytes": sum(int(trace["bytes"] or 0) for trace in traces),
            "elapsed_s": round(time.monotonic() - begin, 3),
        }


def _folder_size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # the profiler renames and removes its temporary files
            total += path.stat().st_size
    return total


def _whole(path: Path) -> bool:
    """Whether a gzip file has its end: the profiler writes in place, so a name alone proves nothing."""
    unpacker = zlib.decompressobj(31)
    try:
        with path.open("rb") as packed:
            while chunk := packed.read(1 << 20):
                while chunk:
                    unpacker.decompress(chunk, 1 << 22)
                    chunk = unpacker.unconsumed_tail
        return unpacker.eof
    except (OSError, zlib.error):
        return False

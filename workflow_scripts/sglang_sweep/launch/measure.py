"""One launch from clean room to proven-gone, recorded whatever happens."""

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from sglang_sweep import record
from sglang_sweep.campaign import Workload
from sglang_sweep.errors import InfrastructureFault
from sglang_sweep.flags import redacted
from sglang_sweep.keys import MEASURING_VERSION
from sglang_sweep.launch import ownership, pinning
from sglang_sweep.launch.probe import PROMPTS, run_probe
from sglang_sweep.launch.server import NotReady, Server, StallVerdict, free_port, listeners
from sglang_sweep.launch.workload import Client, ClientFailed, ClientHung, run_window, warm_up

CauseOf = Callable[[Path, str | None, int | None], tuple[str, str | None]]
"""(log, SGLang version, exit code) to (cause, first exception)."""


@dataclass(frozen=True)
class Limits:
    """When a launch is given up, seconds; described in config/README.md."""

    launch_s: float = 1200
    stall_s: float = 180
    window_s: float = 900
    stop_s: float = 30
    busy_wait_s: float = 3600


@dataclass(frozen=True)
class LaunchOrder:
    """Everything one launch needs to know. ``command`` lacks only ``--host`` and ``--port``."""

    campaign: str
    variant: str
    key: str
    identity: dict[str, Any]
    block: int
    position: int
    command: list[str]
    environment: dict[str, str]
    declared_environment: dict[str, str]
    model: str
    stack: dict[str, Any]
    host: dict[str, str]
    workloads: tuple[Workload, ...]
    windows: int
    client_python: Path
    share_processors: bool
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class Instruments:
    """What measuring borrows from other parts of the library; tests give their own."""

    cause_of: CauseOf
    stall_verdict: StallVerdict
    sample_host: Callable[[], dict[str, Any]]


class _VariantFailed(Exception):
    """The server, not we, failed. ``cause`` is given where the log could not know it."""

    def __init__(self, reason: str, cause: str | None = None) -> None:
        self.reason, self.cause = reason, cause
        super().__init__(reason)


def measure(launch: LaunchOrder, output: Path, instruments: Instruments) -> dict[str, Any]:
    """Makes the launch and writes ``output`` (launch.json), with logs and raw data in ``attempt-<k>/`` beside it.

    A variant that fails is a result. Raises InfrastructureFault when nothing may be concluded, Interrupted
    when told to stop; in every case no process of ours is left.
    """
    folder = _new_attempt(output.parent)
    with ownership.interruptible(), ownership.exclusive(launch.limits.busy_wait_s):
        ended = ownership.kill_orphans()
        run = _Run(launch, folder, instruments)
        run.note_clean_room("before", ended)
        try:
            run.go()
        finally:
            run.close()
    result = run.result()
    record.write_json(folder / "launch.json", result)
    left = result["clean_room"]["after"]
    if left["processes"] or left["ports"]:
        raise InfrastructureFault(
            f"the server of {launch.variant} could not be ended: {left}",
            remedy="end these processes by hand (a driver in D state may need a reboot), then run again",
        )
    record.write_json(output, result)
    return result


def _new_attempt(folder: Path) -> Path:
    """Attempts are numbered and kept: a rerun overwrites nothing."""
    number = 1 + max((int(p.name.removeprefix("attempt-")) for p in folder.glob("attempt-*")), default=0)
    attempt = folder / f"attempt-{number}"
    attempt.mkdir(parents=True)
    return attempt


class _Run:
    """The steps of one launch and what they leave behind."""

    def __init__(self, launch: LaunchOrder, folder: Path, instruments: Instruments) -> None:
        self.launch, self.folder, self.instruments = launch, folder, instruments
        port = free_port()
        command = [*launch.command, "--host", "127.0.0.1", "--port", str(port)]
        self.server = Server(command, launch.environment, folder / "server.log", port)
        available = os.sched_getaffinity(0)
        everything = (available, available)
        self.server_cpus, client_cpus = (
            pinning.split_processors(available) if launch.share_processors else everything
        )
        client_home = {"HOME": str(folder), "HF_HOME": _hub_home(launch.environment)}
        self.client = Client(
            launch.client_python, folder / "client.log", launch.environment | client_home, client_cpus
        )
        self.started_at, self.timeline = record.now(), dict[str, float | None](spawned=0.0)
        self.outcome = "completed"
        self.cause: str | None = None
        self.reason: str | None = None
        self.probe: list[dict[str, Any]] = []
        self.windows: list[dict[str, Any]] = []
        self.clean_room: dict[str, Any] = {}
        self.host_samples: dict[str, Any] = {}

    def note_clean_room(self, when: str, ended: list[str] | None = None) -> None:
        """What of ours is on the machine; ``before`` also says which orphans were ended first."""
        processes = [f"{process.pid} {process.name()}" for process, _ in ownership.marked_processes()]
        ports = [self.server.port] if listeners(self.server.port) else []
        self.clean_room[when] = {"processes": processes, "ports": ports}
        if when == "before":
            self.clean_room[when]["orphans_ended"] = ended or []
        self.host_samples[when] = self.instruments.sample_host()

    def go(self) -> None:
        try:
            self._serve()
        except _VariantFailed as failure:
            self.outcome = "failed"
            self.cause, self.reason = failure.cause, failure.reason

    def _serve(self) -> None:
        limits = self.launch.limits
        self.client.start()
        self.server.start()
        try:
            self.timeline["ready_s"] = round(
                self.server.wait_ready(limits.launch_s, limits.stall_s, self.instruments.stall_verdict), 2
            )
        except NotReady as failure:
            self.timeline["ready_s"] = None
            cause = {"hung": "collective_hang", "timeout": "launch_timeout"}.get(failure.kind)
            raise _VariantFailed(failure.detail, cause) from None
        self._with_client(lambda: self.client.wait_ready(limits.launch_s))
        if self.launch.share_processors:
            pinning.pin(self.server.tree(), self.server_cpus)
            pinning.pin(self.client.tree(), self.client.processors)
        self._timed("probe_s", self._probe)
        self._keep("server_info_before.json", "/server_info")
        self._keep("metrics_before.txt", "/metrics")
        self._timed("warmup_s", self._warm_up)
        self._timed("windows_s", self._windows)
        self._keep("server_info_after.json", "/server_info")
        self._keep("metrics_after.txt", "/metrics")

    def _timed(self, name: str, step: Callable[[], None]) -> None:
        began = time.monotonic()
        try:
            step()
        finally:
            self.timeline[name] = round(time.monotonic() - began, 2)

    def _probe(self) -> None:
        try:
            self.probe = run_probe(self.server.url, self.launch.limits.window_s)
        except (requests.RequestException, KeyError, ValueError) as error:
            raise self._server_failure(f"the correctness probe got no answer: {error}") from None
        counts = self._with_client(lambda: self.client.count_tokens(self.launch.model, list(PROMPTS), 300))
        for entry, count in zip(self.probe, counts, strict=True):
            entry["tokenizer_prompt_tokens"] = count

    def _warm_up(self) -> None:
        for workload in self.launch.workloads:
            self._with_client(
                lambda workload=workload: warm_up(  # type: ignore[misc]
                    self.client,
                    workload,
                    url=self.server.url,
                    model=self.launch.model,
                    folder=self.folder,
                    timeout_s=self.launch.limits.window_s,
                )
            )

    def _windows(self) -> None:
        for index in range(self.launch.windows):
            for workload in self.launch.workloads:
                self._flush()
                self.windows.append(
                    self._with_client(
                        lambda workload=workload: run_window(  # type: ignore[misc]
                            self.client,
                            workload,
                            index,  # noqa: B023  # called before the loop moves on
                            url=self.server.url,
                            model=self.launch.model,
                            output=self.folder / "bench.jsonl",
                            timeout_s=self.launch.limits.window_s,
                        )
                    )
                )

    def _flush(self) -> None:
        """The prefix cache must be as cold in every window; refused while requests still run."""
        for _ in range(20):
            with suppress(requests.RequestException):
                if requests.post(f"{self.server.url}/flush_cache", timeout=30).ok:
                    return
            if self.server.exit_code is not None:
                break
            time.sleep(0.5)
        raise self._server_failure("/flush_cache was refused for 10 s")

    def _with_client(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except ClientHung as error:
            raise self._server_failure(str(error), alive="client_hang") from None
        except ClientFailed as error:
            failure = self._server_failure(str(error))
            if failure.cause == "infrastructure":
                raise InfrastructureFault(f"load client: {error}", remedy=f"see {self.client.log}") from None
            raise failure from None

    def _server_failure(self, reason: str, alive: str = "infrastructure") -> _VariantFailed:
        """A dead server speaks through its log; a live one failed in the way ``alive`` says."""
        time.sleep(1.0)  # a crash reaches the client before the parent has ended
        return _VariantFailed(reason, None if self.server.exit_code is not None else alive)

    def _keep(self, name: str, endpoint: str) -> None:
        with suppress(requests.RequestException):
            answer = requests.get(f"{self.server.url}{endpoint}", timeout=60)
            if answer.ok:
                text = answer.text
                if name.endswith(".json"):
                    text = json.dumps(_redacted_info(answer.json()), indent=1, sort_keys=True)
                (self.folder / name).write_text(text, encoding="utf-8")

    def close(self) -> None:
        """Stops everything; always runs, also when interrupted."""
        began = time.monotonic()
        try:
            self.client.stop()
            self.server.stop(self.launch.limits.stop_s)
        finally:
            self.server.kill_rest()
        self.timeline["stop_s"] = round(time.monotonic() - began, 2)
        for leftover in (".cache", ".config", "warmup.jsonl"):
            path = self.folder / leftover
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        self.note_clean_room("after")

    def result(self) -> dict[str, Any]:
        """launch.json."""
        launch = self.launch
        if self.outcome == "failed":
            from_log, exception = self.instruments.cause_of(
                self.server.log, launch.stack.get("sglang_version"), self.server.exit_code
            )
            # What the log shows is more specific than how we noticed; a hang or time-out leaves no exception.
            self.cause = from_log if from_log != "unknown" else (self.cause or "unknown")
            if self.cause == "unknown" and exception is None and self.server.stopped_by == "self":
                self.cause = "crashed"
            self.reason = exception or self.reason
        if self.cause == "infrastructure":
            raise InfrastructureFault(f"{launch.variant}: {self.reason}", remedy=f"see {self.server.log}")
        return {
            "schema_version": 1,
            "measuring_version": MEASURING_VERSION,
            "campaign": launch.campaign,
            "variant": launch.variant,
            "key": launch.key,
            "identity": launch.identity,
            "block": launch.block,
            "position": launch.position,
            "started_at": self.started_at,
            "finished_at": record.now(),
            "stack": launch.stack,
            "host": launch.host,
            "command": self.server.command,
            "environment": redacted(launch.declared_environment),
            "outcome": self.outcome,
            "cause": self.cause,
            "reason": self.reason,
            "exit": {"code": self.server.exit_code, "stopped_by": self.server.stopped_by},
            "timeline": self.timeline,
            "files": {
                name: f"{self.folder.name}/{file}" if (self.folder / file).exists() else None
                for name, file in (
                    ("server_log", "server.log"),
                    ("client_log", "client.log"),
                    ("bench", "bench.jsonl"),
                    ("server_info_before", "server_info_before.json"),
                    ("server_info_after", "server_info_after.json"),
                    ("metrics_before", "metrics_before.txt"),
                    ("metrics_after", "metrics_after.txt"),
                )
            },
            "probe": self.probe,
            "windows": self.windows,
            "host_samples": self.host_samples,
            "clean_room": self.clean_room,
        }


def _hub_home(environment: dict[str, str]) -> str:
    """The client gets a home of its own, so the hub's cache must be named."""
    return environment.get("HF_HOME") or str(
        Path(environment.get("HOME", "~")).expanduser() / ".cache/huggingface"
    )


def _redacted_info(info: dict[str, Any]) -> dict[str, Any]:
    """/server_info with secrets out of the exposed environment and arguments."""
    for state in info.get("internal_states") or []:
        if isinstance(state, dict) and isinstance(state.get("env_vars"), dict):
            state["env_vars"] = redacted(state["env_vars"])
    for name in ("api_key", "admin_api_key", "ssl_keyfile_password"):
        if info.get(name):
            info[name] = "<redacted>"
    return info


def not_run(launch: dict[str, Any], output: Path, reason: str) -> dict[str, Any]:
    """Records that a launch was not made because its verdict was settled before; ``launch`` holds its identity."""
    moment = record.now()
    result = {
        "schema_version": 1,
        "measuring_version": MEASURING_VERSION,
        **launch,
        "started_at": moment,
        "finished_at": moment,
        "outcome": "not_run",
        "cause": None,
        "reason": reason,
        "probe": [],
        "windows": [],
    }
    record.write_json(output, result)
    return result

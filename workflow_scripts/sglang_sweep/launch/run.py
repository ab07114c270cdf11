"""One launch's two processes, server and load client: the steps every kind of launch shares."""

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any

import requests
from prometheus_client.parser import text_string_to_metric_families

from sglang_sweep.campaign.keys import MEASURING_VERSION
from sglang_sweep.errors import InfrastructureFault
from sglang_sweep.files import records as record
from sglang_sweep.files.redaction import REDACTED, redacted_environment
from sglang_sweep.launch import ownership, pinning
from sglang_sweep.launch.order import Instruments, LaunchOrder
from sglang_sweep.launch.probe import PROMPTS, run_probe
from sglang_sweep.launch.server import NotReady, Server, free_port, listeners
from sglang_sweep.launch.watch import GpuWatch
from sglang_sweep.launch.workload import Client, ClientFailed, ClientHung, run_window, warm_up


class VariantFailed(Exception):
    """The server, not we, failed. ``cause`` is given where the log could not know it."""

    def __init__(self, reason: str, cause: str | None = None) -> None:
        self.reason, self.cause = reason, cause
        super().__init__(reason)


class Run:
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
        self.client_home = folder / "client-home"
        client_home = {"HOME": str(self.client_home), "HF_HOME": _hub_home(launch.environment)}
        self.client = Client(
            launch.client_python,
            folder / "client.log",
            launch.environment | client_home,
            client_cpus,
            self.server.child_failed,
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

    def go(self, work: Callable[[], None]) -> None:
        """Starts both processes, does ``work`` on the ready server; a failing variant becomes the outcome."""
        try:
            self._start()
            self._timed("probe_s", self._probe)
            self._keep("server_info_before.json", "/server_info")
            self._timed("warmup_s", self._warm_up)
            self._keep("metrics_before.txt", "/metrics")
            self._timed("windows_s", work)
            self._keep("server_info_after.json", "/server_info")
            self._keep("metrics_after.txt", "/metrics")
        except VariantFailed as failure:
            self.outcome = "failed"
            self.cause, self.reason = failure.cause, failure.reason

    def _start(self) -> None:
        limits = self.launch.limits
        self.client_home.mkdir()
        self.client.start()
        self.server.start()
        try:
            self.timeline["ready_s"] = round(
                self.server.wait_ready(limits.launch_s, limits.stall_s, self.instruments.stall_verdict), 2
            )
        except NotReady as failure:
            self.timeline["ready_s"] = None
            cause = {"hung": "collective_hang", "timeout": "launch_timeout"}.get(failure.kind)
            raise VariantFailed(failure.detail, cause) from None
        self.ask_client(self.client.wait_ready, limits.launch_s)
        if self.launch.share_processors:
            pinning.pin(self.server.tree(), self.server_cpus)
            pinning.pin(self.client.tree(), self.client.processors)

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
        counts = self.ask_client(self.client.count_tokens, self.launch.model, list(PROMPTS), 300.0)
        for entry, count in zip(self.probe, counts, strict=True):
            entry["tokenizer_prompt_tokens"] = count

    def _warm_up(self) -> None:
        for workload in self.launch.workloads:
            self.ask_client(warm_up, self.client, workload, folder=self.folder, **self._target())

    def measure_windows(self) -> None:
        """Every window of every workload, each with a cold prefix cache; workloads alternate."""
        for index in range(self.launch.windows):
            for workload in self.launch.workloads:
                self.flush()
                output = self.folder / "bench.jsonl"
                before = self._retracted()
                with self._watch() as watch:
                    window = self.ask_client(
                        run_window, self.client, workload, index, output=output, **self._target()
                    )
                after = self._retracted()
                window["retracted_requests"] = (
                    None if before is None or after is None else int(after - before)
                )
                if watch:
                    window["gpus"] = watch.summary()
                self.windows.append(window)

    def _watch(self) -> AbstractContextManager[GpuWatch | None]:
        """On a host without GPUs the thread would only take from the few processors that serve."""
        has_gpus = (self.host_samples.get("before") or {}).get("gpus")
        return GpuWatch(self.instruments.sample_clocks) if has_gpus else nullcontext()

    def _retracted(self) -> float | None:
        """Requests evicted from the KV cache so far, over all ranks; None where the server does not say."""
        with suppress(requests.RequestException, ValueError):
            answer = requests.get(f"{self.server.url}/metrics", timeout=30)
            samples = [s for f in text_string_to_metric_families(answer.text) for s in f.samples]
            if any(sample.name.startswith("sglang:") for sample in samples):
                # A counter is exported from its first event on: absent means none.
                return sum(s.value for s in samples if s.name == "sglang:num_retracted_requests_total")
        return None

    def _target(self) -> dict[str, Any]:
        return {"url": self.server.url, "model": self.launch.model, "timeout_s": self.launch.limits.window_s}

    def flush(self) -> None:
        """The prefix cache must be as cold in every window; refused while requests still run."""
        for _ in range(20):
            with suppress(requests.RequestException):
                if requests.post(f"{self.server.url}/flush_cache", timeout=30).ok:
                    return
            if self.server.exit_code is not None:
                break
            time.sleep(0.5)
        raise self._server_failure("/flush_cache was refused for 10 s")

    def ask_client(self, step: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """A step of the load client; says whose fault it is when it does not come back well."""
        try:
            return step(*arguments, **options)
        except ClientHung as error:
            raise self._server_failure(str(error), alive="client_hang") from None
        except ClientFailed as error:
            failure = self._server_failure(str(error))
            if failure.cause == "infrastructure":
                raise InfrastructureFault(f"load client: {error}", remedy=f"see {self.client.log}") from None
            raise failure from None

    def _server_failure(self, reason: str, alive: str = "infrastructure") -> VariantFailed:
        """A dead server speaks through its log; a live one failed in the way ``alive`` says."""
        time.sleep(1.0)  # a crash reaches the client before the parent has ended
        dead = self.server.exit_code is not None or self.server.child_failed()
        return VariantFailed(reason, None if dead else alive)

    def _keep(self, name: str, endpoint: str) -> None:
        # An idle server answers at once; one whose scheduler has died keeps its socket open for a minute.
        with suppress(requests.RequestException):
            answer = requests.get(f"{self.server.url}{endpoint}", timeout=15)
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
        shutil.rmtree(self.client_home, ignore_errors=True)
        (self.folder / "warmup.jsonl").unlink(missing_ok=True)
        self.note_clean_room("after")

    def result(self) -> dict[str, Any]:
        """launch.json."""
        launch = self.launch
        if self.outcome == "failed":
            from_log, exception = self.instruments.cause_of(
                self.server.log, launch.stack.get("sglang_version"), self.server.exit_code
            )
            # What the log shows is more specific than how we noticed; a hang or a time-out leaves no exception,
            # and its exit code is that of our own KILL.
            if self.cause is None or from_log not in ("unknown", "crashed"):
                self.cause, self.reason = from_log, exception or self.reason
            if self.cause == "unknown" and self.server.stopped_by == "self":
                self.cause = "crashed"
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
            "environment": redacted_environment(launch.declared_environment),
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
            state["env_vars"] = redacted_environment(state["env_vars"])
    for name in ("api_key", "admin_api_key", "ssl_keyfile_password"):
        if info.get(name):
            info[name] = REDACTED
    return info

"""One launch's two processes, server and load client: the steps every kind of launch shares."""

import json
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any

import requests
from prometheus_client.parser import text_string_to_metric_families

from sglang_sweep.campaign.keys import MEASURING_VERSION
from sglang_sweep.errors import InfrastructureFault
from sglang_sweep.files import records as record
from sglang_sweep.files.digest import digest, file_sha256
from sglang_sweep.files.redaction import redact_file, redacted_data, redacted_environment, secrets_of
from sglang_sweep.launch import environment, headroom, ownership
from sglang_sweep.launch.asking import (
    KEY_FLAGS,
    PROMPTS,
    Answer,
    BadAnswer,
    NoAnswer,
    keys_of,
    random_key,
    run_probe,
)
from sglang_sweep.launch.order import Instruments, LaunchOrder
from sglang_sweep.launch.server import LOG_KEPT, NotReady, Server, free_port, listeners
from sglang_sweep.launch.watch import GpuWatch
from sglang_sweep.launch.workload import CLIENT, Client, ClientFailed, ClientHung, run_window, warm_up

PORT_TRIES = 3

COUNTERS = ("sglang:num_retracted_requests_total", "sglang:generation_tokens_total")

FOREIGN_SHARE, FOREIGN_TOKENS = 0.02, 64
"""Tokens that a window's server may count beyond the client's: a health check generates some."""

KILLED = re.compile(r"\b(-9|137|SIGKILL|[Kk]illed)\b")


class VariantFailed(Exception):
    """The server, not we, failed. ``cause`` is given where the log could not know it."""

    def __init__(self, reason: str, cause: str | None = None) -> None:
        self.reason, self.cause = reason, cause
        super().__init__(reason)


class Run:
    """The steps of one launch and what they leave behind."""

    def __init__(
        self,
        launch: LaunchOrder,
        folder: Path,
        instruments: Instruments,
        lease: ownership.Lease | None = None,
        say: ownership.Say = print,
    ) -> None:
        self.launch, self.folder, self.instruments, self.lease, self.say = (
            launch,
            folder,
            instruments,
            lease,
            say,
        )
        self.command = list(launch.command)
        if launch.random_key and not keys_of(self.command):
            self.command += [KEY_FLAGS[0], random_key()]
        self.server = self._new_server()
        available = os.sched_getaffinity(0)
        everything = (available, available)
        self.server_cpus, client_cpus = (
            environment.split_processors(available) if launch.share_processors else everything
        )
        self.client_home = folder / "client-home"
        own = {"HOME": str(self.client_home), "HF_HOME": _hub_home(launch.environment)}
        # SGLang's client sends the first of these to whatever server it asks: ours must not get the user's.
        own |= {
            "OPENAI_API_KEY": self.server.asking.keys[0] if self.server.asking.keys else "",
            "API_KEY": "",
        }
        self.client = Client(
            launch.client_python,
            folder / "client.log",
            environment.unproxied(launch.environment | own),
            client_cpus,
            lambda: self.server.failed(),
            lease,
            "--trust-remote-code" in launch.command,
        )
        self.kills_before = headroom.out_of_memory_kills()
        self.started_at, self.timeline = record.now(), dict[str, float | None](spawned=0.0)
        self.outcome = "completed"
        self.cause: str | None = None
        self.reason: str | None = None
        self.probe: list[dict[str, Any]] = []
        self.windows: list[dict[str, Any]] = []
        self.clean_room: dict[str, Any] = {}
        self.host_samples: dict[str, Any] = {}

    def _new_server(self) -> Server:
        port = free_port()
        command = [*self.command, "--host", "127.0.0.1", "--port", str(port)]
        return Server(command, self.launch.environment, self.folder / "server.log", port, self.lease)

    def note_clean_room(self, when: str, orphans: ownership.Orphans | None = None) -> None:
        """What of this launch is on the machine; ``before`` also says what earlier ones had left there."""
        marked = [process for process, _ in ownership.marked_processes(str(ownership.me()))]
        there = {process.pid: process for process in [*marked, *self.server.tree(), *self.client.tree()]}
        ports = [self.server.port] if listeners(self.server.port) else []
        self.clean_room[when] = {"processes": [ownership.named(p) for p in there.values()], "ports": ports}
        if orphans:
            self.clean_room[when] |= {"orphans_ended": orphans.ended, "left_alone": orphans.left_alone}
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
        for tries_left in reversed(range(PORT_TRIES)):
            self.server.start()
            try:
                ready = self.server.wait_ready(
                    limits.launch_s, limits.stall_s, self.instruments.stall_verdict
                )
                self.timeline["ready_s"] = round(ready, 2)
                break
            except NotReady as failure:
                self.timeline["ready_s"] = None
                if not self._lost_its_port(failure):
                    cause = {"hung": "collective_hang", "timeout": "launch_timeout", "flood": "log_flood"}
                    raise VariantFailed(failure.detail, cause.get(failure.kind)) from None
                if not tries_left:
                    raise InfrastructureFault(
                        f"a port was taken from {self.launch.variant} {PORT_TRIES} times: {failure.detail}",
                        remedy="find out who takes ports of this host (ss -ltnp), then run again",
                    ) from None
                self.say(f"{failure.detail}; once more with another port")
                self.server.stop(limits.stop_s)
                self.server = self._new_server()
        self.ask_client(self.client.wait_ready, limits.launch_s)
        if self.launch.share_processors:
            environment.pin(self.server.tree(), self.server_cpus)
            environment.pin(self.client.tree(), self.client.processors)

    def _lost_its_port(self, failure: NotReady) -> bool:
        """Between our look and its bind another program took a port, unless the variant itself named that port."""
        if any(word.startswith("--") and ("port" in word or "addr" in word) for word in self.launch.command):
            return False
        return failure.kind == "port_taken" or (
            failure.kind == "died" and self._cause_in_log()[0] == "port_in_use"
        )

    def _cause_in_log(self) -> tuple[str, str | None]:
        return self.instruments.cause_of(
            self.server.log, self.launch.stack.get("sglang_version"), self.server.exit_code
        )

    def _timed(self, name: str, step: Callable[[], None]) -> None:
        began = time.monotonic()
        try:
            step()
        finally:
            self.timeline[name] = round(time.monotonic() - began, 2)

    def _probe(self) -> None:
        try:
            self.probe = run_probe(self.server.asking, self.launch.limits.window_s)
        except BadAnswer as error:
            raise self._server_failure(f"the correctness probe: {error}", alive="bad_answers") from None
        except requests.RequestException as error:
            alive = "client_hang" if isinstance(error, NoAnswer) else "infrastructure"
            raise self._server_failure(f"the correctness probe got no answer: {error}", alive) from None
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
                before = self._counters()
                with self._watch() as watch:
                    window = self.ask_client(
                        run_window, self.client, workload, index, output=output, **self._target()
                    )
                self._account(window, before, self._counters())
                if watch:
                    window["gpus"] = watch.summary()
                self.windows.append(window)
                if not window["metrics"]["completed"]:
                    raise self._server_failure(
                        f"none of {window['metrics']['failed']} requests was answered well",
                        alive="bad_answers",
                    )

    def _account(
        self, window: dict[str, Any], before: dict[str, float] | None, after: dict[str, float] | None
    ) -> None:
        """What the server counted meanwhile; tokens that are not ours void the window."""
        window["retracted_requests"] = None
        if before is None or after is None:
            return
        grown = {name: after[name] - before[name] for name in after}
        window["retracted_requests"] = int(grown["sglang:num_retracted_requests_total"])
        ours = window["metrics"]["total_output_tokens"] or 0
        foreign = grown["sglang:generation_tokens_total"] - ours
        if foreign > FOREIGN_SHARE * ours + FOREIGN_TOKENS and not window["metrics"]["failed"]:
            window["valid"] = False
            window["invalid"].append("foreign_load")

    def _watch(self) -> AbstractContextManager[GpuWatch | None]:
        """On a host without GPUs the thread would only take from the few processors that serve."""
        has_gpus = (self.host_samples.get("before") or {}).get("gpus")
        return GpuWatch(self.instruments.sample_clocks) if has_gpus else nullcontext()

    def _counters(self) -> dict[str, float] | None:
        """COUNTERS so far, summed over labels (ranks, engines); None where the server does not say."""
        with suppress(requests.RequestException, BadAnswer, ValueError):
            answer = self.server.asking.ask("/metrics", 30)
            samples = [s for f in text_string_to_metric_families(answer.text) for s in f.samples]
            if any(sample.name.startswith("sglang:") for sample in samples):
                # A counter is exported from its first event on: absent means none.
                return {name: sum(s.value for s in samples if s.name == name) for name in COUNTERS}
        return None

    def _target(self) -> dict[str, Any]:
        return {"url": self.server.url, "model": self.launch.model, "timeout_s": self.launch.limits.window_s}

    def flush(self) -> None:
        """The prefix cache must be as cold in every window; refused while requests still run."""
        answer: Answer | None = None
        for _ in range(20):
            with suppress(requests.RequestException, BadAnswer):
                answer = self.server.asking.ask("/flush_cache", 30, post=True)
                if answer.ok:
                    return
            if self.server.exit_code is not None:
                break
            time.sleep(0.5)
        broken = answer is not None and answer.status != 400
        said = f" with status {answer.status}" if answer else ""
        raise self._server_failure(
            f"/flush_cache was refused for 10 s{said}", alive="bad_answers" if broken else "infrastructure"
        )

    def ask_client(self, step: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """A step of the load client; says whose fault it is when it does not come back well."""
        try:
            return step(*arguments, **options)
        except ClientHung as error:
            raise self._server_failure(str(error), alive="client_hang") from None
        except ClientFailed as error:
            failure = self._server_failure(str(error))
            if failure.cause == "infrastructure":
                self._still_answers_well()
                raise InfrastructureFault(f"load client: {error}", remedy=f"see {self.client.log}") from None
            raise failure from None

    def _still_answers_well(self) -> None:
        """Before the client is blamed: a server whose answers are bad makes it fail too."""
        try:
            run_probe(self.server.asking, min(60.0, self.launch.limits.window_s))
        except BadAnswer as error:
            raise VariantFailed(f"bad answers under load: {error}", "bad_answers") from None
        except requests.RequestException as error:
            raise self._server_failure(f"no answers under load: {error}", alive="client_hang") from None

    def _server_failure(self, reason: str, alive: str = "infrastructure") -> VariantFailed:
        """A dead server speaks through its log; a live one failed in the way ``alive`` says."""
        time.sleep(1.0)  # a crash reaches the client before the parent has ended
        if self.server.flooded:
            return VariantFailed("the server flooded its log", "log_flood")
        dead = self.server.exit_code is not None or self.server.child_failed()
        return VariantFailed(reason, None if dead else alive)

    def _keep(self, name: str, endpoint: str) -> None:
        # An idle server answers at once; one whose scheduler has died keeps its socket open for a minute.
        with suppress(requests.RequestException, BadAnswer):
            answer = self.server.asking.ask(endpoint, 15)
            if answer.ok:
                text = answer.text
                if name.endswith(".json"):
                    text = json.dumps(redacted_data(answer.json()), indent=1, sort_keys=True)
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
        flooded = self.server.flooded
        if flooded:  # a secret that the last cut divides is blanked before it
            os.truncate(self.server.log, 2 * LOG_KEPT)
        given = secrets_of({**os.environ, **self.launch.environment}, self.server.command)
        for file in filter(Path.is_file, self.folder.iterdir()):
            redact_file(file, given)
        if flooded:
            os.truncate(self.server.log, min(LOG_KEPT, self.server.log.stat().st_size))
        self.note_clean_room("after")

    def result(self) -> dict[str, Any]:
        """launch.json."""
        launch = self.launch
        if self.outcome == "failed":
            flooded = self.cause == "log_flood"
            from_log, exception = ("unknown", None) if flooded else self._cause_in_log()
            # What the log shows is more specific than how we noticed; a hang or a time-out leaves no exception,
            # and its exit code is that of our own KILL.
            if self.cause is None or from_log not in ("unknown", "crashed"):
                self.cause, self.reason = from_log, exception or self.reason
            if self.cause == "unknown" and self.server.stopped_by == "self":
                self.cause = "crashed"
            self._ask_the_host()
        if self.cause == "infrastructure":
            raise InfrastructureFault(f"{launch.variant}: {self.reason}", remedy=f"see {self.server.log}")
        return {
            "schema_version": 1,
            "measuring_version": MEASURING_VERSION,
            "measuring_code": measuring_code(),
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
            "command": redacted_data(self.server.command),
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
                    ("kernels", "kernels.txt"),
                )
            },
            "probe": self.probe,
            "windows": self.windows,
            "host_samples": self.host_samples,
            "clean_room": self.clean_room,
        }

    def _ask_the_host(self) -> None:
        """A failure that the host explains is not the variant's."""
        if self.server.held and self.server.held.keeper_killed:
            self.cause, self.reason = "infrastructure", "somebody killed the process that holds the server"
        elif self.cause == "host_out_of_memory" and KILLED.search(self.reason or ""):
            # The log only knows of a KILL. Whose it was, the kernel says.
            kills = headroom.out_of_memory_kills()
            if kills is None or kills == self.kills_before:
                self.cause = "crashed"
                self.reason = f"killed, and the kernel counts no kill for want of memory: {self.reason}"
        elif short := headroom.exhausted(self.folder, self.launch, self.reason or ""):
            self.cause, self.reason = "infrastructure", f"{self.reason}; {short}"


@cache
def measuring_code() -> str:
    """Digest of the code that makes a launch: of every file of this package, and the load client."""
    files = [*sorted(Path(__file__).parent.glob("*.py")), CLIENT]
    return digest([file_sha256(file) for file in files])


def _hub_home(environment: dict[str, str]) -> str:
    """The client gets a home of its own, so the hub's cache must be named."""
    return environment.get("HF_HOME") or str(
        Path(environment.get("HOME", "~")).expanduser() / ".cache/huggingface"
    )

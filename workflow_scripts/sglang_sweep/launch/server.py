"""One server process tree: start, wait until it generates, stop, prove that it is gone."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psutil
import requests

from sglang_sweep.launch import ownership

READY_LINE = b"The server is fired up and ready to roll!"

CHILD_FAILED = re.compile(rb"Received sigquit from a child process|SIGQUIT received\.")
"""As ``child-failed`` of config/knowledge/causes.yaml, which names the cause afterwards."""


class StallVerdict(Protocol):
    """Tells slow compilation from a hang; see evidence.cause."""

    def __call__(self, samples: list[dict[str, Any]]) -> str: ...


@dataclass
class NotReady(Exception):
    """The server died, hung or took too long before it could serve. ``kind``: died, hung or timeout."""

    kind: str
    detail: str


def free_port(span: int = 1) -> int:
    """A port of 127.0.0.1 that nothing listens on now, with ``span - 1`` free ones above it."""
    while True:
        with socket.socket() as first:
            first.bind(("127.0.0.1", 0))
            port: int = first.getsockname()[1]
        if port + span < 65536 and all(_bindable(port + step) for step in range(span)):
            return port


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def listeners(port: int) -> set[int | None]:
    """Pids that listen on ``port`` (None where the pid is hidden). A closed connection's TIME_WAIT is not one."""
    return {
        connection.pid
        for connection in psutil.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr[-1:] == (port,)
    }


class Server:
    """A process tree in its own session, whose output goes to ``log``."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path, port: int) -> None:
        self.command, self.environment, self.log, self.port = command, environment, log, port
        self.url = f"http://127.0.0.1:{port}"
        self.mark = ownership.owner_mark()
        self.process: subprocess.Popen[bytes] | None = None
        self.spawned = 0.0
        self.stopped_by: str | None = None
        self._read = 0
        self._child_failed = False

    def start(self) -> None:
        """Spawns the tree; it dies with us even if we are killed."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command,
                env={**self.environment, ownership.MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: ownership.die_with_parent(signal.SIGKILL),
            )
        self.spawned = time.monotonic()

    @property
    def exit_code(self) -> int | None:
        """As the shell would say: 137 for a process ended by KILL; None while it runs."""
        code = self.process.poll() if self.process else None
        return 128 - code if code is not None and code < 0 else code

    def child_failed(self) -> bool:
        """Whether it said that one of its processes died, without having been stopped.

        It then waits for core dumps with its sockets open, a minute and more in 0.5.16, before it ends itself.
        """
        if not self._child_failed:
            with self.log.open("rb") as log:
                log.seek(self._read)
                new = log.read()
            self._child_failed = CHILD_FAILED.search(new) is not None
            self._read += new.rfind(b"\n") + 1
        return self._child_failed

    def tree(self) -> list[psutil.Process]:
        """Every live process of this launch, found by session and by mark."""
        found: dict[int, psutil.Process] = {}
        if self.process:
            with suppress(psutil.Error):
                root = psutil.Process(self.process.pid)
                found = {p.pid: p for p in [root, *root.children(recursive=True)]}
        found |= {p.pid: p for p, mark in ownership.marked_processes(self.mark) if p.pid != os.getpid()}
        return [p for p in found.values() if _running(p)]

    def wait_ready(
        self,
        launch_s: float,
        stall_s: float,
        stall_verdict: StallVerdict,
        sleep: Callable[[float], None] = time.sleep,
    ) -> float:
        """Seconds from spawn to ready. Raises NotReady when it dies, stops making progress or takes too long.

        ``/ready`` does not generate (``/health`` does); SGLang before 0.5.2x has no such endpoint, there
        ``/model_info`` together with the log line of the finished warm-up stands for it.
        """
        samples: list[dict[str, Any]] = []
        next_sample = 0.0
        while True:
            elapsed = time.monotonic() - self.spawned
            if self.exit_code is not None:
                raise NotReady("died", f"exit code {self.exit_code} after {elapsed:.0f} s")
            if self._answers_ready():
                return time.monotonic() - self.spawned
            if elapsed >= next_sample:
                samples.append(self._progress_sample(elapsed))
                next_sample = elapsed + max(1.0, stall_s / 20)
                recent = [s for s in samples if s["t"] >= elapsed - stall_s]
                if elapsed > stall_s and stall_verdict(recent) == "hung":
                    raise NotReady("hung", f"no log growth, processor time or compiler for {stall_s:.0f} s")
            if elapsed > launch_s:
                raise NotReady("timeout", f"not ready after {launch_s:.0f} s; {stall_verdict(samples[-20:])}")
            sleep(0.25)

    def _answers_ready(self) -> bool:
        with suppress(requests.RequestException):
            answer = requests.get(f"{self.url}/ready", timeout=2)
            if answer.status_code == 404:
                ready = requests.get(f"{self.url}/model_info", timeout=2).ok and self._log_says_ready()
            else:
                ready = answer.ok
            return ready and self.owns_port()
        return False

    def _log_says_ready(self) -> bool:
        return READY_LINE in self.log.read_bytes()

    def owns_port(self) -> bool:
        """An orphan of another run, or another program, may be the one that answers."""
        return bool(listeners(self.port) & {process.pid for process in self.tree()})

    def _progress_sample(self, elapsed: float) -> dict[str, Any]:
        cpu, names = 0.0, []
        for process in self.tree():
            with suppress(psutil.Error):
                times = process.cpu_times()
                cpu += times.user + times.system
                names.append(process.name())
        return {"t": elapsed, "log_bytes": self.log.stat().st_size, "cpu_s": cpu, "children": names}

    def stop(self, stop_s: float) -> None:
        """TERM to the parent alone (TERM to the group reads as a crash), then KILL to whatever is left."""
        if self.process is None:
            return
        if self.exit_code is not None or self.child_failed():
            self.stopped_by = "self"
        else:
            self.process.terminate()
            self.stopped_by = "TERM"
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(stop_s)
        self.kill_rest()

    def kill_rest(self) -> None:
        """KILL to the group and to every marked process; returns when all are gone or after 10 s."""
        if self.process is None:
            return
        if self.exit_code is None and self.stopped_by != "self":
            self.stopped_by = "KILL"
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while (left := self.tree()) and time.monotonic() < deadline:
            for process in left:
                with suppress(psutil.Error):
                    process.kill()
            time.sleep(0.1)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(5)


def _running(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False

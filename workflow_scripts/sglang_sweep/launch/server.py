"""One server process tree: start, wait until it generates, stop, prove that it is gone."""

import re
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
from sglang_sweep.launch.asking import Asking, BadAnswer, keys_of

PATTERNS = {
    "ready": re.compile(rb"The server is fired up and ready to roll!"),
    "child_failed": re.compile(rb"Received sigquit from a child process|SIGQUIT received\."),
}
"""What is looked for while the server runs; ``child-failed`` of config/knowledge/causes.yaml names the cause later."""

LOG_LIMIT, LOG_KEPT = 1_000_000_000, 64_000_000
"""Bytes of log at which a launch is given up (a loud one is below a hundred million), and how many of them are kept."""


class StallVerdict(Protocol):
    """Tells slow compilation from a hang; see evidence.cause."""

    def __call__(self, samples: list[dict[str, Any]]) -> str: ...


@dataclass
class NotReady(Exception):
    """The server could not serve. ``kind``: died, hung, timeout, or port_taken (by another program's process)."""

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

    def __init__(
        self,
        command: list[str],
        environment: dict[str, str],
        log: Path,
        port: int,
        lease: ownership.Lease | None = None,
    ) -> None:
        self.command, self.environment, self.log, self.port = command, environment, log, port
        self.url = f"http://127.0.0.1:{port}"
        self.asking = Asking(self.url, keys_of(command))
        self.lease = lease
        self.held: ownership.Held | None = None
        self.spawned = 0.0
        self.stopped_by: str | None = None
        self._log = Tail(log)

    def start(self) -> None:
        """Spawns the tree; it dies with us even if we are killed."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self.held = ownership.Held(
                self.command,
                self.environment,
                self.lease,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.spawned = time.monotonic()

    @property
    def exit_code(self) -> int | None:
        """As the shell would say: 137 for a process ended by KILL; None while it runs."""
        return self.held.exit_code if self.held else None

    def child_failed(self) -> bool:
        """Whether it said that one of its processes died, without having been stopped.

        It then waits for core dumps with its sockets open, a minute and more in 0.5.16, before it ends itself.
        """
        self._log.read()
        return "child_failed" in self._log.seen

    @property
    def flooded(self) -> bool:
        """Whether its log has grown beyond what may be kept."""
        return self._log.size > LOG_LIMIT

    def failed(self) -> bool:
        """Whether waiting for it has become pointless though it runs."""
        return self.flooded or self.child_failed()

    def tree(self) -> list[psutil.Process]:
        """Every live process of this launch."""
        return self.held.tree() if self.held else []

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
            if self._port_taken():
                raise NotReady("port_taken", f"another process listens on port {self.port}")
            if self.flooded:
                raise NotReady("flood", f"{self._log.size} bytes of log before it was ready")
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
        with suppress(requests.RequestException, BadAnswer):
            answer = self.asking.ask("/ready", 2)
            if answer.status == 404:
                ready = self.asking.ask("/model_info", 2).ok and self._log_says_ready()
            else:
                ready = answer.ok
            return ready and self.owns_port()
        return False

    def _log_says_ready(self) -> bool:
        self._log.read()
        return "ready" in self._log.seen

    def owns_port(self) -> bool:
        """An orphan of another run, or another program, may be the one that answers."""
        return bool(listeners(self.port) & {process.pid for process in self.tree()})

    def _port_taken(self) -> bool:
        there = listeners(
            self.port
        )  # before the tree: what starts to listen meanwhile is in both or in neither
        return bool(there) and not there & {process.pid for process in self.tree()}

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
        if self.held is None:
            return
        if self.exit_code is not None or self.child_failed():
            self.stopped_by = "self"
        else:
            self.held.terminate()
            self.stopped_by = "TERM"
            with suppress(subprocess.TimeoutExpired):
                self.held.process.wait(stop_s)
        self.kill_rest()

    def kill_rest(self) -> None:
        """KILL to the whole tree; returns when all are gone or after 10 s."""
        if self.held is None:
            return
        if self.exit_code is None and self.stopped_by != "self":
            self.stopped_by = "KILL"
        self.held.kill()


class Tail:
    """A growing log, read once and in pieces, whatever its size and however long its lines."""

    def __init__(self, path: Path) -> None:
        self.path, self.seen = path, set[str]()
        self._at, self._rest = 0, b""

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self.path.stat().st_size if self.path.exists() else 0

    def read(self) -> None:
        """Reads on to where the end is now; ``seen`` then holds the names of the patterns that were found."""
        end = self.size  # a flood may grow faster than it is read
        with self.path.open("rb") as log:
            log.seek(self._at)
            while self._at < end and len(self.seen) < len(PATTERNS) and (piece := log.read(1 << 20)):
                self._at += len(piece)
                text = self._rest + piece
                self.seen |= {name for name, pattern in PATTERNS.items() if pattern.search(text)}
                self._rest = text[-200:]

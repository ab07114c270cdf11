"""Signals to every part of a launch at every stage of it: nothing is left, and no wrong result.

``SGLANG_SWEEP_FAULTS=all`` tries all rows (minutes) and writes docs/faults.md; without it a few of them are tried.
"""

import fcntl
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from sglang_sweep.launch import keeper, ownership
from sglang_sweep.launch.server import listeners

HERE = Path(__file__).parent
TABLE = HERE.parents[1] / "docs" / "faults.md"

STAGES = {
    "start": ("silent", "", "server.log"),
    "warm-up": ("healthy", "hangs-warming", "server_info_before.json"),
    "window": ("healthy", "hangs", "metrics_before.txt"),
    "stop": ("ignores-term", "", "metrics_after.txt"),
}
"""Server, client, and the file whose presence says that the stage has begun."""

VICTIMS = ("measuring job", "keeper", "server", "server's group", "load client")


class Fault(NamedTuple):
    signal: str
    victim: str
    stage: str

    @property
    def harmless(self) -> bool:
        """A keeper ignores INT and passes TERM on; what stops anyway may be stopped."""
        return self.stage == "stop" or (self.victim, self.signal) == ("keeper", "INT")


SHUFFLED = random.Random(15)
FAULTS = [Fault(*parts) for parts in product(("KILL", "TERM", "INT"), VICTIMS, STAGES)]
FAULTS += [
    Fault(
        SHUFFLED.choice(("KILL", "TERM", "INT")),
        SHUFFLED.choice(VICTIMS),
        f"after {SHUFFLED.uniform(0.2, 4):.1f} s",
    )
    for _ in range(50)
]
ALL = os.environ.get("SGLANG_SWEEP_FAULTS") == "all"

JOB = """
    import os, sys
    sys.path[:0] = [{library!r}, {here!r}]
    from pathlib import Path
    from test_measure import INSTRUMENTS, Limits, measure, order
    from sglang_sweep.errors import InfrastructureFault
    from sglang_sweep.launch.ownership import Interrupted
    launch = order({mode!r}, limits=Limits(launch_s=5, stall_s=60, window_s=3, stop_s=1))
    launch.environment["FAKE_CLIENT"] = {client!r}
    try:
        measure(launch, Path({output!r}), INSTRUMENTS)
    except InfrastructureFault as fault:
        print("infrastructure:", str(fault).splitlines()[0])
    except Interrupted as number:
        print("stopped by", number)
"""


@pytest.fixture(scope="module")
def table() -> Iterator[dict[Fault, str]]:
    """Rows of docs/faults.md, which gets those that were tried; several runs may each try a part."""
    rows: dict[Fault, str] = {}
    yield rows
    if ALL:
        with TABLE.open("r+", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            head, rule, old = file.read().partition("|---|---|---|---|---|\n")
            known = {
                tuple(cell.strip() for cell in line.split("|")[1:4]): line for line in old.splitlines()
            } | rows
            file.seek(0)
            file.write(
                head
                + rule
                + "".join(known[fault] + "\n" for fault in dict.fromkeys(FAULTS) if fault in known)
            )
            file.truncate()


@pytest.mark.parametrize("fault", FAULTS if ALL else FAULTS[::11], ids=lambda fault: "-".join(fault))
def test_a_signal_leaves_nothing_and_makes_no_wrong_result(
    fault: Fault, table: dict[Fault, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ownership.FOLDER, str(tmp_path / "locks"))
    mode, client, begun = STAGES.get(fault.stage, ("healthy", "slow", ""))
    output = tmp_path / "launch.json"
    code = textwrap.dedent(JOB).format(
        library=str(HERE.parents[1] / "workflow_scripts"),
        here=str(HERE),
        mode=mode,
        client=client,
        output=str(output),
    )
    job = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if begun:
        while not (tmp_path / "attempt-1" / begun).exists() and job.poll() is None:
            time.sleep(0.05)
        time.sleep(0.3)
    else:
        while not (tmp_path / "attempt-1").exists() and job.poll() is None:
            time.sleep(0.05)
        time.sleep(float(fault.stage.split()[1]))
    parts = tree(job.pid)
    pid = parts.get(fault.victim)
    if pid:
        send = os.killpg if fault.victim == "server's group" else os.kill
        try:
            send(pid, signal.Signals[f"SIG{fault.signal}"])
        except ProcessLookupError:  # it ended between our look and the signal
            pid = None
    text, _ = job.communicate(timeout=120)
    deadline = time.monotonic() + 30
    while (left := tree_left(parts)) and time.monotonic() < deadline:
        time.sleep(0.1)
    with ownership.exclusive(30):  # the lock is free
        pass
    record = json.loads(output.read_text()) if output.exists() else None
    happened = described(record, text, job.returncode)
    table[fault] = (
        f"| {fault.signal} | {fault.victim} | {fault.stage} | {happened if pid else 'not there yet'} | {len(left)} |"
    )
    assert left == []
    assert "Traceback" not in text, text
    if record:
        command = record["command"]
        assert listeners(int(command[command.index("--port") + 1])) == set()
        assert record["outcome"] == "failed" or fault.harmless or not begun
        assert fault.victim != "measuring job" or record["outcome"] == "completed"


def described(record: dict | None, text: str, code: int) -> str:
    if record:
        return f"record: {record['outcome']}" + (f", {record['cause']}" if record["cause"] else "")
    last = (text.strip().splitlines() or [""])[-1]
    if last.startswith("infrastructure:"):
        return "infrastructure, no record: the job is retried"
    return f"no record: {last or f'ended by signal {-code}'}"


def tree(job: int) -> dict[str, int]:
    """The parts of a launch by name, the keepers' whole trees under numbers."""
    there = keeper.processes()
    found = {"measuring job": job}
    for child in sorted(one.pid for one in there.values() if one.parent == job):
        for below in sorted(keeper.below(child, there)):
            found[str(below)] = below
            if there[below].parent == child:
                words = Path(f"/proc/{below}/cmdline").read_bytes()
                name = "server" if b"scripted_server" in words else "load client"
                found[name] = below
                if name == "server":
                    found |= {"keeper": child, "server's group": below}
        found[str(child)] = child
    return found


def tree_left(parts: dict[str, int]) -> list[int]:
    there = keeper.processes()
    return [pid for pid in set(parts.values()) if pid in there and there[pid].state != "Z"]

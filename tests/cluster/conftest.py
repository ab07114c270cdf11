"""A SLURM cluster of two nodes on this machine, started for the tests and ended after them."""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

CONFIGURATION = Path("/etc/slurm/slurm.conf")
"""Where SLURM looks by itself: the executor takes SLURM's variables out of the environment of its jobs."""

DAEMONS = ("munged", "slurmctld", "slurmd")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A controller and two nodes of as many processors as this machine has, without accounting."""
    if os.geteuid() or not all(shutil.which(name, path="/usr/sbin") for name in DAEMONS):
        pytest.skip("needs root and Debian's packages slurm-wlm and munge")
    if CONFIGURATION.exists() and "ClusterName=sweeptest" not in CONFIGURATION.read_text():
        pytest.skip(f"{CONFIGURATION} is somebody's")
    folder = tmp_path_factory.mktemp("slurm")
    munge = folder / "munge"
    munge.mkdir(mode=0o700)
    (munge / "key").write_bytes(os.urandom(1024))
    (munge / "key").chmod(0o400)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    host, cores = socket.gethostname(), os.cpu_count()
    nodes = "".join(
        f"NodeName=n{n} NodeHostname={host} NodeAddr=127.0.0.1 Port={_free_port()} CPUs={cores} RealMemory=4000\n"
        for n in (1, 2)
    )
    CONFIGURATION.parent.mkdir(exist_ok=True)
    CONFIGURATION.write_text(
        f"ClusterName=sweeptest\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={_free_port()}\n"
        f"AuthType=auth/munge\nAuthInfo=socket={munge}/sock\nSlurmUser=root\nSlurmdUser=root\n"
        f"StateSaveLocation={folder}/state\nSlurmctldPidFile={folder}/ctld.pid\nSlurmctldLogFile={folder}/ctld.log\n"
        f"SlurmdSpoolDir={folder}/spool/%n\nSlurmdPidFile={folder}/%n.pid\nSlurmdLogFile={folder}/%n.log\n"
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n"
        "SelectTypeParameters=CR_CPU\nReturnToService=2\nKillWait=10\nMpiDefault=none\nMailProg=/bin/true\n"
        "PropagateResourceLimits=NONE\nJobAcctGatherType=jobacct_gather/none\n"
        f"AccountingStorageType=accounting_storage/none\n{nodes}"
        "PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP\n"
    )
    started = [
        f"munged --force --foreground --key-file={munge}/key --socket={munge}/sock --pid-file={munge}/pid"
        f" --log-file={munge}/log --seed-file={munge}/seed",
        "slurmctld -D",
        "slurmd -D -N n1",
        "slurmd -D -N n2",
    ]
    running: list[subprocess.Popen[bytes]] = []
    try:
        for command in started:
            program, *arguments = command.split()
            running.append(
                subprocess.Popen(
                    [f"/usr/sbin/{program}", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            )
            time.sleep(1)  # each answers the next
        for _ in range(60):
            idle = subprocess.run(["sinfo", "-h", "-t", "idle", "-o", "%D"], capture_output=True, text=True)
            if idle.stdout.strip() == "2":
                break
            time.sleep(0.5)
        else:
            pytest.fail(f"SLURM did not start: {(folder / 'ctld.log').read_text()[-2000:]}")
        yield
    finally:
        subprocess.run(["scancel", "--user", "root"], check=False)
        time.sleep(1)
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(30)
        CONFIGURATION.unlink()

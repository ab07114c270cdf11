"""Ports, readiness and ownership of one server process tree."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sglang_sweep.launch.server import NotReady, Server, free_port, listeners


def server(code: str, folder: Path, port: int) -> Server:
    return Server([sys.executable, "-c", code], {}, folder / "server.log", port)


def test_a_free_port_is_one_that_nothing_listens_on() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert listeners(port)
        assert free_port() != port
    assert listeners(port) == set()


def test_a_server_that_dies_early_is_not_ready_and_its_exit_code_is_told(tmp_path: Path) -> None:
    dying = server("import sys; sys.exit(3)", tmp_path, free_port())
    dying.start()
    with pytest.raises(NotReady) as ended:
        dying.wait_ready(20, 20, lambda samples: "progressing")
    assert ended.value.kind == "died"
    assert "exit code 3" in ended.value.detail
    dying.stop(1)
    assert (dying.exit_code, dying.stopped_by) == (3, "self")


def test_somebody_elses_server_on_the_port_is_not_ours(tmp_path: Path) -> None:
    other = subprocess.Popen(
        [
            sys.executable,
            str(Path(__file__).with_name("scripted_server.py")),
            "healthy",
            "--port",
            str(port := free_port()),
        ],
        stdout=subprocess.PIPE,
    )
    ours = server("import time; time.sleep(60)", tmp_path, port)
    try:
        assert other.stdout and other.stdout.readline()
        while not listeners(port):
            time.sleep(0.05)
        ours.start()
        with pytest.raises(NotReady) as ended:
            ours.wait_ready(1.0, 30, lambda samples: "progressing")
        assert ended.value.kind == "port_taken"
    finally:
        ours.stop(1)
        other.kill()
        other.wait()


def test_a_process_ended_by_a_signal_has_the_exit_code_of_a_shell(tmp_path: Path) -> None:
    killed = server("import os; os.kill(os.getpid(), 9)", tmp_path, free_port())
    killed.start()
    assert killed.held
    killed.held.process.wait(10)
    assert killed.exit_code == 137


def test_stopping_what_never_started_is_no_error(tmp_path: Path) -> None:
    never = server("", tmp_path, free_port())
    never.stop(1)
    assert never.exit_code is None

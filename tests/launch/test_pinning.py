"""Server and client on different processors, where the model runs on processors at all."""

import os
import subprocess
import sys

import psutil
import pytest
from sglang_sweep.launch.environment import pin, split_processors, thread_binding


@pytest.mark.parametrize(
    ("available", "server", "client"),
    [({0, 1}, {0}, {1}), ({4, 2, 9}, {2, 4}, {9}), ({3}, {3}, {3}), (set(range(64)), set(range(63)), {63})],
)
def test_the_last_processor_is_the_clients(available: set[int], server: set[int], client: set[int]) -> None:
    assert split_processors(available) == (server, client)


def test_sglangs_threads_are_bound_to_the_servers_processors() -> None:
    assert thread_binding({2, 0, 5}) == {"SGLANG_CPU_OMP_THREADS_BIND": "0,2"}


def test_a_process_is_moved_with_all_its_threads_and_a_dead_one_is_no_error() -> None:
    code = "import threading, time; threading.Thread(target=time.sleep, args=(30,)).start(); print(1, flush=True)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert process.stdout and process.stdout.readline()
        first = min(os.sched_getaffinity(0))
        found = psutil.Process(process.pid)
        pin([found], {first})
        assert [os.sched_getaffinity(thread.id) for thread in found.threads()] == [{first}, {first}]
    finally:
        process.kill()
        process.wait()
    pin([found], {first})

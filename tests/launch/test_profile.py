import gzip
import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from sglang_sweep.launch import profile
from sglang_sweep.launch.asking import Asking
from sglang_sweep.launch.profile import profile_server


class Script:
    """A server that does what a test tells it on /start_profile and /stop_profile."""

    def __init__(self) -> None:
        self.on_start: Callable[[dict], tuple[int, str]] = lambda body: (200, "Start profiling.")
        self.on_stop: Callable[[], None] = lambda: None
        self.body: dict = {}
        self.calls: list[str] = []


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(profile, "_POLL_S", 0.02)
    monkeypatch.setattr(profile, "_START_ANSWER_S", 0.3)
    monkeypatch.setattr(profile, "_FLUSH_S", 0.3)
    script = Script()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            script.calls.append(self.path)
            status, text = 200, ""
            if self.path == "/start_profile":
                script.body = json.loads(self.rfile.read(length))
                status, text = script.on_start(script.body)
            elif self.path == "/stop_profile":
                script.on_stop()
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    script.url = f"http://127.0.0.1:{httpd.server_address[1]}"  # type: ignore[attr-defined]
    script.close = httpd.shutdown  # type: ignore[attr-defined]
    yield script
    httpd.shutdown()
    httpd.server_close()


def write_traces(body, ranks=2, stages=("EXTEND", "DECODE")):
    for stage in stages:
        for rank in range(ranks):
            name = f"{body['profile_id']}-TP-{rank}-{stage}.trace.json.gz"
            with gzip.open(Path(body["output_dir"]) / name, "wt") as stream:
                stream.write('{"traceEvents": []}')


def quick(server, folder, **options):
    arguments = {
        "steps": 3,
        "stages": ["prefill", "decode"],
        "timeout_s": 5,
        "ranks": 2,
        "driver": lambda: None,
    }
    arguments |= options
    driver = arguments.pop("driver")
    return profile_server(Asking(server.url), folder, workload_driver=driver, **arguments)


def test_the_traces_of_all_ranks_and_stages_are_waited_for_and_named(server, tmp_path):
    passes = []

    def drive():
        # requests go on until the profiler has its steps: here, in the second pass
        passes.append(None)
        if len(passes) == 2:
            write_traces(server.body)

    record = quick(server, tmp_path, driver=drive)
    assert record["outcome"] == "completed"
    assert [(trace["stage"], trace["rank"]) for trace in record["traces"]] == [
        ("decode", 0), ("decode", 1), ("prefill", 0), ("prefill", 1),
    ]  # fmt: skip
    assert all((tmp_path / trace["file"]).exists() for trace in record["traces"])
    assert len(passes) >= 2
    assert server.body["profile_by_stage"] is True
    assert (server.body["num_steps"], server.body["with_stack"]) == (3, False)
    assert "/stop_profile" not in server.calls


def test_a_host_without_a_gpu_asks_for_cpu_activity_only(server, tmp_path):
    server.on_start = lambda body: write_traces(body, ranks=1, stages=("DECODE",)) or (200, "")
    record = quick(server, tmp_path, stages=["decode"], ranks=1, activities=("CPU",))
    assert record["outcome"] == "completed"
    assert server.body["activities"] == ["CPU"]


def test_older_servers_answer_only_when_the_steps_are_done(server, tmp_path):
    served = threading.Event()

    def start(body):
        served.wait(3)
        write_traces(body)
        return 200, ""

    server.on_start = start
    assert quick(server, tmp_path, driver=served.set)["outcome"] == "completed"


def test_a_refusal_is_recorded_in_the_servers_words(server, tmp_path):
    server.on_start = lambda body: (500, "Profiling is already in progress. Call /stop_profile first.")
    record = quick(server, tmp_path)
    assert record["outcome"] == "refused"
    assert "already in progress" in record["reason"]


def test_a_profiler_that_hangs_is_stopped_and_recorded(server, tmp_path):
    record = quick(server, tmp_path, timeout_s=0.3)
    assert record["outcome"] == "hung"
    assert record["traces"] == []
    assert "/stop_profile" in server.calls


def test_what_a_hung_profiler_still_writes_when_stopped_is_kept_as_partial(server, tmp_path):
    server.on_stop = lambda: write_traces(server.body, ranks=1)
    record = quick(server, tmp_path, timeout_s=0.3)
    assert record["outcome"] == "partial"
    assert "decode of rank 1" in record["reason"]
    assert len(record["traces"]) == 2


def test_a_profiler_that_floods_the_disk_is_stopped_and_its_files_removed(server, tmp_path):
    def start(body):
        name = f"{body['profile_id']}-TP-0-DECODE.trace.json.gz"
        (Path(body["output_dir"]) / name).write_bytes(b"\x1f\x8b" + bytes(300_000))
        return 200, ""

    server.on_start = start
    record = quick(server, tmp_path, size_limit_mb=0.1)
    assert record["outcome"] == "too_large"
    assert "the limit is" in record["reason"]
    assert list(tmp_path.iterdir()) == []
    assert "/stop_profile" in server.calls


def test_a_half_written_trace_does_not_count(server, tmp_path):
    def start(body):
        write_traces(body)
        whole = Path(body["output_dir"]) / f"{body['profile_id']}-TP-1-DECODE.trace.json.gz"
        whole.write_bytes(whole.read_bytes()[:-6])
        return 200, ""

    server.on_start = start
    record = quick(server, tmp_path, timeout_s=0.4)
    assert record["outcome"] == "partial"
    assert "decode of rank 1" in record["reason"]


def test_a_driver_that_fails_and_a_server_that_died_are_told_apart(server, tmp_path):
    def fail():
        raise ConnectionError("refused")

    assert quick(server, tmp_path, driver=fail)["outcome"] == "driver_failed"
    gone = profile_server(Asking("http://127.0.0.1:9"), tmp_path, 1, ["decode"], fail, timeout_s=1)
    assert gone["outcome"] == "refused"


def test_files_of_another_profile_are_left_alone(server, tmp_path):
    (tmp_path / "1700000000.1-TP-0-DECODE.trace.json.gz").write_bytes(gzip.compress(b"{}"))
    record = quick(server, tmp_path, stages=["decode"], ranks=1, timeout_s=0.3)
    assert record["traces"] == []

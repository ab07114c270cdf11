"""One launch against scripted servers: every ending is recorded and nothing is left running."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest
from sglang_sweep.campaign.model import Workload
from sglang_sweep.campaign.site import Limits
from sglang_sweep.errors import InfrastructureFault
from sglang_sweep.launch import headroom, keeper, ownership
from sglang_sweep.launch.environment import server_environment
from sglang_sweep.launch.measure import measure, own
from sglang_sweep.launch.order import Instruments, LaunchOrder
from sglang_sweep.launch.run import Run
from sglang_sweep.statistics.invalidation import removals

HERE = Path(__file__).parent
INSTRUMENTS = Instruments(
    cause_of=lambda log, version, code: (
        ("bad_flag", "unrecognized arguments") if code == 2 else ("unknown", None)
    ),
    stall_verdict=lambda samples: (
        "hung" if samples[-1]["cpu_s"] - samples[0]["cpu_s"] < 0.1 else "progressing"
    ),
    sample_host=dict,
    sample_clocks=list,
)


def order(mode: str, **changes: object) -> LaunchOrder:
    environment = {**os.environ, "PYTHONPATH": str(HERE / "fake_client"), "HF_TOKEN": "hush"}
    settings: dict = {
        "campaign": "unit",
        "variant": mode,
        "key": "0123456789",
        "identity": {"flags": {}},
        "block": 1,
        "position": 0,
        "command": [sys.executable, str(HERE / "scripted_server.py"), mode],
        "environment": environment,
        "declared_environment": {"HF_TOKEN": "hush", "NCCL_ALGO": "allreduce:tree"},
        "model": "m",
        "stack": {"name": "none", "digest": "0", "sglang_version": "0.5.23", "python": "3"},
        "host": {"hostname": "here", "class_digest": "0"},
        "workloads": (
            Workload(
                name="w",
                dataset="random-ids",
                concurrency=2,
                prompts=4,
                input_tokens=8,
                output_tokens=4,
                slo={"e2e_ms": 100},
            ),
        ),
        "windows": 3,
        "client_python": Path(sys.executable),
        "share_processors": True,
        "limits": Limits(launch_s=20, stall_s=3, window_s=5, stop_s=1),
    }
    return LaunchOrder(**{**settings, **changes})


def test_a_healthy_server_is_measured_and_leaves_nothing(tmp_path: Path) -> None:
    result = measure(order("healthy"), tmp_path / "launch.json", INSTRUMENTS)
    assert json.loads((tmp_path / "launch.json").read_text()) == result
    assert result["outcome"] == "completed"
    assert [w["metrics"]["output_throughput"] for w in result["windows"]] == [101.0, 102.0, 103.0]
    assert result["windows"][0]["metrics"]["goodput"] == 4.0
    assert [p["tokenizer_prompt_tokens"] for p in result["probe"]] == [5, 5, 2, 10]
    assert result["clean_room"]["after"] == {"processes": [], "ports": []}
    assert ownership.marked_processes(str(ownership.me())) == []


def test_what_the_gpus_did_during_a_window_is_in_it(tmp_path: Path) -> None:
    cool = {"index": 0, "sm_mhz": 1980, "temperature_c": 40, "power_w": 130.0, "throttle_reasons": []}
    hot = cool | {"sm_mhz": 1200, "power_w": 700.0, "throttle_reasons": ["hw_thermal_slowdown"]}
    instruments = replace(INSTRUMENTS, sample_host=lambda: {"gpus": [cool]}, sample_clocks=lambda: [hot])
    launch = order("healthy", environment={**order("healthy").environment, "FAKE_CLIENT": "slow"}, windows=1)
    result = measure(launch, tmp_path / "launch.json", instruments)
    (seen,) = result["windows"][0]["gpus"]
    assert (seen["sm_mhz_min"], seen["power_w_mean"]) == (1200, 700.0)
    assert [(r.rule, r.window) for r in removals(result)] == [("throttled_window", 0)]


def test_secrets_never_reach_the_record(tmp_path: Path) -> None:
    measure(order("healthy"), tmp_path / "launch.json", INSTRUMENTS)
    for file in tmp_path.rglob("*.json"):
        assert "hush" not in file.read_text(), file


def test_a_server_without_ready_endpoint_is_recognised_by_its_log(tmp_path: Path) -> None:
    assert measure(order("old"), tmp_path / "launch.json", INSTRUMENTS)["outcome"] == "completed"


def test_a_refused_command_line_is_a_failed_launch_with_its_cause(tmp_path: Path) -> None:
    result = measure(order("bad-flag"), tmp_path / "launch.json", INSTRUMENTS)
    assert (result["outcome"], result["cause"], result["exit"]["code"]) == ("failed", "bad_flag", 2)


def test_a_server_that_dies_under_load_is_recorded_as_crashed(tmp_path: Path) -> None:
    result = measure(order("dies-under-load"), tmp_path / "launch.json", INSTRUMENTS)
    assert (result["outcome"], result["cause"], result["exit"]["code"]) == ("failed", "crashed", 137)


def test_a_server_that_lost_a_process_does_not_leave_its_client_hanging(tmp_path: Path) -> None:
    environment = {**order("healthy").environment, "FAKE_CLIENT": "hangs"}
    limits = Limits(launch_s=20, stall_s=3, window_s=3600, stop_s=3600)
    launch = order("loses-a-child", environment=environment, limits=limits)
    result = measure(launch, tmp_path / "launch.json", INSTRUMENTS)
    assert (result["outcome"], result["cause"]) == ("failed", "crashed")
    assert result["reason"] == "one of the server's processes died"
    assert result["exit"]["stopped_by"] == "self"
    assert result["clean_room"]["after"] == {"processes": [], "ports": []}


def test_a_silent_server_is_given_up_as_hung(tmp_path: Path) -> None:
    result = measure(order("silent"), tmp_path / "launch.json", INSTRUMENTS)
    assert (result["outcome"], result["cause"]) == ("failed", "collective_hang")


def test_a_busy_server_is_given_up_only_at_the_launch_limit(tmp_path: Path) -> None:
    limits = Limits(launch_s=5, stall_s=2, window_s=5, stop_s=1)
    result = measure(order("busy", limits=limits), tmp_path / "launch.json", INSTRUMENTS)
    assert (result["outcome"], result["cause"]) == ("failed", "launch_timeout")


def test_a_hanging_client_does_not_hold_the_launch(tmp_path: Path) -> None:
    environment = {**order("healthy").environment, "FAKE_CLIENT": "hangs"}
    limits = Limits(launch_s=20, stall_s=3, window_s=1, stop_s=1)
    result = measure(
        order("healthy", environment=environment, limits=limits), tmp_path / "launch.json", INSTRUMENTS
    )
    assert (result["outcome"], result["cause"]) == ("failed", "client_hang")


def test_what_ignores_term_is_killed_with_its_children(tmp_path: Path) -> None:
    result = measure(order("ignores-term"), tmp_path / "launch.json", INSTRUMENTS)
    assert result["exit"]["stopped_by"] == "KILL"
    assert result["clean_room"]["after"]["processes"] == []


def test_a_server_that_never_becomes_idle_concludes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureFault, match="flush_cache"):
        measure(order("never-idle"), tmp_path / "launch.json", INSTRUMENTS)
    assert not (tmp_path / "launch.json").exists()


def test_a_proxy_in_the_shell_is_not_asked_for_our_own_server(tmp_path: Path) -> None:
    proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy"), "http://127.0.0.1:9")
    with pytest.MonkeyPatch.context() as shell:
        for name, value in proxies.items():
            shell.setenv(name, value)
        launch = order("healthy", environment=server_environment(order("healthy").environment | proxies))
        launch.environment["PYTHONPATH"] = str(HERE / "fake_client")
        assert measure(launch, tmp_path / "launch.json", INSTRUMENTS)["outcome"] == "completed"


def test_every_server_has_a_key_of_its_own_that_nobody_reads_afterwards(tmp_path: Path) -> None:
    seen = []
    for number in range(2):
        run = own(order("healthy"), tmp_path / str(number), INSTRUMENTS, Run.measure_windows)
        (key,) = run.server.asking.keys
        command = run.result()["command"]
        assert command[command.index("--api-key") + 1] == "<redacted>"
        assert run.outcome == "completed"
        assert not [f for f in run.folder.rglob("*") if f.is_file() and key.encode() in f.read_bytes()]
        seen.append(key)
    assert seen[0] != seen[1]


def test_a_campaigns_own_key_is_used_and_none_is_given_where_the_site_says_so(tmp_path: Path) -> None:
    command = [*order("healthy").command, "--api-key=theirs", "--admin-api-key", "chief"]
    own_key = own(order("healthy", command=command), tmp_path / "a", INSTRUMENTS, Run.measure_windows)
    assert own_key.server.asking.keys == ("theirs", "chief")
    assert not {"theirs", "chief"} & set(" ".join(own_key.result()["command"]).replace("=", " ").split())
    none = own(order("healthy", random_key=False), tmp_path / "b", INSTRUMENTS, Run.measure_windows)
    assert (none.server.asking.keys, none.outcome) == ((), "completed")


@pytest.mark.parametrize(
    ("mode", "cause", "reason"),
    [
        ("always-500", "bad_answers", "status 500: Internal Server Error"),
        ("garbage", "bad_answers", "no JSON"),
        ("trickles", "client_hang", "no whole answer to /generate within 1 s"),
    ],
)
def test_a_server_that_lives_and_answers_badly_is_an_outcome(
    tmp_path: Path, mode: str, cause: str, reason: str
) -> None:
    limits = Limits(launch_s=20, stall_s=3, window_s=1, stop_s=1)
    result = measure(order(mode, limits=limits), tmp_path / "launch.json", INSTRUMENTS)
    assert (result["outcome"], result["cause"]) == ("failed", cause)
    assert reason in result["reason"]


@pytest.mark.parametrize("client", ["hangs", ""])
def test_a_flood_of_log_without_a_line_end_is_an_outcome_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, client: str
) -> None:
    monkeypatch.setattr("sglang_sweep.launch.server.LOG_LIMIT", 20_000_000 if client else 1000)
    monkeypatch.setattr("sglang_sweep.launch.run.LOG_KEPT", 500)
    launch = order("floods", environment=order("floods").environment | {"FAKE_CLIENT": client})
    result = measure(launch, tmp_path / "launch.json", INSTRUMENTS)
    assert (result["outcome"], result["cause"]) == ("failed", "log_flood")
    assert (tmp_path / "attempt-1" / "server.log").stat().st_size == 500


def test_tokens_that_the_server_made_for_others_void_the_window(tmp_path: Path) -> None:
    result = measure(order("serves-others"), tmp_path / "launch.json", INSTRUMENTS)
    assert [window["invalid"] for window in result["windows"]] == [["foreign_load"]] * 3
    assert {removal.rule for removal in removals(result)} == {"foreign_load"}


def test_a_port_that_was_taken_in_between_costs_another_try_not_a_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    taken = replace(INSTRUMENTS, cause_of=lambda *_: ("port_in_use", "address already in use"))
    said: list[str] = []
    result = measure(order("loses-its-port"), tmp_path / "launch.json", taken, said.append)
    assert result["outcome"] == "completed"
    assert [text.partition("; ")[2] for text in said] == ["once more with another port"]


def test_who_kills_the_keeper_says_nothing_about_the_variant(tmp_path: Path) -> None:
    def kill(run: Run) -> None:
        assert run.server.held
        run.server.held.process.kill()
        run.flush()

    run = own(order("never-idle"), tmp_path, INSTRUMENTS, kill)
    with pytest.raises(InfrastructureFault, match="somebody killed the process that holds the server"):
        run.result()
    assert run.clean_room["after"] == {"processes": [], "ports": []}


def test_a_killed_process_was_short_of_memory_only_if_the_kernel_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = (
        "host_out_of_memory",
        "Rank 0 scheduler died during initialization (exit code: -9). If -9 (SIGKILL) ...",
    )
    instruments = replace(INSTRUMENTS, cause_of=lambda *_: said)
    for kills, cause in (([3, 3], "crashed"), ([3, 4], "host_out_of_memory"), ([None, None], "crashed")):
        counts = iter(kills)
        monkeypatch.setattr(headroom, "out_of_memory_kills", lambda counts=counts: next(counts))
        assert measure(order("bad-flag"), tmp_path / "launch.json", instruments)["cause"] == cause


def test_attempts_are_kept_when_a_launch_is_made_again(tmp_path: Path) -> None:
    measure(order("healthy"), tmp_path / "launch.json", INSTRUMENTS)
    second = measure(order("healthy"), tmp_path / "launch.json", INSTRUMENTS)
    assert second["files"]["server_log"] == "attempt-2/server.log"
    assert (tmp_path / "attempt-1" / "launch.json").exists()


OWNER = """
    import sys
    sys.path[:0] = [{library!r}, {here!r}]
    from pathlib import Path
    from test_measure import INSTRUMENTS, order, measure
    measure(order({mode!r}), Path({output!r}), INSTRUMENTS)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_outlives_a_killed_owner(tmp_path: Path, number: signal.Signals) -> None:
    code = textwrap.dedent(OWNER).format(
        library=str(HERE.parents[1] / "workflow_scripts"),
        here=str(HERE),
        mode="silent",
        output=str(tmp_path / "launch.json"),
    )
    owner = subprocess.Popen([sys.executable, "-c", code])
    log = tmp_path / "attempt-1" / "server.log"
    started = keeper.process(owner.pid)
    assert started
    mark = str(ownership.me()._replace(pid=owner.pid, started=started.started))
    while owner.poll() is None and not (log.exists() and ownership.marked_processes(mark)):
        time.sleep(0.1)
    assert ownership.marked_processes(mark)
    owner.send_signal(number)
    owner.wait(30)
    for _ in range(100):
        if not ownership.marked_processes(mark):
            break
        time.sleep(0.1)
    assert ownership.marked_processes(mark) == []
    assert not (tmp_path / "launch.json").exists()

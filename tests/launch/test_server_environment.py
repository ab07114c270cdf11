"""A server's environment: the shell's, without what belongs to the controller."""

from sglang_sweep.launch.environment import ambient, server_environment


def test_the_controllers_own_variables_do_not_reach_the_server() -> None:
    inherited = {
        "OMP_NUM_THREADS": "1",
        "VIRTUAL_ENV": "/v",
        "PYTHONPATH": "/clone",
        "SNAKEMAKE_X": "1",
        "PATH": "/bin",
    }
    environment = server_environment(inherited)
    assert environment["PATH"] == "/bin"
    assert not {"OMP_NUM_THREADS", "VIRTUAL_ENV", "PYTHONPATH", "SNAKEMAKE_X"} & set(environment)


def test_later_declarations_win_and_a_declared_thread_count_stays() -> None:
    environment = server_environment({"A": "0"}, {"A": "1", "OMP_NUM_THREADS": "4"}, {"A": "2"})
    assert (environment["A"], environment["OMP_NUM_THREADS"]) == ("2", "4")


def test_the_log_does_not_lag_and_the_server_tells_its_own_environment() -> None:
    environment = server_environment({})
    assert environment["PYTHONUNBUFFERED"] == "1"
    assert environment["SGLANG_EXPOSE_OWN_ENV_VARS"] == "1"


def test_only_variables_that_change_a_servers_numbers_are_ambient() -> None:
    shell = {
        "NCCL_ALGO": "Ring",
        "SGLANG_X": "1",
        "SGLANG_SWEEP_OWNER": "1:2",
        "HOME": "/root",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    assert set(ambient(shell)) == {"NCCL_ALGO", "SGLANG_X", "CUDA_VISIBLE_DEVICES"}

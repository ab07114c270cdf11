import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sglang_sweep.evidence import knowledge as module
from sglang_sweep.evidence.confounds import Confound, compare
from sglang_sweep.evidence.engagement import DeclaredChange

from .conftest import recorded

KNOWLEDGE = module.load()
EAGLE = {
    "speculative-algorithm": "EAGLE3",
    "speculative-draft-model-path": "/models/draft",
    "speculative-num-steps": 3,
    "speculative-eagle-topk": 1,
    "speculative-num-draft-tokens": 4,
}


def compared(
    variant: str, baseline: str, declares: tuple[str, ...] = (), **change: Any
) -> dict[str, Confound]:
    rows = compare(
        recorded(variant).server_info,
        recorded(baseline).server_info,
        DeclaredChange(**change),
        KNOWLEDGE,
        declares=declares,
    )
    return {row.setting: row for row in rows}


def confounding(rows: dict[str, Confound]) -> set[str]:
    return {name for name, row in rows.items() if row.confounding}


def test_two_launches_of_one_configuration_do_not_differ() -> None:
    assert compared("nccl", "nccl") == {}


def test_a_clean_one_factor_change_lists_nothing() -> None:
    assert compared("nccl-tree", "nccl", env={"NCCL_ALGO": "allreduce:tree"}) == {}
    assert compared("custom-allreduce", "nccl-bench", flags={"disable-custom-all-reduce": None}) == {}


def test_a_difference_that_was_not_declared_confounds_and_names_its_pin() -> None:
    rows = compared("torch-symm-mem", "custom-allreduce", flags={"enable-torch-symm-mem": True})
    assert confounding(rows) == {"cuda_graph_config.prefill.backend"}
    assert "cuda-graph-backend-prefill" in (rows["cuda_graph_config.prefill.backend"].pin or "")


def test_speculation_moves_what_is_known_to_move_and_each_has_a_pin() -> None:
    rows = compared("eagle3-random-draft", "custom-allreduce", flags=EAGLE)
    assert confounding(rows) == {
        "max_running_requests",
        "max_total_num_tokens",
        "cuda_graph_config.decode.bs",
    }
    for name in confounding(rows):
        assert rows[name].implied_by is not None and rows[name].pin


def test_declaring_the_side_effects_accepts_them() -> None:
    declared = ("max_running_requests", "max-total-num-tokens", "cuda_graph_config")
    rows = compared("eagle3-random-draft", "custom-allreduce", declares=declared, flags=EAGLE)
    assert confounding(rows) == set()
    assert rows["max_running_requests"].declared


def test_the_draft_model_belongs_to_the_change() -> None:
    rows = compared("eagle3-random-draft", "custom-allreduce", flags=EAGLE)
    assert not any(name.startswith("speculative_num") for name in rows)


@pytest.mark.parametrize(
    ("tokens", "listed"), [(1009106, False), (1000000, False), (990000, True), (500000, True)]
)
def test_a_kv_cache_that_differs_by_less_than_a_percent_is_tolerated(tokens: int, listed: bool) -> None:
    baseline = recorded("nccl").server_info
    variant = copy.deepcopy(baseline)
    variant["max_total_num_tokens"] = tokens
    rows = compare(variant, baseline, DeclaredChange(), KNOWLEDGE)
    assert bool(rows) is listed


@pytest.mark.parametrize(
    "setting",
    [
        "mem_fraction_static",
        "max_running_requests",
        "chunked_prefill_size",
        "attention_backend",
        "dtype",
        "page_size",
    ],
)
def test_a_slipped_in_setting_is_caught(setting: str) -> None:
    baseline = recorded("nccl").server_info
    variant = {**copy.deepcopy(baseline), setting: "something else"}
    for state in variant["internal_states"]:
        state[setting] = "something else"
    rows = compare(variant, baseline, DeclaredChange(env={"NCCL_ALGO": "allreduce:tree"}), KNOWLEDGE)
    assert [row.setting for row in rows if row.confounding] == [setting]


def test_a_setting_that_nobody_has_heard_of_is_suspected() -> None:
    baseline = recorded("nccl").server_info
    rows = compare({**baseline, "enable_warp": True}, baseline, DeclaredChange(), KNOWLEDGE)
    assert [(row.setting, row.confounding) for row in rows] == [("enable_warp", True)]


@pytest.mark.parametrize(
    "setting", ["port", "random_seed", "launch_command", "startup_time", "log_level", "_declared"]
)
def test_what_changes_with_every_launch_is_not_listed(setting: str) -> None:
    baseline = recorded("nccl").server_info
    assert compare({**baseline, setting: "x"}, baseline, DeclaredChange(), KNOWLEDGE) == []


def test_harmless_differences_are_listed_but_do_not_confound() -> None:
    baseline = {"watchdog_timeout": 300}
    rows = compare({"watchdog_timeout": 600}, baseline, DeclaredChange(), KNOWLEDGE)
    assert [(row.setting, row.confounding) for row in rows] == [("watchdog_timeout", False)]


def test_an_undeclared_environment_variable_confounds() -> None:
    info = recorded("nccl").server_info
    rows = compare(info, info, DeclaredChange(), KNOWLEDGE, environment=({"NCCL_PROTO": "LL"}, {}))
    assert [(row.setting, row.confounding) for row in rows] == [("env.NCCL_PROTO", True)]
    declared = DeclaredChange(env={"NCCL_PROTO": "LL"})
    assert compare(info, info, declared, KNOWLEDGE, environment=({"NCCL_PROTO": "LL"}, {})) == []


def test_a_changed_stack_implies_its_defaults_but_not_what_can_be_pinned() -> None:
    baseline = recorded("nccl").server_info
    variant = {**copy.deepcopy(baseline), "sampling_granularity": 3, "chunked_prefill_size": 4096}
    for state in variant["internal_states"]:
        state["chunked_prefill_size"] = 4096
    rows = compare(variant, baseline, DeclaredChange(stack="cu128"), KNOWLEDGE)
    assert [row.setting for row in rows if row.confounding] == ["chunked_prefill_size"]


IMPLIED: dict[str, tuple[str, Any, tuple[str, ...]]] = {
    "spec-own-settings": (
        "speculative-algorithm",
        "EAGLE3",
        ("speculative_moe_runner_backend", "context_length"),
    ),
    "spec-max-running": ("speculative-algorithm", "EAGLE3", ("max_running_requests",)),
    "spec-graph-sizes": (
        "speculative-algorithm",
        "EAGLE3",
        ("cuda_graph_config.decode.max_bs", "cuda_graph_bs"),
    ),
    "spec-mixed-chunk": ("speculative-algorithm", "EAGLE3", ("enable_mixed_chunk",)),
    "spec-memory": ("speculative-algorithm", "EAGLE3", ("mem_fraction_static",)),
    "spec-kv-tokens": (
        "speculative-algorithm",
        "EAGLE3",
        ("max_total_num_tokens", "memory_usage.token_capacity"),
    ),
    "spec-overlap": ("speculative-algorithm", "EAGLE3", ("disable_overlap_schedule",)),
    "quantised-draft": ("quantization", "fp8", ("speculative_draft_model_quantization",)),
    "graph-max-bs": (
        "cuda-graph-max-bs-decode",
        128,
        ("cuda_graph_config.decode.bs", "decode_cuda_graph_bs"),
    ),
    "graph-memory": ("cuda-graph-max-bs-decode", 128, ("mem_fraction_static", "max_total_num_tokens")),
    "graph-off": ("disable-cuda-graph", True, ("cuda_graph_config.prefill.backend",)),
    "max-running-graph": ("max-running-requests", 8, ("cuda_graph_config.decode.max_bs",)),
    "max-running-own": ("max-running-requests", 8, ("effective_max_running_requests_per_dp",)),
    "memory-own": ("kv-cache-dtype", "fp8_e4m3", ("max_total_num_tokens",)),
    "memory-requests": ("mem-fraction-static", 0.7, ("effective_max_running_requests_per_dp",)),
    "symm-mem-pool": ("enable-symm-mem", True, ("max_total_num_tokens",)),
    "symm-mem-env": ("enable-symm-mem", True, ("env.NCCL_CUMEM_ENABLE", "env.NCCL_NVLS_ENABLE")),
    "fusion-own": ("flashinfer-allreduce-fusion-backend", "auto", ("enable_flashinfer_allreduce_fusion",)),
    "ep-own": ("ep-size", 8, ("moe_dp_size", "disable_shared_experts_fusion")),
    "ep-runner": ("ep-size", 8, ("moe_runner_backend", "schedule_conservativeness")),
    "deterministic": ("enable-deterministic-inference", True, ("sampling_backend", "env.NCCL_ALGO")),
    "attention-page": ("attention-backend", "triton", ("page_size", "disable_chunked_prefix_cache")),
    "radix-own": ("disable-radix-cache", True, ("disable_chunked_prefix_cache",)),
    "parallel-own": ("tp-size", 4, ("memory_usage.token_capacity", "effective_max_running_requests_per_dp")),
}
"""For each implication a flag that draws it, and settings that it is about."""

RULES = [rule for rule in KNOWLEDGE.implications["implied"] if not rule.get("stack")]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["id"])
def test_every_implication_is_drawn_from_its_flag_and_from_no_other(rule: dict[str, Any]) -> None:
    flag, value, settings = IMPLIED[rule["id"]]
    for setting in settings:
        name, is_variable = setting.removeprefix("env."), setting.startswith("env.")
        documents: Any = ({}, {}) if is_variable else ({setting: "new"}, {setting: "old"})
        environment: Any = ({name: "new"}, {name: "old"}) if is_variable else ({}, {})
        implied = compare(*documents, DeclaredChange(flags={flag: value}), KNOWLEDGE, environment=environment)
        assert [row.implied_by for row in implied] == [rule["id"]]
        assert implied[0].declared is bool(rule.get("inherent"))
        plain = compare(*documents, DeclaredChange(env={"X": "1"}), KNOWLEDGE, environment=environment)
        assert [row.implied_by for row in plain] == [None]


VOLATILE = (
    "port nccl.port grpc_port disaggregation_bootstrap_port dist_init_addr encoder_urls random_seed "
    "_resolved_overrides _runtime_mutations last_gen_throughput avg_spec_accept_length startup_time "
    "engine_startup_time memory_usage.weight memory_usage.graph.decode decode_cuda_graph_memory_gb launch_command "
    "status version kv_events max_req_input_len frontend host log_level log_requests_level served_model_name api_key "
    "file_storage_path pp_max_micro_batch_size max_speculative_num_draft_tokens debug_cuda_graph "
    "cuda_graph_max_bs_decode cuda_graph_bs_prefill cuda_graph_backend_decode disable_prefill_cuda_graph"
)


@pytest.mark.parametrize("name", VOLATILE.split())
def test_volatile_settings_are_not_listed(name: str) -> None:
    assert compare({name: "new"}, {name: "old"}, DeclaredChange(), KNOWLEDGE) == []


@pytest.mark.parametrize("name", sorted(KNOWLEDGE.implications["moves_performance"]))
def test_what_moves_performance_confounds_and_names_its_pin(name: str) -> None:
    rows = compare({name: "new"}, {name: "old"}, DeclaredChange(), KNOWLEDGE)
    assert [(row.setting, row.confounding) for row in rows] == [(name, True)]
    assert rows[0].pin == KNOWLEDGE.implications["moves_performance"][name]["pin"]


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "port", "c.d"]),
        st.none() | st.integers() | st.text() | st.lists(st.integers()),
    )
)
def test_any_two_documents_are_compared_and_equal_ones_never_differ(document: dict[str, Any]) -> None:
    assert compare(document, document, DeclaredChange(), KNOWLEDGE) == []
    compare(document, {}, DeclaredChange(), KNOWLEDGE)

"""The locks that are kept agree with their stack.yaml, and nothing in them is left open."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sglang_sweep.campaign.flags import TABLES, recorded_table
from sglang_sweep.stacks.lock import compile_command, declaration, inconsistencies, read_lock
from sglang_sweep.stacks.stack import load_stack

ENVS = Path(__file__).parents[2] / "envs"
LOCKED = sorted(path.parent.name for path in ENVS.glob("*/requirements.in"))
STACKS = sorted(path.parent.name for path in ENVS.glob("*/stack.yaml"))


@pytest.mark.parametrize("name", LOCKED)
def test_every_requirement_is_pinned_and_hashed_and_agrees_with_stack_yaml(name: str) -> None:
    assert inconsistencies(ENVS / name) == []
    assert len(read_lock((ENVS / name / "requirements.lock").read_text())) > 100


@pytest.mark.parametrize("name", LOCKED)
def test_what_is_asked_for_is_in_the_lock_at_the_version_asked_for(name: str) -> None:
    locked = {pin.name: pin.version for pin in read_lock((ENVS / name / "requirements.lock").read_text())}
    for line in (ENVS / name / "requirements.in").read_text().splitlines():
        requirement = line.partition("#")[0].strip()
        if requirement:
            wanted, _, version = requirement.partition("==")
            assert wanted in locked
            assert not version or locked[wanted] == version


@pytest.mark.parametrize("name", LOCKED)
def test_the_digest_of_a_kept_stack_is_stable_and_its_cuda_is_the_one_of_its_wheels(name: str) -> None:
    stack = load_stack(ENVS, name)
    assert stack.digest == load_stack(ENVS, name).digest
    wheels = {pin.name for pin in read_lock(stack.lock.read_text())}
    if stack.cuda is not None:
        major = stack.cuda.partition(".")[0]
        assert f"nvidia-nccl-cu{major}" in wheels


@pytest.mark.parametrize("name", LOCKED)
def test_the_flags_of_a_kept_stack_are_known_without_building_it(name: str) -> None:
    version = load_stack(ENVS, name).sglang_version
    assert recorded_table(version).note is None
    assert {"tp-size", "mem-fraction-static", "attention-backend"} <= recorded_table(version).names


def test_flag_tables_are_sorted_and_hold_no_dashes() -> None:
    tables = [*TABLES.glob("*.tsv"), *TABLES.glob("*.txt")]
    assert len(tables) > 10
    for table in tables:
        names = [
            re.split(r"[\s,]", line)[0] for line in table.read_text().splitlines() if not line.startswith("#")
        ]
        assert names == sorted(set(names)), table
        assert not any(name.startswith("-") for name in names), table


def test_the_renames_that_ended_campaigns_are_in_the_tables() -> None:
    assert "cuda-graph-max-bs" in recorded_table("0.5.12").names
    assert "cuda-graph-max-bs" in recorded_table("0.5.18").names
    assert recorded_table("0.5.18").options["cuda-graph-max-bs"].deprecated
    assert "cuda-graph-max-bs" not in recorded_table("0.5.20").names
    assert "cuda-graph-max-bs-decode" in recorded_table("0.5.20").names


@pytest.mark.parametrize(
    ("lock", "problem"),
    [
        ("torch>=2\n", "not pinned with ==: torch>=2"),
        ("torch==2.14.1\n", "without a hash: torch==2.14.1"),
        (
            "torch==2.14.1 \\\n    --hash=sha256:aa\n",
            "stack.yaml says sglang 0.5.23, the lock holds no such thing",
        ),
        (
            "sglang==0.5.22 --hash=sha256:aa\ntorch==2.14.1 --hash=sha256:aa\n",
            "stack.yaml says sglang 0.5.23, the lock holds 0.5.22",
        ),
        (
            "sglang==0.5.23 --hash=sha256:aa\ntorch==2.14.1 --hash=sha256:aa\nninja==1 --hash=sha256:aa\n",
            "ninja is left out by stack.yaml and yet in the lock",
        ),
    ],
)
def test_a_lock_that_is_open_or_disagrees_is_found_out(tmp_path: Path, lock: str, problem: str) -> None:
    (tmp_path / "stack.yaml").write_text(
        "description: d\nkind: lock\nsglang: 0.5.23\ntorch: 2.14.1\nleft_out: {jit: [ninja]}\n"
    )
    (tmp_path / "requirements.lock").write_text(lock)
    assert problem in inconsistencies(tmp_path)


def test_a_stack_of_one_python_and_platform_is_resolved_for_it_and_another_for_all() -> None:
    one = " ".join(compile_command(ENVS / "cu128", declaration(ENVS / "cu128")))
    assert "--python-version 3.12 --python-platform x86_64-manylinux_2_34" in one
    assert "--exclude-newer 2026-04-15" in one
    every = " ".join(compile_command(ENVS / "cpu", declaration(ENVS / "cpu")))
    assert "--universal --python-version 3.11" in every
    assert "--no-emit-package flashinfer-python" in every


@pytest.mark.parametrize("name", STACKS)
def test_every_kept_stack_but_existing_ones_loads(name: str) -> None:
    if declaration(ENVS / name)["kind"] != "existing":
        assert load_stack(ENVS, name).name == name

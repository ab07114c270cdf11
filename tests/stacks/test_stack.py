"""Stacks as declared: identity, places, errors."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sglang_sweep.errors import UserError
from sglang_sweep.stacks.stack import load_stack, pins, python_for, record_existing, source_digests

LOCK = "sglang==0.5.23 \\\n    --hash=sha256:aa\n    # via -r requirements.in\ntorch==2.14.1 \\\n    --hash=sha256:bb\n"
STACK = """\
description: for tests
kind: lock
sglang: 0.5.23
torch: 2.14.1
python: ">=3.11,<3.14"
env: {A: b}
packages: [ours]
prune: ["nvidia/*/include"]
"""


@pytest.fixture
def envs(tmp_path: Path) -> Path:
    directory = tmp_path / "envs" / "small"
    (directory / "ours" / "src").mkdir(parents=True)
    (directory / "stack.yaml").write_text(STACK)
    (directory / "requirements.lock").write_text(LOCK)
    (directory / "ours" / "pyproject.toml").write_text("[project]\nname = 'ours'\n")
    (directory / "ours" / "src" / "ours.py").write_text("x = 1\n")
    return tmp_path / "envs"


def _digest(envs: Path) -> str:
    return load_stack(envs, "small").digest


def test_a_stack_knows_where_it_will_lie_and_what_starts_a_server(envs: Path, tmp_path: Path) -> None:
    stack = load_stack(envs, "small")
    folder = stack.folder(tmp_path)
    assert folder == tmp_path / "stacks" / f"small-{stack.digest}"
    assert stack.launcher(tmp_path) == [str(folder / "bin" / "python"), "-m", "sglang.launch_server"]
    assert stack.env == {"A": "b"}
    assert stack.sglang_version == "0.5.23"


def test_comments_in_the_lock_the_description_and_left_overs_of_a_build_do_not_change_the_digest(
    envs: Path,
) -> None:
    before = _digest(envs)
    directory = envs / "small"
    (directory / "requirements.lock").write_text(
        "# made today\n" + LOCK.replace("# via -r requirements.in", "# via x")
    )
    (directory / "stack.yaml").write_text(STACK.replace("for tests", "for other tests"))
    (directory / "ours" / "build").mkdir()
    (directory / "ours" / "build" / "ours.py").write_text("y")
    (directory / "ours" / "README.md").write_text("read me")
    assert _digest(envs) == before


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("requirements.lock", LOCK.replace("sha256:bb", "sha256:cc")),
        ("ours/src/ours.py", "x = 2\n"),
        ("stack.yaml", STACK.replace("nvidia/*/include", "nvidia/*/lib")),
        ("stack.yaml", STACK.replace("A: b", "A: c")),
    ],
)
def test_whatever_changes_what_is_built_or_run_changes_the_digest(envs: Path, file: str, text: str) -> None:
    before = _digest(envs)
    (envs / "small" / file).write_text(text)
    assert _digest(envs) != before


def test_an_unknown_stack_is_reported_with_the_ones_there_are(envs: Path) -> None:
    with pytest.raises(UserError, match=r"there is no stack 'smal'(.|\n)*small"):
        load_stack(envs, "smal")


def test_a_missing_lock_says_how_to_make_it(envs: Path) -> None:
    (envs / "small" / "requirements.lock").unlink()
    with pytest.raises(UserError, match="python -m sglang_sweep lock"):
        load_stack(envs, "small")


def test_an_unknown_key_is_reported_with_the_file(envs: Path) -> None:
    (envs / "small" / "stack.yaml").write_text(STACK + "prunes: []\n")
    with pytest.raises(UserError, match=r"stack\.yaml(.|\n)*prunes"):
        load_stack(envs, "small")


def test_the_running_python_is_taken_when_it_fits_and_else_the_newest_that_does() -> None:
    file = Path("stack.yaml")
    assert python_for(">=3.11,<3.14", file, running="3.12") == "3.12"
    assert python_for(">=3.11,<3.14", file, running="3.14") == "3.13"
    assert python_for("==3.12.*", file, running="3.11") == "3.12"
    with pytest.raises(UserError, match="no Python 3 satisfies"):
        python_for("<3.0", file)


def test_an_existing_interpreter_without_sglang_is_refused_and_a_missing_one_too(envs: Path) -> None:
    directory = envs / "there"
    directory.mkdir()
    (directory / "stack.yaml").write_text(f"description: d\nkind: existing\ninterpreter: {sys.executable}\n")
    with pytest.raises(UserError, match="has no sglang"):
        load_stack(envs, "there")
    (directory / "stack.yaml").write_text("description: d\nkind: existing\ninterpreter: /nowhere/python\n")
    with pytest.raises(UserError, match="there is no interpreter /nowhere/python"):
        load_stack(envs, "there")


def test_an_existing_interpreter_is_known_by_what_is_installed_in_it(envs: Path, tmp_path: Path) -> None:
    directory = envs / "there"
    directory.mkdir()
    python = tmp_path / "python"

    def install(version: str) -> str:
        answer = f'{{"python": "3.12", "distributions": {{"SGLang": "{version}", "flash_attn": "1"}}}}'
        python.write_text(f"#!/bin/sh\necho noise\necho '{answer}'\n")
        python.chmod(0o755)
        stack = load_stack(envs, "there")
        assert stack.python(tmp_path) == python
        assert stack.sglang_version == version
        assert stack.python_version == "3.12"
        return stack.digest

    (directory / "stack.yaml").write_text(f"description: d\nkind: existing\ninterpreter: {python}\n")
    assert install("0.5.16") == install("0.5.16")
    assert install("0.5.16") != install("0.5.23")


def test_a_container_is_started_by_apptainer_and_has_no_interpreter_here(envs: Path, tmp_path: Path) -> None:
    directory = envs / "image"
    directory.mkdir()
    image = "docker://lmsysorg/sglang:v0.5.16"
    (directory / "stack.yaml").write_text(
        f"description: d\nkind: container\nsglang: 0.5.16\nimage: {image}\n"
    )
    stack = load_stack(envs, "image")
    assert stack.launcher(tmp_path)[:5] == ["apptainer", "exec", "--nv", image, "python3"]
    with pytest.raises(UserError, match="no interpreter on this host"):
        stack.python(tmp_path)


def test_pins_are_the_lock_without_comments() -> None:
    assert pins(LOCK) == ["sglang==0.5.23", "--hash=sha256:aa", "torch==2.14.1", "--hash=sha256:bb"]


def test_only_files_that_are_installed_count_as_sources(envs: Path) -> None:
    assert set(source_digests(envs / "small" / "ours")) == {"pyproject.toml", "src/ours.py"}


def test_a_machine_without_the_interpreter_knows_the_stack_from_the_note_beside_its_results(
    envs: Path, tmp_path: Path
) -> None:
    directory, recorded, python = envs / "there", tmp_path / "stacks", tmp_path / "python"
    directory.mkdir()
    python.write_text("""#!/bin/sh\necho '{"python": "3.12", "distributions": {"sglang": "0.5.16"}}'\n""")
    python.chmod(0o755)
    declared = f"description: d\nkind: existing\ninterpreter: {python}\nsglang: 0.5.16\n"
    (directory / "stack.yaml").write_text(declared)
    there = load_stack(envs, "there", recorded)
    record_existing(there, recorded)
    python.unlink()
    record_existing(load_stack(envs, "there", recorded), recorded)  # nothing to note on this machine
    assert load_stack(envs, "there", recorded).digest == there.digest
    assert load_stack(envs, "there").digest != there.digest
    (directory / "stack.yaml").write_text(f"{declared}env: {{A: '1'}}\n")
    assert load_stack(envs, "there", recorded).digest != there.digest

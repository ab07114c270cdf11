"""The offline bundle: packed here, installed by a script that knows nothing of this project."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest
from sglang_sweep.errors import UserError
from sglang_sweep.stacks import bundle, install_bundle
from sglang_sweep.stacks.lock import read_lock

KEPT = sorted((Path(__file__).parents[2] / "envs" / "bundles").glob("*.yaml"))
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TARGET = f"""\
description: for tests
python: "{PYTHON}"
platform: x86_64-manylinux_2_34
gpu: sm_90
groups:
  server:
    requirements: [small==1.0]
    host_has: {{pytest: null}}
    left_out: {{not needed: [big]}}
    prune: {{other architectures: ["kernels/sm100", "*.so"]}}
"""


@pytest.fixture
def target(tmp_path: Path) -> bundle.BundleTarget:
    file = tmp_path / "host.yaml"
    file.write_text(TARGET)
    (tmp_path / "host.server.lock").write_text("small==1.0 --hash=sha256:aa\n")
    return bundle.load_target(file)


@pytest.fixture
def made(target: bundle.BundleTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle whose packages were laid by hand instead of fetched."""

    def install(arguments: list[str], what: str) -> None:
        folder = Path(arguments[arguments.index("--target") + 1])
        for name, contents in {
            "small/__init__.py": b"answer = 42\n",
            "small/data.bin": os.urandom(3_000_000),
            "kernels/sm90/ops.so": b"90",
            "kernels/sm100/ops.so": b"100",
            "attention.so": b"1" * 1000,
            "bin/small": b"#!/connected/bin/python\nimport small; print(small.answer)\n",
        }.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(contents)
        (folder / "bin" / "small").chmod(0o755)

    monkeypatch.setattr(bundle, "_uv", install)
    out = tmp_path / "out"
    bundle.make_bundle(target, out, 1, print)
    return out


def _install(made: Path, into: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(made / "install_bundle.py"), "--into", str(into)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_bundle_is_cut_into_parts_and_installs_where_only_python_is(made: Path, tmp_path: Path) -> None:
    manifest = json.loads((made / "manifest.json").read_text())
    sizes = [part["bytes"] for part in manifest["parts"]]
    assert len(sizes) >= 3
    assert all(size == 1 << 20 for size in sizes[:-1])
    done = _install(made, tmp_path / "host")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"server: {tmp_path}/host/server/bin/python\n"
    answer = subprocess.run(
        [tmp_path / "host" / "server" / "bin" / "small"], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "42\n"


def test_the_installed_environment_sees_what_the_host_has_after_its_own(made: Path, tmp_path: Path) -> None:
    assert _install(made, tmp_path / "host").returncode == 0
    program = "import pytest, sys; print([p for p in sys.path if 'site-packages' in p][0])"
    python = tmp_path / "host" / "server" / "bin" / "python"
    first = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout
    assert first.startswith(str(tmp_path / "host"))


def test_what_is_pruned_stays_behind_and_the_manifest_says_so(made: Path, tmp_path: Path) -> None:
    group = json.loads((made / "manifest.json").read_text())["groups"]["server"]
    assert [(entry["path"], entry["bytes"]) for entry in group["pruned"]] == [
        ("kernels/sm100", 3),
        ("attention.so", 1000),
    ]
    assert group["left_out"] == {"not needed": ["big"]}
    assert group["packages"] == {"small": "1.0"}
    _install(made, tmp_path / "host")
    assert [path.parent.name for path in (tmp_path / "host").rglob("ops.so")] == ["sm90"]


def test_a_damaged_and_a_missing_part_are_both_named_and_nothing_is_installed(
    made: Path, tmp_path: Path
) -> None:
    parts = sorted(made.glob("host.tar.xz.*"))
    parts[0].write_bytes(b"x" + parts[0].read_bytes()[1:])
    parts[1].unlink()
    done = _install(made, tmp_path / "host")
    assert done.returncode == 1
    assert f"{parts[0].name} is damaged" in done.stderr
    assert f"{parts[1].name} is missing" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "host").exists()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"python": "3.99"}, "made for Python 3.99"),
        (
            {"groups": {"server": {"host_has": {"no-such-thing": None}}}},
            "server: this Python has no no-such-thing",
        ),
        ({"groups": {"server": {"host_has": {"pytest": "0.1"}}}}, "the bundle is made for 0.1"),
    ],
)
def test_a_host_that_is_not_the_target_is_told_why(
    change: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    manifest = {"python": PYTHON, "parts": [], "groups": {}} | change
    assert [problem in found for found in install_bundle.problems(manifest, tmp_path)] == [True]


@pytest.mark.parametrize(
    "name",
    [
        "server//abs/path",
        "server/../../out",
        "other/a.py",
        "server/bin/../../../out",
        "/etc/x",
        "server/",
        "server",
    ],
)
def test_a_member_that_leads_out_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    archive = tmp_path / "b.tar.xz.000"
    with tarfile.open(archive, "w:xz") as tar:
        member = tarfile.TarInfo(name)
        member.size = 4
        tar.addfile(member, io.BytesIO(b"evil"))
    groups = {"server": {"host_has": {}}}
    manifest = {"name": "b", "python": PYTHON, "parts": [{"file": archive.name}], "groups": groups}
    with pytest.raises(SystemExit, match="unexpected member"):
        install_bundle.install(manifest, tmp_path, tmp_path / "host")
    assert [p for p in tmp_path.rglob("*") if p.is_file() and p.read_bytes() == b"evil"] == []


def test_a_manifest_that_leads_out_of_its_folder_is_refused(tmp_path: Path) -> None:
    for part, group in (("../x", "server"), ("/etc/passwd", "server"), ("x", "../../etc"), ("x", "/abs")):
        manifest = {"python": PYTHON, "parts": [{"file": part}], "groups": {group: {"host_has": {}}}}
        assert "the manifest names" in install_bundle.problems(manifest, tmp_path)[0]


def test_a_folder_that_is_no_installation_is_left_alone(made: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "only-copy.tex").write_text("years")
    done = _install(made, tmp_path / "thesis")
    assert done.returncode == 1
    assert "no earlier installation" in done.stderr
    assert (tmp_path / "thesis" / "only-copy.tex").read_text() == "years"


def test_an_earlier_installation_is_replaced(made: Path, tmp_path: Path) -> None:
    assert _install(made, tmp_path / "host").returncode == 0
    (tmp_path / "host" / "old").write_text("")
    assert _install(made, tmp_path / "host").returncode == 0
    assert not (tmp_path / "host" / "old").exists()


def test_packing_the_same_files_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "stage" / "server").mkdir(parents=True)
    file = tmp_path / "stage" / "server" / "a.py"
    file.write_text("a")
    first = bundle._pack(tmp_path / "stage", tmp_path / "one.tar.xz", 1 << 20)
    os.utime(file, (1, 1))
    second = bundle._pack(tmp_path / "stage", tmp_path / "two.tar.xz", 1 << 20)
    assert first[0]["sha256"] == second[0]["sha256"]


def test_a_missing_lock_says_how_to_make_it(target: bundle.BundleTarget, tmp_path: Path) -> None:
    target.groups[0].lock.unlink()
    with pytest.raises(UserError, match=r"host\.server\.lock(.|\n)*--lock"):
        bundle.make_bundle(target, tmp_path / "out", 1, print)


@pytest.mark.parametrize("file", KEPT, ids=lambda path: path.stem)
def test_kept_targets_are_locked_and_carry_nothing_that_they_say_is_not_carried(file: Path) -> None:
    for group in bundle.load_target(file).groups:
        names = {pin.name for pin in read_lock(group.lock.read_text())}
        assert not names & set(group.not_carried)
        for requirement in group.requirements:
            name, _, version = requirement.partition("==")
            assert name == "pyproject.toml" or f"{name}=={version}" in group.lock.read_text()

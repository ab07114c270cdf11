"""A host that is lent for some time: what is there is packed when the time is up, and the next call goes on."""

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from clone import Clone

pytestmark = pytest.mark.workflow


def offline_run(project: Clone, home: Path, seconds: int, out: Path) -> int:
    return subprocess.run(
        ["bash", "workflow_scripts/offline_run.sh", ".", "small", str(seconds), str(out)],
        cwd=project.folder,
        env={**os.environ, "SWEEP_HOME": str(home)},
        check=False,
    ).returncode


def packed(archive: Path) -> set[str]:
    with tarfile.open(archive) as tar:
        return {Path(member.name).name for member in tar if member.isfile()}


def test_a_run_that_its_time_ends_is_packed_and_goes_on(project: Clone, store: Path, tmp_path: Path) -> None:
    design = {"windows": 1, "blocks": 1, "primary": {"workload": "short", "metric": "output_throughput"}}
    project.campaign("small", baseline={"flags": {"device": "cpu"}}, variants=[], design=design)
    project.site(campaigns=["cpu-demo"], store=str(store))
    home = tmp_path / "home"  # as an installed bundle
    (home / "controller").mkdir(parents=True)
    (home / "controller" / "bin").symlink_to(Path(sys.executable).parent)
    assert offline_run(project, home, 1, tmp_path / "first") == 124
    assert "verdicts.json" not in packed(tmp_path / "first" / "results.tar.xz")
    assert project.ours() == []
    assert offline_run(project, home, 600, tmp_path / "second") == 0
    brought = packed(tmp_path / "second" / "results.tar.xz")
    assert {"launch.json", "server.log", "environment.json", "verdicts.json", "findings.md"} <= brought
    assert packed(tmp_path / "second" / "traces.tar.xz") == set()

"""A copy of the project to run snakemake in, as a user would."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = ("Snakefile", "config", "rules", "envs", "workflow_scripts", "profiles", "reports/templates", "reports/captions")

Snakemake = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """What a fresh clone holds, without anything generated."""
    folder = tmp_path / "project"
    for name in SHIPPED:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", ".snakemake"))
        else:
            shutil.copy2(source, target)
    return folder


@pytest.fixture
def snakemake(project: Path) -> Snakemake:
    """Runs ``snakemake`` in the project and returns its result."""

    def run(*arguments: str, check: bool = True, timeout: float = 1500) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [str(Path(sys.executable).with_name("snakemake")), *arguments],
            cwd=project,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            check=False,
        )
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    return run

"""A copy of the project to run snakemake in, as a user would, on a site where stacks and models need no building."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml
from sglang_sweep.launch import ownership
from sglang_sweep.stacks.models import load_model
from sglang_sweep.stacks.stack import load_stack

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SHIPPED = (
    "Snakefile", "config", "rules", "envs", "workflow_scripts", "profiles", "reports/templates", "reports/captions",
)  # fmt: skip
GENERATED = ("__pycache__", "*.egg-info", ".snakemake", "build")
SNAKEMAKE = str(Path(sys.executable).with_name("snakemake"))


@dataclass(frozen=True)
class Clone:
    """What a fresh clone holds, without anything generated, in ``folder``."""

    folder: Path

    @classmethod
    def fresh(cls, folder: Path) -> "Clone":
        """The project's shipped files, with the test campaigns beside its own."""
        for name in SHIPPED:
            source, target = ROOT / name, folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns(*GENERATED))
            else:
                shutil.copy2(source, target)
        shutil.copy2(HERE / "campaigns" / "tiny.yaml", folder / "config" / "campaigns")
        return cls(folder)

    def again(self, folder: Path) -> "Clone":
        """A copy with everything generated, Snakemake's own records too."""
        shutil.copytree(self.folder, folder)
        return Clone(folder)

    def site(self, **settings: Any) -> None:
        """Writes config/config.yaml."""
        (self.folder / "config" / "config.yaml").write_text(yaml.safe_dump(settings))

    def campaign_text(self, name: str = "tiny") -> str:
        return self.campaign_file(name).read_text()

    def campaign_file(self, name: str = "tiny") -> Path:
        return self.folder / "config" / "campaigns" / f"{name}.yaml"

    def edit(self, old: str, new: str, name: str = "tiny") -> None:
        """Replaces a text that occurs exactly once in a campaign."""
        text = self.campaign_text(name)
        assert text.count(old) == 1, old
        self.campaign_file(name).write_text(text.replace(old, new))

    def campaign(self, name: str, **changes: Any) -> None:
        """Writes a campaign: the tiny one with some top-level keys replaced."""
        raw = yaml.safe_load(self.campaign_text()) | changes
        self.campaign_file(name).write_text(yaml.safe_dump(raw))

    def start(self, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
        """``snakemake`` as a process group of its own, as a terminal would start it."""
        return subprocess.Popen(
            [SNAKEMAKE, *arguments],
            cwd=self.folder,
            text=True,
            start_new_session=True,
            # A shell in the background ignores INT, and what it starts would too.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            **{"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **options},
        )

    def snakemake(
        self, *arguments: str, code: int = 0, timeout: float = 600, env: dict[str, str] | None = None
    ) -> str:
        """What ``snakemake`` printed; its exit status must be ``code``."""
        done = subprocess.run(
            [SNAKEMAKE, *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})},
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def would_run(self, *arguments: str) -> "Jobs":
        """What ``snakemake -n`` lists."""
        return Jobs(self.snakemake("-n", *arguments))

    def records(self, name: str = "tiny") -> dict[tuple[str, int], dict[str, Any]]:
        """Every launch.json, by arm and block."""
        found = {}
        for path in (self.folder / "results" / "launches").glob("*/block-*/launch.json"):
            record = json.loads(path.read_text())
            if record["campaign"] == name:
                found[record["variant"], record["block"]] = record
        return found

    def launch_file(self, arm: str, block: int) -> Path:
        launches = self.folder / "results" / "launches"
        pattern = re.compile(rf"{arm}-[0-9a-f]{{10}}")
        (folder,) = [path for path in launches.iterdir() if pattern.fullmatch(path.name)]
        return folder / f"block-{block}" / "launch.json"

    def verdicts(self, name: str = "tiny") -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / "results" / name / "verdicts.json").read_text())
        return loaded

    def ours(self) -> list[psutil.Process]:
        """Processes that a launch of this clone started and that still live."""
        return [p for p, _ in ownership.marked_processes() if _working_in(p, self.folder)]


def _working_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return Path(process.cwd()) == folder and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


class Jobs(dict[str, int]):
    """Number of jobs by rule, and the launches among them."""

    def __init__(self, text: str) -> None:
        _, _, table = text.partition("Job stats:\n")
        rows = re.findall(r"^(\w+) +(\d+)$", table.partition("total")[0], re.MULTILINE)
        super().__init__({rule: int(count) for rule, count in rows})
        self.text = text
        self.launches = {
            (arm.rpartition("-")[0], int(block))
            for arm, block in re.findall(r"launch of (\S+), block (\d+)", text)
        }


def fake_store(folder: Path) -> Path:
    """A store in which the cpu stack is a stand-in for SGLang and the models are markers."""
    stack = load_stack(ROOT / "envs", "cpu")
    python = stack.python(folder)
    python.parent.mkdir(parents=True)
    path = f"{HERE / 'fake_stack'}:{HERE.parent / 'launch' / 'fake_client'}"
    python.write_text(f'#!/bin/sh\nexport PYTHONPATH="{path}"\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    facts = {
        "name": stack.name, "kind": stack.kind, "digest": stack.digest, "serves": True, "sglang": stack.sglang_version,
        "python": "3.11.7", "torch": "2.14.1+cu130", "cuda": "13.0", "nccl": "2.30.7", "flashinfer": None,
        "sgl_kernel": None, "executable": str(python), "gpu_architectures": [], "reasons": {},
    }  # fmt: skip
    (stack.folder(folder) / "stack.json").write_text(json.dumps(facts))
    for name in ("tiny-llama", "smollm2-135m"):
        model = load_model(name, ROOT / "config" / "models.yaml")
        marker = model.marker(folder)
        assert marker
        marker.parent.mkdir(parents=True)
        marker.write_text(json.dumps({"name": name, "digest": model.digest}))
        (marker.parent / "config.json").write_text(json.dumps({"hidden_size": 128}))
    return folder

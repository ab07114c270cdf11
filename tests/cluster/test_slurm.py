"""A campaign on a real SLURM of two nodes: one command, blocks as jobs, nothing left behind by a cancelled one."""

import os
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from clone import Clone, fake_store

pytestmark = pytest.mark.cluster

ON_SLURM = ("--workflow-profile", "profiles/slurm", "--slurm-status-command", "squeue")
SOON = ("--slurm-init-seconds-before-status-checks", "5")


def until(true: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "did not come to be"
        time.sleep(0.3)


def test_a_campaign_moves_to_slurm_and_back(slurm: None, tmp_path: Path) -> None:
    clone = Clone.fresh(tmp_path / "project")
    clone.campaign(
        "small",
        baseline={"flags": {"device": "cpu"}},
        variants=[{"name": "lpm", "hypothesis": "No.", "change": {"flags": {"schedule-policy": "lpm"}}}],
        design={"windows": 1, "blocks": 2, "primary": {"workload": "short", "metric": "output_throughput"}},
    )
    clone.site(campaigns=["small"], store=str(fake_store(tmp_path / "store")))

    # A job that is cancelled while its server runs leaves no process and no half result.
    with (clone.folder / "first.txt").open("w") as output:
        first = clone.start(*ON_SLURM, *SOON, "--retries", "0", stdout=output, stderr=subprocess.STDOUT)
        until(lambda: list(clone.folder.rglob("attempt-1/server.log")), 90)
        subprocess.run(["scancel", "--user", "root"], check=True)
        until(lambda: clone.ours() == [], 60)
        os.killpg(first.pid, signal.SIGINT)  # else it asks SLURM about its jobs only every few minutes
        first.wait(60)

    # The same command goes on and ends with the report.
    clone.snakemake(*ON_SLURM, *SOON, timeout=400)
    records = sorted(clone.records("small").values(), key=lambda record: record["started_at"])
    assert {(r["variant"], r["block"]) for r in records} == {
        (name, block) for name in ("baseline", "baseline-prime", "lpm") for block in (1, 2)
    }
    assert {r["outcome"] for r in records} == {"completed"}
    for earlier, later in pairwise(
        records
    ):  # both nodes are this machine, which measures one server at a time
        assert earlier["finished_at"] <= later["started_at"]
    assert (clone.folder / "reports/small/index.html").exists()
    assert clone.ours() == []

    # Local Snakemake finds the same keys: nothing is measured again.
    assert "launch" not in clone.would_run()

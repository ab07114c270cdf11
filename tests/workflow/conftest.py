"""Clones of the project: fresh ones, and copies of one in which a campaign was measured on the stand-in stack."""

from pathlib import Path

import pytest
from clone import Clone, fake_store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stacks and models of a site where both stand in for the real ones."""
    return fake_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def project(tmp_path: Path, store: Path) -> Clone:
    """A fresh clone on that site, with the default campaign."""
    clone = Clone.fresh(tmp_path / "project")
    clone.site(campaigns=["cpu-demo"], store=str(store))
    return clone


@pytest.fixture(scope="session")
def measured_once(tmp_path_factory: pytest.TempPathFactory, store: Path) -> Clone:
    """The tiny campaign, launched, judged and reported; copied, never changed."""
    clone = Clone.fresh(tmp_path_factory.mktemp("measured") / "project")
    clone.site(campaigns=["tiny"], store=str(store))
    (clone.folder / "output.txt").write_text(clone.snakemake("--cores", "all"))
    return clone


@pytest.fixture
def measured(measured_once: Clone, tmp_path: Path) -> Clone:
    """A copy of it."""
    return measured_once.again(tmp_path / "measured")

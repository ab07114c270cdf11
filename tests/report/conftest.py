"""Fixtures of the constructed campaign: every verdict, nothing measured."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import constructed
from sglang_sweep.report.sections import Sections


@pytest.fixture
def verdicts() -> dict[str, Any]:
    return constructed.verdicts()


@pytest.fixture(scope="session")
def launches() -> list[dict[str, Any]]:
    return constructed.launches()


@pytest.fixture
def sections() -> Sections:
    return constructed.sections()

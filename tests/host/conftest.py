"""Recorded and constructed hosts, by the name of their folder."""

import copy
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from recorded_hosts import HOSTS
from sglang_sweep.host.fingerprint import fingerprint
from sglang_sweep.host.recording import RecordedSources, recorded_host


@cache
def _document(name: str) -> dict[str, Any]:
    return recorded_host(HOSTS / name / "host.yaml").document


@pytest.fixture
def sources() -> Callable[[str], RecordedSources]:
    return lambda name: RecordedSources(copy.deepcopy(_document(name)))


@cache
def _fingerprint(name: str) -> dict[str, Any]:
    return fingerprint(RecordedSources(_document(name)), folders=["/"])


@pytest.fixture
def host() -> Callable[[str], dict[str, Any]]:
    return lambda name: copy.deepcopy(_fingerprint(name))

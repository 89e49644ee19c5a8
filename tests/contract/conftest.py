"""Fixtures of the contract suites: `on(body)` runs a test's body on a fresh metadata store of each engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.stores import ENGINES, EXACT, On, run_on


@pytest.fixture(params=list(ENGINES))
def on(request: pytest.FixtureRequest, tmp_path: Path) -> On:
    return lambda body: run_on(request.param, tmp_path, body)


@pytest.fixture(params=EXACT)
def exactly_on(request: pytest.FixtureRequest, tmp_path: Path) -> On:
    """For what some engines do beyond the contract."""
    return lambda body: run_on(request.param, tmp_path, body)

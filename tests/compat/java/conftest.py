"""A broker with short grace for the Java client, and the client itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.compat.java.driver import V5
from tests.servers.standalone import Standalone

_numbers = itertools.count(1)

Connect = Callable[[], V5]
SETTINGS = {"scalableTopicConsumerSessionGracePeriodSeconds": 2, "brokerDeduplicationEnabled": True}


@pytest.fixture(scope="session")
def scalable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("scalable"), SETTINGS) as running:
        yield running


@pytest.fixture
def v5(scalable: Standalone, tmp_path: Path) -> Iterator[Connect]:
    """Make clients; they are gone with the test."""
    made: list[V5] = []

    def connect() -> V5:
        folder = tmp_path / f"client-{len(made)}"
        folder.mkdir()
        made.append(V5(scalable.url, folder))
        return made[-1]

    yield connect
    for one in made:
        one.__exit__(None, None, None)


@pytest.fixture
def name() -> str:
    """Of a scalable topic nobody else uses; `topic://public/default/` stands before it on the wire."""
    return f"v5-{next(_numbers)}"

"""One server process for the whole suite; our client beside the stock one, a topic of its own for every test.

Every case that asks for `broker` or `start` runs on our own broker and, in `make test-all`, on a real Apache Pulsar
too: our client has to be right on both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pulsar
import pytest

from tests.servers.names import unique
from tests.servers.proxy import Proxy
from tests.servers.pulsar import Pulsar
from tests.servers.standalone import Standalone

Server = Standalone | Pulsar
Start = Callable[..., Server]

SERVERS = [
    pytest.param(Standalone, id="magnetar"),
    pytest.param(Pulsar, id="pulsar", marks=[pytest.mark.slow, pytest.mark.timeout(900)]),  # it may have to be fetched
]


@pytest.fixture(scope="session", params=SERVERS)
def kind(request: pytest.FixtureRequest) -> type[Server]:
    found: type[Server] = request.param
    return found


@pytest.fixture(scope="session")
def broker(kind: type[Server], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with kind(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def start(kind: type[Server], tmp_path: Path) -> Iterator[Start]:
    """Start a server for this test alone: start(key=value, ...) with settings of standalone.conf."""
    running: list[Server] = []

    def start_one(**settings: object) -> Server:
        one = kind(tmp_path / f"broker-{len(running)}", settings)
        running.append(one)
        return one.start()

    yield start_one
    for one in running:
        one.__exit__(None, None, None)


@pytest.fixture
def proxy(broker: Server) -> Iterator[Proxy]:
    with Proxy(broker.port) as between:
        yield between


@pytest.fixture
def stock(broker: Server) -> Iterator[pulsar.Client]:
    """The stock client, closed with the test."""
    logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(broker.url, operation_timeout_seconds=15, logger=logger)
    yield client
    client.close()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A persistent topic nobody else uses."""
    return f"persistent://public/default/{unique(request.node.name)}"


@pytest.fixture
def namespace(broker: Server, request: pytest.FixtureRequest) -> str:
    """A namespace nobody else uses, with default policies."""
    name = f"public/{unique(request.node.name)}"
    broker.admin("PUT", f"namespaces/{name}", {})
    return name

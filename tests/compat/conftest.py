"""One broker process for the whole suite, a stock client and a topic name of its own for every test.

Tests that restart, kill or configure a broker start one for themselves through `start`. The stock client's
max_message_size is one variable for the whole process (the last CONNECTED wins), so every broker here has the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pulsar
import pytest

from tests.servers.names import unique
from tests.servers.proxy import Proxy
from tests.servers.standalone import Standalone

Start = Callable[..., Standalone]
Connect = Callable[..., pulsar.Client]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("broker"), {"activeConsumerFailoverDelayTimeMillis": 100}) as running:
        yield running


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a broker for this test alone: start(key=value, ...) with settings of standalone.conf."""
    running: list[Standalone] = []

    def start_one(**settings: object) -> Standalone:
        one = Standalone(tmp_path / f"broker-{len(running)}", settings)
        running.append(one)
        return one.start()

    yield start_one
    for one in running:
        one.__exit__(None, None, None)


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Make stock clients: connect(url, option=...). They are closed with the test."""
    clients: list[pulsar.Client] = []

    def connect_one(url: str, **options: object) -> pulsar.Client:
        options.setdefault("operation_timeout_seconds", 15)
        options.setdefault("logger", pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
        client = pulsar.Client(url, **options)
        clients.append(client)
        return client

    yield connect_one
    for client in clients:
        try:
            client.close()
        except pulsar.PulsarException:  # closed by the test, or its broker is gone on purpose
            pass


@pytest.fixture
def client(broker: Standalone, connect: Connect) -> pulsar.Client:
    return connect(broker.url)


@pytest.fixture
def proxy(broker: Standalone) -> Iterator[Proxy]:
    with Proxy(broker.port) as between:
        yield between


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A persistent topic nobody else uses."""
    return f"persistent://public/default/{unique(request.node.name)}"


@pytest.fixture
def namespace(broker: Standalone, request: pytest.FixtureRequest) -> str:
    """A namespace nobody else uses, with default policies."""
    name = f"public/{unique(request.node.name)}"
    broker.admin("PUT", f"namespaces/{name}", {})
    return name

"""A broker that is alive says so to its orchestrator, whatever other connections do to its REST port (D12)."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.servers.standalone import Standalone

CONNECTIONS = 1_005
TRICKLE = b"PUT /admin/v2/tenants/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))
    with Standalone(tmp_path_factory.mktemp("broker")) as running:
        yield running
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", TRICKLE], ids=["nothing", "half a head", "no body"])
def test_probe_is_answered_whatever_other_connections_do(sent: bytes, broker: Standalone) -> None:
    with ExitStack() as held:
        for _ in range(CONNECTIONS):
            one = held.enter_context(socket.create_connection(("127.0.0.1", broker.http_port), 20))
            one.sendall(sent)
        for path in ("/livez", "/readyz", "/admin/v2/brokers/ready"):
            answer = broker.ask("GET", path)
            assert (answer.status_code, answer.elapsed.total_seconds() < 5) == (200, True), path

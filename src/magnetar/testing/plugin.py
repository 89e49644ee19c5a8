"""The pytest plugin, which pytest finds automatically: `magnetar_broker` and related fixtures.

The first test that requests a broker starts it, and the end of its scope stops it. Every test gets its own namespace.
Nothing is loaded before that, so a suite that does not use it only pays for this file. Under pytest-xdist, every worker
has its own broker. An unknown scope or an install without a broker raises a clear error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from magnetar.client.admin.clients import Admin
    from magnetar.client.client import Client as AsyncClient
    from magnetar.client.sync import Client
    from magnetar.testing.brokers import Broker

SCOPES = ("session", "module", "function")
MARK = (
    "magnetar(scope=None, settings=None, clock=False): the broker of this test's magnetar_broker. scope: "
    "session, module or function. settings: settings of standalone.conf, clock: a movable clock; both give the "
    "test its own broker"
)
KNOWN = {"scope", "settings", "clock"}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        "magnetar_broker_scope", "lifetime of magnetar_broker: session, module or function", default=SCOPES[0]
    )
    parser.addini("magnetar_broker_fast", "keep brokers' data in memory if possible", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK)
    _check_scope(config.getini("magnetar_broker_scope"), "magnetar_broker_scope")


@pytest.fixture
def magnetar_broker(request: pytest.FixtureRequest) -> Broker:
    """A broker in this process, with a namespace for this test alone.

    It lives for the whole session unless `magnetar_broker_scope` or the mark `magnetar(scope=...)` says otherwise. If a
    test stops or kills it, the next test gets a running broker again.
    """
    running_broker: Broker = request.getfixturevalue(f"magnetar_broker_{_scope(request)}")
    if not running_broker.running:
        running_broker.restart()
    return running_broker.isolated(request.node.name)


@pytest.fixture(scope="session")
def magnetar_broker_settings() -> Mapping[str, object]:
    """Settings of standalone.conf for all brokers of the plugin: override the fixture in your conftest.py."""
    return {}


@pytest.fixture(scope="session")
def magnetar_broker_session(
    pytestconfig: pytest.Config, magnetar_broker_settings: Mapping[str, object]
) -> Iterator[Broker]:
    """One broker for the session, with the namespace public/default."""
    yield from _serve(pytestconfig, magnetar_broker_settings)


@pytest.fixture(scope="module")
def magnetar_broker_module(
    pytestconfig: pytest.Config, magnetar_broker_settings: Mapping[str, object]
) -> Iterator[Broker]:
    """One broker for the module, with the namespace public/default."""
    yield from _serve(pytestconfig, magnetar_broker_settings)


@pytest.fixture
def magnetar_broker_function(
    request: pytest.FixtureRequest, magnetar_broker_settings: Mapping[str, object]
) -> Iterator[Broker]:
    """A broker for this test alone, which it may stop, kill and configure, with the namespace public/default."""
    yield from _serve(request.config, {**magnetar_broker_settings, **_marked(request)}, clock=_clocked(request))


@pytest.fixture
def magnetar_client(magnetar_broker: Broker) -> Iterator[Client]:
    """Magnetar's client, connected to `magnetar_broker`; create topic names with `magnetar_broker.topic("orders")`."""
    from magnetar.client.sync import Client

    with Client(magnetar_broker.url) as client:
        yield client


@pytest.fixture
def magnetar_admin(magnetar_broker: Broker) -> Iterator[Admin]:
    """The admin client of `magnetar_broker`, over REST."""
    from magnetar.client.admin.clients import Admin

    with Admin(magnetar_broker.admin_url) as admin:
        yield admin


@pytest.fixture
def magnetar_aio_client(magnetar_broker: Broker) -> Iterator[AsyncClient]:
    """Magnetar's asyncio client for `magnetar_broker`, for tests that run in a loop. It belongs to the loop of its
    first use, and is closed there if that loop is still open after the test. `async with magnetar_aio_client` closes it
    in any case.
    """
    from magnetar.client.client import Client as AsyncClient

    client = AsyncClient(magnetar_broker.url)
    yield client
    loop = client._loop
    if not client.closed and loop is not None and not loop.is_closed() and not loop.is_running():
        loop.run_until_complete(client.close())


def _serve(config: pytest.Config, settings: Mapping[str, object], *, clock: bool = False) -> Iterator[Broker]:
    from magnetar.base.errors import Misuse
    from magnetar.testing.brokers import broker

    opening = broker(settings, fast=config.getini("magnetar_broker_fast"), clock=clock)
    try:
        running = opening.__enter__()
    except Misuse as error:
        pytest.fail(str(error), pytrace=False)
    try:
        yield running
    finally:
        opening.__exit__(None, None, None)


def _scope(request: pytest.FixtureRequest) -> str:
    mark = request.node.get_closest_marker("magnetar")
    strange = [] if mark is None else [*map(repr, mark.args), *sorted(mark.kwargs.keys() - KNOWN)]
    if strange:
        raise pytest.UsageError(
            f"a magnetar mark accepts scope=..., settings=... and clock=..., not {', '.join(strange)}"
        )
    scope = None if mark is None else mark.kwargs.get("scope")
    if _marked(request) or _clocked(request):
        if scope not in (None, "function"):
            own = "settings" if _marked(request) else "a clock"
            raise pytest.UsageError(
                f"{own} in a magnetar mark requires a broker for one test: scope must not be {scope!r}"
            )
        return "function"
    if scope is not None:
        return _check_scope(scope, "the magnetar mark's scope")
    return str(request.config.getini("magnetar_broker_scope"))


def _marked(request: pytest.FixtureRequest) -> Mapping[str, object]:
    mark = request.node.get_closest_marker("magnetar")
    settings: Mapping[str, object] | None = None if mark is None else mark.kwargs.get("settings")
    return settings or {}


def _clocked(request: pytest.FixtureRequest) -> bool:
    mark = request.node.get_closest_marker("magnetar")
    return mark is not None and bool(mark.kwargs.get("clock"))


def _check_scope(scope: str, what: str) -> str:
    if scope not in SCOPES:
        raise pytest.UsageError(f"{what} must be one of {', '.join(SCOPES)}, not {scope!r}")
    return scope

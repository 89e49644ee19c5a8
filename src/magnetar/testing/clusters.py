"""`cluster()` and its results: several real brokers in one process, on shared stores in memory.

Each broker has its own thread, ports and REST interface, and is a `Broker` that a test kills, pauses and starts again.
The stores survive the end of a broker and end with the block. A killed or paused broker keeps its session with the
metadata store until `session_s` has passed; then the other brokers take its topics.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, TypeVar

from magnetar.base.errors import Misuse
from magnetar.base.limits import TESTING_BROKERS_MAX, TESTING_SESSION_S, TESTING_WAIT_S
from magnetar.runtime.system_runtime import RealRuntime
from magnetar.testing.brokers import AsyncBroker, Broker, setting_text
from magnetar.testing.host import BrokerHost

if TYPE_CHECKING:
    from magnetar.broker.embedded import OpenEngines
    from magnetar.broker.embedded_cluster import Stores

B = TypeVar("B", bound=Broker | AsyncBroker)

BUNDLES = 16  # of a namespace: with the default of 4, one broker of three may own all


def cluster(
    brokers: int = 3,
    settings: Mapping[str, object] | None = None,
    *,
    session_s: float = TESTING_SESSION_S,
    **more: object,
) -> ClusterOpening:
    """A cluster of brokers for the duration of a `with` or `async with` block.

    Parameters ---------- brokers
        The number of brokers. Their names are broker-1, broker-2 and so on. settings, more
        Settings of all brokers by their names in Pulsar's broker.conf, as a mapping or as keywords. session_s
        Timeout of a broker's session with the metadata store: the topics of a killed or paused broker move after it.
    """
    if not 1 <= brokers <= TESTING_BROKERS_MAX:
        raise Misuse(f"brokers must be 1 to {TESTING_BROKERS_MAX}", brokers=brokers)
    if not session_s > 0:
        raise Misuse("session_s must be more than 0", session_s=session_s)
    return ClusterOpening(brokers, {**(settings or {}), **more}, session_s)


class MemberHost(BrokerHost):
    """One broker of a cluster."""

    def __init__(self, name: str, stores: Stores, settings: Mapping[str, str]) -> None:
        super().__init__(settings, data=Path(), fast=False)
        self.name = name
        self._stores = stores

    def _engines(self) -> OpenEngines:
        return self._stores.open_node

    def owner_id(self, topic: str) -> Future[str]:
        """The id of the broker that serves the topic; it is acquired first if no broker does."""
        from magnetar.broker.embedded_cluster import owner_id

        return self._submit(lambda: owner_id(self._serving().node, topic))

    def expire_session(self) -> None:
        self._stores.end_session(self._serving().node.metadata.session_id)


class _Members(Generic[B]):
    """What both kinds of clusters share."""

    def __init__(self, hosts: Mapping[str, MemberHost], stores: Stores, brokers: Mapping[str, B]) -> None:
        self._hosts = hosts
        self._stores = stores
        self.brokers = brokers

    def __getitem__(self, name: str) -> B:
        """The broker of this name."""
        if name not in self.brokers:
            raise Misuse(f"no broker has the name {name}: the names are {', '.join(self.brokers)}")
        return self.brokers[name]

    def __len__(self) -> int:
        return len(self.brokers)

    @property
    def names(self) -> list[str]:
        return list(self.brokers)

    @property
    def url(self) -> str:
        """URL for clients with the addresses of all brokers: pulsar://127.0.0.1:PORT,127.0.0.1:PORT."""
        return _joined([host.url for host in self._hosts.values()])

    @property
    def admin_url(self) -> str:
        """URL of the REST interface with the addresses of all brokers."""
        return _joined([host.admin_url for host in self._hosts.values()])

    @contextmanager
    def metadata_outage(self) -> Iterator[None]:
        """Makes the metadata store unavailable to all brokers: they serve the topics that they own. In an outage longer
        than `session_s` the brokers lose their sessions.
        """
        self._stores.set_available(False)
        try:
            yield
        finally:
            self._stores.set_available(True)

    def expire_session(self, name: str) -> None:
        """Ends the session of a broker with the metadata store, as a store does that has not heard from it for too
        long. The broker gets another session and takes its topics back.
        """
        self[name]  # checks the name
        self._hosts[name].expire_session()

    def _asked(self) -> MemberHost:
        for host in self._hosts.values():
            if host.running:
                return host
        raise Misuse("no broker of the cluster is running: start one first")

    def _named(self, broker_id: str) -> str:
        return next(name for name, host in self._hosts.items() if host.admin_url == f"http://{broker_id}")


class Cluster(_Members[Broker]):
    """A running cluster. `cluster["broker-2"]` is a `Broker`: kill it, pause it, start it again."""

    def owner(self, topic: str) -> str:
        """The name of the broker that serves the topic."""
        return self._named(self._asked().owner_id(topic).result(TESTING_WAIT_S))


class AsyncCluster(_Members[AsyncBroker]):
    """A `Cluster` for `async with`; methods that wait are awaited."""

    async def owner(self, topic: str) -> str:
        return self._named(await asyncio.wrap_future(self._asked().owner_id(topic)))


class ClusterOpening:
    """The result of `cluster()`: enter it once, with `with` or with `async with`."""

    def __init__(self, brokers: int, settings: Mapping[str, object], session_s: float) -> None:
        self._settings = {key: setting_text(value) for key, value in settings.items()}
        self._session_s = session_s
        self._names = [f"broker-{number}" for number in range(1, brokers + 1)]
        self._hosts: dict[str, MemberHost] = {}

    def __enter__(self) -> Cluster:
        stores = self._make_hosts()
        try:
            for host in self._hosts.values():
                host.start().result(TESTING_WAIT_S)
        except BaseException:
            self._close()
            raise
        return Cluster(self._hosts, stores, {name: Broker(host) for name, host in self._hosts.items()})

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    async def __aenter__(self) -> AsyncCluster:
        stores = self._make_hosts()
        try:
            for host in self._hosts.values():
                await asyncio.wrap_future(host.start())
        except BaseException:
            self._close()
            raise
        return AsyncCluster(self._hosts, stores, {name: AsyncBroker(host) for name, host in self._hosts.items()})

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            for host in self._hosts.values():
                if host.held:
                    await asyncio.wrap_future(host.stop())
        finally:
            self._close()

    def _make_hosts(self) -> Stores:
        defaults = {
            "brokerClientAuthenticationParameters": f"token:{_secret()}",
            "defaultNumberOfNamespaceBundles": str(BUNDLES),
        }
        first = BrokerHost.checked({**defaults, **self._settings})
        from magnetar.broker.embedded_cluster import Stores

        stores = Stores(self._session_s, threading.Lock)
        self._hosts = {name: MemberHost(name, stores, first) for name in self._names}
        return stores

    def _close(self) -> None:
        """Stops all brokers, also if one of them fails."""
        errors: list[BaseException] = []
        for host in self._hosts.values():
            try:
                host.close()
            except Exception as error:  # the other brokers must end as well
                errors.append(error)
        if errors:
            raise errors[0]


def _secret() -> str:
    """The state that the brokers share, for calls between them."""
    runtime = RealRuntime()
    try:
        return f"{runtime.rng('cluster-secret').getrandbits(128):032x}"
    finally:
        runtime.close()


def _joined(urls: list[str]) -> str:
    scheme = urls[0].partition("://")[0]
    return f"{scheme}://" + ",".join(url.partition("://")[2] for url in urls)

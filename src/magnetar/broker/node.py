"""The node: all components of a broker, with their ordered start and stop.

The start order is metadata, ledgers, cluster, topics, listener, so every component is ready when the first client
connects. The stop is the reverse: no new connections, topics unloaded with everything durable, then the engines. A
storage failure stops the node with an error that says what to do: acknowledged messages are safe, and nothing more is
acknowledged.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from magnetar.base.errors import (
    Conflict,
    MagnetarError,
    NotAuthorized,
    SessionLost,
    StorageFull,
    Throttled,
    Unavailable,
    Unknown,
)
from magnetar.base.limits import (
    BACKLOG_BLOCKS_BYTES_MAX,
    CURSORS_ACKS_BYTES_MAX,
    KEEPALIVE_TURN_CONNECTIONS_MAX,
    KEPT_BYTES_MAX,
    MAINTENANCE_S,
    OBJECTS_BYTES_MAX,
    ORPHAN_SUSPECT_S,
    ORPHAN_SWEEP_S,
    PARTIAL_FRAMES_BYTES_MAX,
    REQUESTS_MAX,
    SUBSCRIPTIONS_STATE_BYTES_MAX,
    UNREAD_BYTES_MAX,
)
from magnetar.base.names import NamespaceName, TopicName
from magnetar.broker.connection.attach_rate import AttachRate
from magnetar.broker.connection.connection import Connection
from magnetar.broker.connection.disconnect import Leaving
from magnetar.broker.connection.handshake_limits import HandshakeLimiter
from magnetar.broker.connection.limits import ConnectionLimits, RefusalLog, reason, refusal
from magnetar.broker.connection.partial_frames import PartialFrames
from magnetar.broker.connection.property_limits import Account
from magnetar.broker.connection.unread import Unread
from magnetar.broker.connection.write_batch import WriteBatch
from magnetar.broker.handlers.topic_pattern import Pattern, compiled
from magnetar.broker.memory_shares import connections_max, loaded_topics_max, share_of
from magnetar.broker.metrics.counters import BrokerMetrics
from magnetar.broker.peers.handlers import PeerHandlers, PeerRouter
from magnetar.broker.segments.contents import SegmentContents
from magnetar.broker.segments.segments import Segments
from magnetar.broker.segments.sizes import SegmentSizes
from magnetar.broker.staged.stages import sinks_of
from magnetar.broker.store_limits import check_copies, size_limits
from magnetar.broker.topics.ownership import BundleOwnership, topic_of_record
from magnetar.broker.topics.retention_clock import RetentionClock
from magnetar.broker.topics.retention_sweep import RetentionSweeper
from magnetar.broker.topics.schemas import Schemas
from magnetar.broker.topics.settings import managed_config
from magnetar.broker.topics.topics import Topics
from magnetar.cluster.bootstrap import bootstrap
from magnetar.cluster.bundles import NamespaceBundles
from magnetar.cluster.calls.topic_calls import DropOrphan, Peers, PeerTransport
from magnetar.cluster.clusters import Clusters
from magnetar.cluster.lookup import Connect, Failed, Redirect
from magnetar.cluster.namespaces import Namespaces
from magnetar.cluster.ownership import Broker, Ownership, Urls, advertised
from magnetar.cluster.registration import check_advertised
from magnetar.cluster.tenants import Tenants
from magnetar.cluster.topic_policies import TopicPolicies
from magnetar.cluster.topics import Catalogue
from magnetar.ledger.block_cache import BlockCache
from magnetar.ledger.cursor.flusher import CursorFlusher
from magnetar.ledger.orphans import sweep
from magnetar.ledger.state_account import LoadedAccount, StateAccount
from magnetar.ledger.store import LedgerStore
from magnetar.metadata import paths
from magnetar.metadata.store import MetadataStore
from magnetar.observe.log import get
from magnetar.observe.metrics import Metrics
from magnetar.policy.dynamic import Dynamic
from magnetar.policy.settings import DEFAULT_LAYER, Settings
from magnetar.runtime.runtime import Owner, Runtime
from magnetar.scalable.autoscale.autoscaler import AutoScaler
from magnetar.scalable.service import ScalableTopics
from magnetar.scalable.watch.watches import Watches, following
from magnetar.schema.registry import Registry
from magnetar.security.access import Access, Open

log = get("node")

ORPHAN_SWEEP = "/managed-ledgers"  # the brokers agree by this key on the one that sweeps


@dataclass(frozen=True, slots=True)
class Addresses:
    host: str
    port: int
    http_port: int

    @property
    def url(self) -> str:
        return f"pulsar://{self.host}:{self.port}"

    @property
    def http_url(self) -> str:
        return f"http://{self.host}:{self.http_port}"


class Node:
    """`cluster`: other brokers share the two stores and a secret; locks decide the ownership of bundles. Otherwise this
    is a single broker. `carrier` delivers calls to the owner of a topic; without one they reach only topics of this
    node. `machine_bytes`: the memory that the sums over all connections are a part of; None: enough."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        metadata: MetadataStore,
        ledgers: LedgerStore,
        settings: Settings,
        access: Access | None = None,
        cluster: bool = False,
        carrier: PeerTransport | None = None,
        machine_bytes: int | None = None,
    ) -> None:
        self.runtime = runtime
        self.metadata = metadata
        self.ledgers = ledgers
        self.settings = settings
        self.access: Access = access or Open()
        self.owner = Owner("node", self.task_failed)
        self.clock = RetentionClock(runtime)
        self.registry = Metrics(settings.text("clusterName"))
        self.metrics = BrokerMetrics(self.registry)
        self.clusters = Clusters(metadata)
        self.tenants = Tenants(metadata, self.clusters, settings)
        self.namespaces = Namespaces(metadata, self.tenants, settings)
        self.topic_policies = TopicPolicies(metadata)
        self.bundles = NamespaceBundles(metadata)
        self.catalogue = Catalogue(metadata, self.namespaces, settings, loaded=self._is_loaded)
        self.dynamic = Dynamic(metadata, settings, runtime)
        self.schema_registry = Registry(metadata, runtime)
        self.schemas = Schemas(self.schema_registry)
        self.flusher = CursorFlusher(runtime)
        self.topics = Topics(self)
        self.served = BundleOwnership(self, cluster=cluster)
        self.handlers = PeerHandlers(self)
        self.peers = Peers(PeerRouter(self) if carrier is None else carrier)
        self.segments = Segments(self)
        self.scalable = ScalableTopics(
            metadata,
            runtime,
            self.peers,
            self.served,
            settings,
            contents=SegmentContents(self),
            in_use=self.segments.in_use,
            failed=self.task_failed,
        )
        self.watches = Watches(following(self.scalable.watch))
        self.sizes = SegmentSizes(self)
        self.autoscaler = AutoScaler(self)
        self.visits = RetentionSweeper(self)
        self.sinks, self.staging = sinks_of(self)
        self.message_bytes_max, self.frame_bytes_max = size_limits(settings, ledgers)
        check_copies(settings, ledgers)
        share = partial(share_of, machine_bytes=machine_bytes)
        self.managed_config = replace(
            managed_config(settings),
            blocks=BlockCache(share(BACKLOG_BLOCKS_BYTES_MAX)),
            state=StateAccount(share(SUBSCRIPTIONS_STATE_BYTES_MAX)),
            acks=StateAccount(share(CURSORS_ACKS_BYTES_MAX)),
            loaded=LoadedAccount(loaded_topics_max(machine_bytes)),
            claim=cluster,
            may_roll=lambda: self.ownership.steady,
            clock=self.clock,
        )
        self.addresses = Addresses("localhost", 0, 0)
        self.ready = False
        self.failure: MagnetarError | None = None
        self.blocked: MagnetarError | None = None  # why no producer may attach: the disk is almost full
        self.stopping = asyncio.Event()
        self.pending_bytes = 0
        self._machine_bytes = machine_bytes
        self.pending_bytes_max = self._publish_buffer_bytes()
        self.lookups = 0  # being answered
        self.paused: dict[Connection, None] = {}
        self.turn = WriteBatch()
        self.attaching = AttachRate()
        self.connections: dict[Connection, None] = {}
        self.kept: Account = Account(share(KEPT_BYTES_MAX), share(OBJECTS_BYTES_MAX))
        self.handshakes, self.partial_frames = HandshakeLimiter(), PartialFrames(share(PARTIAL_FRAMES_BYTES_MAX))
        self.unread = Unread(share(UNREAD_BYTES_MAX))
        self.requests = 0  # in progress, of all connections
        self.requests_max = share(REQUESTS_MAX)
        self.refusals = RefusalLog()
        # The owner of the process adds what its open files allow.
        self.sockets_max = ConnectionLimits(memory=connections_max(machine_bytes))
        self._server: asyncio.Server | None = None
        self._stops: list[Callable[[], None]] = []
        self._suspects: frozenset[int] = frozenset()
        self._sweep_at = 0.0
        self._generations = 0
        self._names = 0
        self._life = ""
        self._patterns_max = settings.number("subscriptionPatternMaxLength")

    # Life

    async def start(self, host: str, port: int, *, host_shown: str) -> None:
        if self.served.cluster:
            check_advertised(host_shown, host)
        self._life = await self._begin_life()
        await self.dynamic.start()
        self._stops += [
            self.settings.on_change(self._settings_changed),
            self.namespaces.on_change(self._policies_changed),
            self.topic_policies.on_change(self._policies_changed),
        ]
        self.runtime.spawn(self.owner, self._keep_alive())
        self.runtime.spawn(self.owner, self._maintain())
        self.flusher.start(self.owner)
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._accept, host, port, start_serving=False)
        except OSError as error:
            raise Conflict(
                f"cannot listen on {host}:{port}: {reason(error)}; "
                "choose another port (--port, brokerServicePort) or address (--bind-address, bindAddress)"
            ) from error
        self.addresses = Addresses(host_shown, self._server.sockets[0].getsockname()[1], self.addresses.http_port)
        self.ownership.me = self._broker()
        self.served.watch()
        self.scalable.start()
        self.autoscaler.start()
        self.sinks.start()

    async def serve(self, http_port: int) -> None:
        """Called when the REST server listens, so the addresses of the cluster are known: creates missing records and
        accepts clients."""
        assert self._server is not None
        self.addresses = Addresses(self.addresses.host, self.addresses.port, http_port)
        urls = {"serviceUrl": self.addresses.http_url, "brokerServiceUrl": self.addresses.url}
        cluster = self.settings.text("clusterName")
        await bootstrap(self.clusters, self.tenants, self.namespaces, cluster=cluster, data=urls)
        await self.ownership.start(self._broker())
        await self._server.start_serving()
        if None in self._server.sockets:  # uvloop reports so that another process listened between our bind and now
            raise Conflict(f"cannot listen on port {self.addresses.port}: another process uses it")
        self.ready = True
        log.info("broker_started", url=self.addresses.url)

    async def _begin_life(self) -> str:
        """Chooses a name that no earlier start of a broker on this store had; generated producer names start with
        it."""
        stat = await self.metadata.put(paths.PRODUCER_NAMES + "/life-", b"", sequential=True)
        return f"{self.settings.text('clusterName')}-{int(stat.path.rsplit('-', 1)[1])}"

    def _broker(self) -> Broker:
        here = self.addresses
        listeners = advertised(self.settings.text("advertisedListeners"))
        return Broker(f"{here.host}:{here.http_port}", Urls(broker=here.url, http=here.http_url), listeners)

    def _is_loaded(self, name: TopicName) -> bool:
        return name.canonical in self.topics.loaded

    async def stop(self) -> None:
        """Stops in order: clients are disconnected, requests in flight are answered, everything is durable."""
        self.ready = False
        if self._server is not None:
            self._server.close()
        await self.ownership.leave()
        await self.sinks.close()
        await self.staging.close()
        await self.scalable.close()
        await self.topics.close()
        await self.served.close()  # nothing of ours is loaded any more: others may have it
        for connection in list(self.connections):
            connection.close()
            await connection.owner.close()
        await self.owner.close()
        await self.flusher.close()
        for stop in self._stops:
            stop()
        await self.dynamic.close()
        for room in (self.catalogue, self.bundles, self.namespaces, self.topic_policies, self.tenants, self.clusters):
            room.close()
        self.schema_registry.close()
        try:
            await self.ledgers.close()
        except (Unavailable, Unknown) as error:  # the store does not respond: the next owner recovers the ledgers
            log.warning("ledger_close_failed", error=str(error))
        finally:
            await self.metadata.close()
        log.info("broker_stopped")

    def sockets(self) -> list[Any]:
        """The sockets of the listener and of every client."""
        sockets = list(self._server.sockets) if self._server is not None else []
        return sockets + [connection.socket for connection in self.connections if connection.socket is not None]

    def cut(self) -> None:
        """Closes the port and all connections without notice, as the end of a process does."""
        self.ready = False
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.cut()

    def fail(self, error: MagnetarError) -> None:
        """The storage failed: logs the next step for the operator and stops in order."""
        if self.failure is not None:
            return
        self.failure = error
        self.ready = False
        what = "free space on the disk" if isinstance(error, StorageFull) else "check the disk and its file system"
        log.error(
            "storage_failed", error=str(error), do=f"{what}, then restart the broker; acknowledged messages are safe"
        )
        self.stopping.set()

    def end(self, error: SessionLost) -> None:
        """The broker may not go on without the metadata store: logs the next step and stops in order."""
        if self.failure is not None:
            return
        self.failure = error
        self.ready = False
        log.error("broker_ended", error=str(error), do="check the metadata store, then start the broker again")
        self.stopping.set()

    def task_failed(self, owner: str, error: BaseException) -> None:
        log.crashed("task_failed", error, owner=owner)
        self.metrics.task_failures.value += 1

    # Connections

    def _accept(self) -> Connection:
        self._generations += 1
        return Connection(self, self._generations)

    def connection_opened(self, connection: Connection) -> None:
        self.connections[connection] = None
        self.metrics.connections_opened.value += 1
        self.handshakes.add(connection)
        if why := refusal(self.connections, connection.address, self.sockets_max, self.settings):
            self.refusals.refused(connection.peer, why)
            connection.abort_unsaid()

    def connection_closed(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self.paused.pop(connection, None)
        self.metrics.connections_closed.value += 1
        for watcher in connection.watchers.values():
            watcher.close()
        leaving = Leaving(connection)
        connection.forget()
        leaving.go()
        if not self.owner.closed:
            self.runtime.spawn(self.owner, connection.owner.close())

    def unknown_command(self, connection: Connection) -> None:
        """Ignores and counts the command: a newer client may send commands that this broker does not know."""
        self.metrics.unknown_commands.value += 1
        log.once("unknown_command_received", client=connection.client_version)

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(self.settings.number("keepAliveIntervalSeconds"))
            for number, connection in enumerate(list(self.connections), 1):
                connection.tick()
                if not number % KEEPALIVE_TURN_CONNECTIONS_MAX:
                    await asyncio.sleep(0)

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(MAINTENANCE_S)
            self.refusals.round()
            self.clock.now_ms()
            try:
                await self.topics.maintain()
                await self.visits.round()
                await self.handlers.holds.expiry.round()
                await self._sweep_now_and_then()
            except Exception as error:  # a bug of ours in one round: the next one is as needed as ever
                self.task_failed("housekeeping", error)
            for connection in list(self.paused):
                connection.resume_if_light()

    async def _sweep_now_and_then(self) -> None:
        """Removes ledgers without a record, which a crash leaves: after the start, and periodically. One broker of a
        cluster lists the ledgers."""
        now = self.runtime.monotonic()
        if now < self._sweep_at:
            return
        try:
            if not await self.ownership.is_chosen(ORPHAN_SWEEP):
                self._suspects = frozenset()
                return
            drop = self._drop_orphan if self.served.cluster else None
            self._suspects = await sweep(self.ledgers, self.metadata, self._suspects, drop=drop)
            self._sweep_at = now + (ORPHAN_SUSPECT_S if self._suspects else ORPHAN_SWEEP_S)
        except MagnetarError as error:
            log.warning("topic_sweep_failed", error=str(error))
            self._sweep_at = now + ORPHAN_SUSPECT_S

    async def _drop_orphan(self, path: str, ledger: int) -> None:
        """Asks the owner of the topic, because it alone may write the record."""
        name = topic_of_record(path)
        try:
            if name is not None:
                await self.peers.owner(name).ask(DropOrphan(op="orphan", path=path, ledger=ledger))
        except (Unavailable, Unknown):
            raise  # each further call to an owner that does not answer would take as long: the sweep is repeated later
        except MagnetarError as error:
            log.info("orphan_kept", ledger=ledger, path=path, error=str(error))

    # What handlers ask

    def allow(self, principal: str | None, action: str, resource: str) -> None:
        if not self.access.allowed(principal, action, resource):
            raise NotAuthorized(f"{principal or 'anonymous'} may not {action} {resource}")

    def producer_name(self) -> str:
        """A producer name that is unique over all starts of this broker."""
        self._names += 1
        return f"{self._life}-{self._names}"

    def consumer_name(self, requested: str) -> str:
        """Stock pattern and list consumers send no name. Without a generated one they would share all points of the
        ring (SC-C4)."""
        if requested:
            return requested
        return f"{self.runtime.rng('consumer-names').getrandbits(40):010x}"

    @asynccontextmanager
    async def one_lookup(self) -> AsyncIterator[None]:
        """Limits the number of concurrent lookups."""
        limit = self.settings.number("maxConcurrentLookupRequest")
        if self.lookups >= limit:
            raise Throttled(f"{limit} lookups are in progress (maxConcurrentLookupRequest): try again")
        self.lookups += 1
        try:
            yield
        finally:
            self.lookups -= 1

    @property
    def ownership(self) -> Ownership:
        return self.served.ownership

    async def lookup(
        self, name: TopicName, listener: str, *, authoritative: bool = False
    ) -> Connect | Redirect | Failed:
        return await self.served.lookup(name, listener, authoritative=authoritative)

    def pattern(self, text: str) -> Pattern | None:
        """The pattern of a subscription; None: the client must match it. Misuse: too long or invalid."""
        return compiled(text, self._patterns_max)

    def _publish_buffer_bytes(self) -> int:
        size = self.settings.number("maxMessagePublishBufferSizeInMB") * 1024 * 1024
        if size < 0:
            return 2**63
        by_default = self.settings.explain("maxMessagePublishBufferSizeInMB").layer == DEFAULT_LAYER
        return share_of(size, self._machine_bytes) if by_default else size

    def _settings_changed(self, keys: frozenset[str]) -> None:
        self.pending_bytes_max = self._publish_buffer_bytes()
        if not self.owner.closed:
            self.runtime.spawn(self.owner, self.topics.configure())

    def _policies_changed(self, namespace: NamespaceName) -> None:
        if not self.owner.closed:
            self.runtime.spawn(self.owner, self._follow(namespace))

    async def _follow(self, namespace: NamespaceName) -> None:
        await self.topics.configure(namespace)
        await self.served.follow(namespace)

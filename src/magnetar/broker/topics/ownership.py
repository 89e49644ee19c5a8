"""The part of the cluster that this node serves: the bundle of a topic, its owner, and the release of a bundle.

Lookups and loads use this module. A single node serves everything and reads no store. In a cluster a topic is loaded
only while the store says that this broker owns its bundle. A bundle that another broker owns is dropped without writing
to the stores, because this broker may not write to them any more. This module trusts fencing for everything in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from magnetar.base.bundles import Bundle
from magnetar.base.errors import InvalidName, MagnetarError, Moved, NotReady, SessionLost, TopicNotFound
from magnetar.base.limits import READ_RETRY_S
from magnetar.base.names import NamespaceName, TopicName
from magnetar.broker.metrics.cluster import CLUSTER_COUNTERS, ClusterCounts, cluster_samples
from magnetar.broker.peers.authentication import check_secret
from magnetar.cluster.lock_ownership import LockOwnership
from magnetar.cluster.lookup import Connect, Failed, Redirect, lookup
from magnetar.cluster.ownership import Broker, Candidate, Ownership, SoleOwnership, Urls
from magnetar.cluster.session_keeper import SessionKeeper
from magnetar.cluster.session_state import SessionPolicy
from magnetar.metadata import paths
from magnetar.metadata.session_times import session_times
from magnetar.metadata.store import Change, Event, Session
from magnetar.observe.log import get
from magnetar.policy.policies import Policies

if TYPE_CHECKING:
    from magnetar.broker.topics.topics import Topics
    from magnetar.cluster.bundles import NamespaceBundles
    from magnetar.cluster.namespaces import Namespaces
    from magnetar.cluster.topics import Catalogue
    from magnetar.metadata.store import MetadataStore
    from magnetar.observe.metrics import Metrics
    from magnetar.policy.settings import Settings
    from magnetar.runtime.runtime import Owner, Runtime

log = get("ownership")

Place = tuple[NamespaceName, Bundle]


class OwnershipNode(Protocol):
    """What BundleOwnership uses of the node."""

    runtime: Runtime
    settings: Settings
    metadata: MetadataStore
    namespaces: Namespaces
    bundles: NamespaceBundles
    catalogue: Catalogue
    topics: Topics
    owner: Owner
    registry: Metrics

    def end(self, error: SessionLost) -> None: ...


class BundleOwnership:
    def __init__(self, node: OwnershipNode, *, cluster: bool) -> None:
        if cluster:
            check_secret(node.settings)
        self.cluster = cluster
        self._node = node
        self.counts = ClusterCounts()
        unregistered = Broker("", Urls())
        self.ownership: Ownership = self._locked(unregistered) if cluster else SoleOwnership(unregistered)
        self._stops: list[Callable[[], None]] = []
        self._verifying: asyncio.Task[None] | None = None

    def _locked(self, me: Broker) -> LockOwnership:
        node, settings = self._node, self._node.settings
        keeper = SessionKeeper(
            node.metadata,
            node.runtime,
            policy=SessionPolicy(settings.text("zookeeperSessionExpiredPolicy")),
            attempts_max=settings.number("metadataStoreSessionReconnectAttempts"),
            ended=node.end,
        )
        node.registry.provide(lambda: cluster_samples(ownership, self.counts), **CLUSTER_COUNTERS)
        ownership = LockOwnership(node.metadata, node.runtime, me, lost=self._lost, keeper=keeper)
        return ownership

    def watch(self) -> None:
        """Events may be missed while other brokers change shared records: loaded topics are updated afterwards."""
        self._stops = [
            self._node.metadata.subscribe(paths.POLICIES, self._heard),
            self._node.metadata.on_session(self._heard_session),
        ]

    async def close(self) -> None:
        for stop in self._stops:
            stop()
        await self.ownership.close()

    # Asking

    async def lookup(self, name: TopicName, listener: str, *, authoritative: bool) -> Connect | Redirect | Failed:
        place = await self.place(name)
        answer = lookup(name, listener, owner=await self.ownership.owner(*place, authoritative=authoritative))
        self.counts.redirects += isinstance(answer, Redirect)
        return answer

    async def place(self, name: TopicName, policies: Policies | None = None) -> Place:
        if policies is None:
            policies = await self._node.namespaces.policies(name.namespace)
        if policies is None:
            raise TopicNotFound(f"Namespace {name.namespace} does not exist: create it, or check the topic's name")
        return name.namespace, await self._node.bundles.find(name, policies)

    async def subscriptions_max(self, name: TopicName) -> int:
        """The maximum of the namespace policies; 0: no limit."""
        policies = await self._node.namespaces.policies(name.namespace)
        return self._node.settings.number("maxSubscriptionsPerTopic", policies)

    async def partitions(self, name: TopicName) -> int:
        """The number of partitions; 0: not partitioned, or the topic does not exist."""
        topic = await self._node.catalogue.partitioned(name)
        return 0 if topic is None else topic.partitions

    async def check(self, name: TopicName, place: Place) -> None:
        """Called before a load. NotReady: stock clients look the topic up again."""
        if not await self.ownership.owns(*place):
            raise NotReady(f"{name} is not served by this broker: look it up again")

    async def claim(self, name: TopicName) -> None:
        """For a caller that can be redirected: acquires the bundle of the topic if it belongs here. Moved: another
        broker owns it. NotReady: try again."""
        if not self.cluster:
            return
        await self._claim(await self.place(name), str(name))

    async def claim_bundle(self, namespace: NamespaceName, bundle: Bundle) -> None:
        """As `claim`, but a bundle without an owner is not acquired."""
        if self.cluster:
            owner = await self.ownership.known(namespace, bundle)
            if owner is not None and owner.id != self.ownership.me.id:
                raise _moved(owner, f"{namespace}/{bundle}")

    async def _claim(self, place: Place, what: str) -> None:
        owner = await self.ownership.owner(*place)
        broker = owner.broker if isinstance(owner, Candidate) else owner
        if broker.id != self.ownership.me.id:
            raise _moved(broker, what)

    async def minds(self, name: TopicName) -> bool:
        """Whether this broker does the periodic work of a topic: one live broker does, loaded or not. NotReady: the
        owner is unknown."""
        if not self.cluster:
            return True
        try:
            return await self.ownership.minds(*await self.place(name))
        except TopicNotFound:  # its namespace was deleted, and its records may be left
            return await self.ownership.is_chosen(str(name))

    async def sweeps(self, path: str) -> bool:
        """Whether this broker owns the bundle of the topic, and so cleans up the ledgers of this record."""
        name = topic_of_record(path)
        try:
            return name is not None and await self.ownership.owns(*await self.place(name))
        except TopicNotFound:
            return False

    # Letting go

    async def unload(self, place: Place) -> None:
        """Closes the topics and makes everything durable; then any broker may acquire the lock, this one included."""
        await self.ownership.release(*place, lambda: self._node.topics.empty(place))

    async def unload_bundle(self, namespace: NamespaceName, bundle: Bundle) -> None:
        """Moved: another broker owns the bundle."""
        if self.cluster:
            await self.claim_bundle(namespace, bundle)
            await self.unload((namespace, bundle))
            return
        policies = await self._node.namespaces.get(namespace)
        for topic in self._of(namespace):
            if await self._node.bundles.find(topic, policies) == bundle:
                await self._node.topics.unload(topic)

    async def unload_namespace(self, namespace: NamespaceName) -> None:
        """Unloads the bundles of this broker."""
        for place in self.ownership.held():
            if place[0] == namespace:
                await self.unload(place)
        for topic in self._of(namespace):
            await self._node.topics.unload(topic)

    def _of(self, namespace: NamespaceName) -> list[TopicName]:
        return [topic.name for topic in self._node.topics.loaded.values() if topic.name.namespace == namespace]

    async def others(self, namespace: NamespaceName) -> list[Broker]:
        """The other brokers that own bundles of a namespace, ordered by id."""
        if not self.cluster:
            return []
        policies = await self._node.namespaces.get(namespace)
        others: dict[str, Broker] = {}
        for bundle in (await self._node.bundles.get(namespace, policies)).all:
            owner = await self.ownership.known(namespace, bundle)
            if owner is not None and owner.id != self.ownership.me.id:
                others[owner.id] = owner
        return [others[broker_id] for broker_id in sorted(others)]

    async def follow(self, namespace: NamespaceName) -> None:
        """Called when the policies changed: unloads the bundles of a namespace that does not exist any more."""
        places = [place for place in self.ownership.held() if place[0] == namespace]
        try:
            if places and not await self._node.namespaces.exists(namespace):
                for place in places:
                    await self.unload(place)
        except MagnetarError as error:
            log.warning("bundle_handover_failed", namespace=str(namespace), error=str(error))

    def _lost(self, namespace: NamespaceName, bundle: Bundle) -> None:
        if not self._node.owner.closed:
            self._node.runtime.spawn(self._node.owner, self._drop((namespace, bundle)))

    async def _drop(self, place: Place) -> None:
        try:
            await self._node.topics.empty(place, lost=True, owner=await self._new_owner(place))
        except MagnetarError as error:
            log.error("bundle_drop_failed", bundle=f"{place[0]}/{place[1]}", error=str(error))

    async def _new_owner(self, place: Place) -> Broker | None:
        """The broker that clients connect to, without a lookup. None: unknown, or its address depends on the client."""
        try:
            owner = await self.ownership.known(*place)
        except MagnetarError:
            return None
        return None if owner is None or owner.listeners or owner.id == self.ownership.me.id else owner

    def _heard(self, event: Event) -> None:
        if event.change is Change.RESYNC:
            self._catch_up()

    def _heard_session(self, session: Session) -> None:
        if session in (Session.RECONNECTED, Session.REESTABLISHED):
            self._catch_up()
        if session is Session.REESTABLISHED and self.cluster and not self._node.owner.closed:
            if self._verifying is not None:
                self._verifying.cancel()
            self._verifying = self._node.runtime.spawn(self._node.owner, self._verify())

    async def _verify(self) -> None:
        """While the session was lost, another broker may have owned one of our bundles and lost it again: our lock is
        then created again without a trace of it. The check is repeated when that broker must have noticed the loss as
        well."""
        for wait_s in (0.0, session_times(self._node.metadata).echo_s):
            await asyncio.sleep(wait_s)
            left = list(self._node.topics.loaded)
            while left:
                left = await self._node.topics.verify(left)
                await asyncio.sleep(READ_RETRY_S if left else 0.0)

    def _catch_up(self) -> None:
        if not self._node.owner.closed:
            self._node.runtime.spawn(self._node.owner, self._node.topics.configure())


def topic_of_record(path: str) -> TopicName | None:
    """The topic of this record, or of this record of a cursor; None: it is another record."""
    for topic_path in (path, path.rpartition("/")[0]):
        try:
            return paths.topic_of(topic_path)
        except InvalidName:
            continue
    return None


def _moved(broker: Broker, what: str) -> Moved:
    words = f"{what} is served by {broker.id}: send the request to that broker"
    return Moved(words, owner=broker.id, http=broker.urls.http or broker.urls.https, resource=what)

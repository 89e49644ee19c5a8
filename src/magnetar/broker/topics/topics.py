"""The topics in memory: loaded at the first request, one load at a time per topic, unloaded when idle or on request.

A topic without clients is a row in the metadata store, not an object. `cluster` decides whether a topic may be created,
and `broker/topics/ownership.py` whether it may be loaded here; this module acts on the decisions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from magnetar.base.errors import Fenced, MagnetarError, NotReady, Refused, Throttled, TopicNotFound
from magnetar.base.limits import OPEN_TRIES_MAX, TOPIC_IDLE_S, UNLOADS_AT_ONCE_MAX
from magnetar.base.names import Domain, NamespaceName, TopicName
from magnetar.broker.handlers.topic_list_watch import TopicLists
from magnetar.broker.metrics.topic_samples import TopicSample, sample
from magnetar.broker.metrics.unloaded_topics import Unloaded
from magnetar.broker.migration.plain_topics import is_guarded
from magnetar.broker.segments.cursors import REGULAR
from magnetar.broker.topics.non_persistent_list import non_persistent_names
from magnetar.broker.topics.settings import topic_settings
from magnetar.cluster.ownership import Broker
from magnetar.cluster.topics import Charge, free
from magnetar.ledger.managed import ManagedLedger
from magnetar.ledger.state_account import LoadedAccount
from magnetar.metadata import paths
from magnetar.observe.log import get
from magnetar.policy.policies import Policies
from magnetar.runtime.runtime import Owner
from magnetar.topic.nonpersistent import NonPersistentTopic
from magnetar.topic.settings import TopicSettings
from magnetar.topic.topic import Topic
from magnetar.topic.write_metrics import Writes

if TYPE_CHECKING:
    from magnetar.broker.node import Node
    from magnetar.broker.topics.ownership import Place

log = get("topics")

AnyTopic = Topic | NonPersistentTopic
T = TypeVar("T")


class Topics:
    def __init__(self, node: Node) -> None:
        self._node = node
        self.loaded: dict[str, AnyTopic] = {}
        self._loading: dict[str, asyncio.Task[AnyTopic]] = {}
        self._closing: dict[str, asyncio.Task[None]] = {}
        self._places: dict[str, Place] = {}  # in a cluster: of all that is loaded or being loaded
        self.closed = False
        self.departed = 0  # topics that have left memory since the start
        self.unloaded = Unloaded()
        self.writes = Writes()  # of topics that have left memory, together
        self._owner = Owner("topics", _ended)
        self.lists = TopicLists(self, self._read_again)

    def __len__(self) -> int:
        return len(self.loaded)

    async def get(self, name: TopicName, *, create: bool, charge: Charge = free) -> AnyTopic:
        """Returns the topic and loads it if necessary. TopicNotFound: it does not exist and may not be created. The
        function `charge` is called before the topic is created, and may refuse."""
        key = name.canonical
        while True:
            topic = self.loaded.get(key)
            if topic is not None and not topic.closed and key not in self._closing:
                return topic
            if self.closed:
                raise NotReady("the broker is stopping: look the topic up again")
            closing = self._closing.get(key)
            if closing is not None:
                await asyncio.wait([closing])
                continue
            loading = self._loading.get(key)
            ours = loading is None
            if loading is None:
                self._check_room()
                loading = self._loading[key] = self._work(self._load(name, create=create, charge=charge))
            await asyncio.wait([loading])
            if ours or loading.cancelled() or not isinstance(loading.exception(), TopicNotFound | Throttled):
                return _result(loading)
            # Another one's load did not find it, and maybe was not allowed to create it, or not now: ask for ourselves.

    def _check_room(self) -> None:
        account = self._count()
        if account.full:
            most = account.topics_max
            log.once("loaded_topics_limit_reached", topics_max=most, do="close unused clients, or add memory")
            # TooManyRequests is final for some stock clients.
            raise Throttled(
                f"this broker has its maximum of {most} topics in memory, or their subscriptions take that memory: "
                "try later",
                wire_code=6,
            )

    def _count(self) -> LoadedAccount:
        """Brings the number of topics in their account up to date, and returns the account."""
        account = self._node.managed_config.loaded
        account.topics = len(self.loaded) + len(self._loading)
        return account

    def _work(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Loading and closing are tasks of the node: they continue if the first caller gives up, and other callers
        share them."""
        return self._node.runtime.spawn(self._owner, work)

    def _read_again(self, work: Coroutine[Any, Any, None]) -> None:
        if self._owner.closed:
            work.close()
        else:
            self._work(work)

    async def _load(self, name: TopicName, *, create: bool, charge: Charge) -> AnyTopic:
        key = name.canonical
        try:
            topic = self.loaded[key] = await self._open(name, create=create, charge=charge)
            self.unloaded.resume(key, topic)
            return topic
        except TopicNotFound:
            self.unloaded.forget(key)
            raise
        finally:
            del self._loading[key]
            self._count()
            if key not in self.loaded:
                self._places.pop(key, None)

    async def _open(self, name: TopicName, *, create: bool, charge: Charge) -> AnyTopic:
        node = self._node
        if name.is_scalable:
            raise Refused(
                f"{name} is a scalable topic: use a client that supports scalable topics",
                topic=str(name),
            )
        admit = node.segments.admit if name.is_segment else partial(node.segments.plains.admit, charge=charge)
        policies = await node.namespaces.policies(name.namespace)
        if policies is None:
            raise TopicNotFound(f"namespace {name.namespace} does not exist: create it, or check the topic's name")
        settings = await self._settings(name, policies)
        if not node.served.cluster:
            await admit(name, create=create)
            return await self._recover(name, policies.buckets, settings)
        place = self._places[name.canonical] = await node.served.place(name, policies)
        for _ in range(OPEN_TRIES_MAX):
            await node.served.check(name, place)
            await admit(name, create=create)
            try:
                return await self._recover(name, policies.buckets, settings)
            except Fenced as error:  # an owner before us wrote once more: it is ours if the bundle still is
                log.info("topic_open_retried", topic=str(name), error=str(error))
        raise NotReady("another broker keeps writing to the topic: look it up again", topic=str(name))

    async def _settings(self, name: TopicName, policies: Policies) -> TopicSettings:
        own = await self._node.topic_policies.of(name)
        return topic_settings(self._node.settings, policies, own, scalable=name.is_segment)

    async def _recover(self, name: TopicName, buckets: int, settings: TopicSettings) -> AnyTopic:
        node = self._node
        if name.domain is Domain.NON_PERSISTENT:
            return NonPersistentTopic(name, runtime=node.runtime, settings=settings)
        managed = await ManagedLedger.open(
            paths.topic(name, buckets),
            ledgers=node.ledgers,
            metadata=node.metadata,
            runtime=node.runtime,
            config=node.managed_config,
            create=not name.is_segment,  # one that was deleted since it was looked for stays deleted (H-E9)
        )
        topic = Topic(
            name,
            managed,
            runtime=node.runtime,
            metadata=node.metadata,
            flusher=node.flusher,
            settings=settings,
            failed=self.failed,
            admission=REGULAR,
        )
        if is_guarded(managed.properties):
            node.segments.plains.guarded(topic)
        topic.kept = partial(node.handlers.holds.floor, topic)
        if name.is_segment:
            topic.sizes = partial(node.sizes.of, topic)
        try:
            return await (node.segments.recover(topic) if name.is_segment else topic.recover())
        except BaseException as error:
            await topic.close(lost=isinstance(error, Fenced))
            raise

    def failed(self, topic: Topic, error: MagnetarError) -> None:
        """The topic cannot store more: unloads it, so that clients find it recovered on this broker or another one."""
        if not self.closed:
            lost = isinstance(error, Fenced)
            if lost:
                self._node.runtime.mark("fence.old_owner", topic=str(topic.name), last=topic.managed.last)
            self._node.runtime.spawn(self._node.owner, self._give_up(topic.name, lost=lost))

    async def _give_up(self, name: TopicName, *, lost: bool) -> None:
        place = self._places.get(name.canonical)
        await self.unload(name, lost=lost)
        if lost and place is not None:
            try:
                await self._node.ownership.owns(*place)  # the broker that fenced this topic may own the whole bundle
            except NotReady:
                pass  # the store reports the loss when it responds again

    async def verify(self, names: Iterable[str]) -> list[str]:
        """Closes topics that another broker has owned since they were opened here; a topic without writes is not fenced
        by itself. Returns the names of topics whose check failed."""
        keys = list(names)
        silent: list[str] = []
        for start in range(0, len(keys), UNLOADS_AT_ONCE_MAX):
            batch = keys[start : start + UNLOADS_AT_ONCE_MAX]
            answers = await asyncio.gather(*(self._is_checked(key) for key in batch))
            silent += [key for key, is_checked in zip(batch, answers, strict=True) if not is_checked]
        return silent

    async def _is_checked(self, key: str) -> bool:
        topic = self.loaded.get(key)
        if not isinstance(topic, Topic):
            return True
        try:
            await topic.managed.check_current()
        except Fenced as error:
            if self.loaded.get(key) is topic:
                self.failed(topic, error)
        except MagnetarError:
            return False
        return True

    async def empty(self, place: Place, *, lost: bool = False, owner: Broker | None = None) -> None:
        """Unloads all topics of a bundle, loading ones included. `lost`: another broker owns it, nothing is written.
        Clients connect to the `owner` if it is known."""
        while keys := [key for key, found in self._places.items() if found == place][:UNLOADS_AT_ONCE_MAX]:
            await asyncio.gather(*(self._empty(key, lost=lost, owner=owner) for key in keys))
        self.unloaded.forget_place(place)

    async def _empty(self, key: str, *, lost: bool, owner: Broker | None = None) -> None:
        loading = self._loading.get(key)
        if loading is not None:
            await asyncio.wait([loading])
        topic = self.loaded.get(key)
        if topic is not None:
            topic.moved_to = ("", "") if owner is None else (owner.urls.broker, owner.urls.broker_tls)
            try:
                await self.unload(topic.name, lost=lost)
            except MagnetarError as error:
                log.error("topic_unload_failed", topic=str(topic.name), error=str(error))

    async def unload(self, name: TopicName, *, lost: bool = False) -> bool:
        """Clients look the topic up again; acknowledged messages are durable. False if it was not loaded. `lost`:
        another broker owns it, nothing is written."""
        key = name.canonical
        topic = self.loaded.get(key)
        if topic is None:
            return False
        closing = self._closing.get(key)
        if closing is None:
            closing = self._closing[key] = self._work(self._close(key, topic, lost=lost))
        await asyncio.wait([closing])
        _result(closing)
        return True

    async def _close(self, key: str, topic: AnyTopic, *, delete: bool = False, lost: bool = False) -> None:
        sample = None
        try:
            if not (delete or lost or self.closed):
                sample = await self._sample(topic)
            await topic.close(lost=lost)
            if delete and isinstance(topic, Topic):
                await topic.managed.delete()
        finally:
            self.loaded.pop(key, None)
            self._count()
            self.departed += 1
            place = self._places.pop(key, None)
            del self._closing[key]
            if isinstance(topic, Topic) and topic.writes is not None:
                self.writes.add(topic.writes)
            if sample is not None:
                self.unloaded.keep(key, sample, place)

    async def _sample(self, topic: AnyTopic) -> TopicSample | None:
        """The sample for metrics after unloading. None: the topic stores nothing, or cannot be measured now."""
        if not isinstance(topic, Topic):
            return None
        try:
            for subscription in topic.subscriptions:
                await subscription.lag.measure()
        except MagnetarError as error:
            log.info("lag_not_measured", topic=str(topic.name), error=str(error))
            return None
        return sample(topic)

    async def delete(self, name: TopicName, *, force: bool) -> None:
        """Deletes the topic with all its data. TopicNotFound; Conflict: it is in use, and `force` is not set."""
        node = self._node
        key = name.canonical
        if name.domain is Domain.NON_PERSISTENT:
            if not await self.unload(name):
                raise TopicNotFound(f"Topic not found {name}")
            return
        if key not in self.loaded and not await node.catalogue.exists(name):
            raise TopicNotFound(f"Topic not found {name}")
        topic = await self.get(name, create=False)
        assert isinstance(topic, Topic)
        if key in self._closing:  # both of us waited for it to load: the other one deletes or unloads it
            await asyncio.shield(self._closing[key])
            await self.delete(name, force=force)
            return
        topic.check_unused(force=force)
        self._closing[key] = closing = self._work(self._close(key, topic, delete=True))
        await asyncio.wait([closing])
        _result(closing)

    async def partitions(self, name: TopicName, *, create: bool, charge: Charge = free) -> int:
        """The number of partitions, 0 for none; created first if automatic creation applies."""
        return await self._node.catalogue.partitions(name, create=create, charge=charge)

    async def names(self, namespace: NamespaceName, domains: tuple[str, ...]) -> list[str]:
        """Every topic of a namespace, partitions by their own names. Non-persistent topics are listed while a broker
        has them loaded, because they have no record."""
        names: list[str] = []
        if "persistent" in domains:
            names += [topic async for topic in self._node.catalogue.topics(namespace)]
        if "non-persistent" in domains:
            names += await non_persistent_names(self._node, namespace)
        return names

    def non_persistent(self, namespace: NamespaceName) -> list[str]:
        """The non-persistent topics of a namespace that this broker has loaded, sorted."""
        return sorted(
            str(topic.name)
            for topic in self.loaded.values()
            if isinstance(topic, NonPersistentTopic) and topic.name.namespace == namespace
        )

    def watch(
        self, namespace: NamespaceName, heard: Callable[[bool, str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Added (True) and removed persistent topics, by name. `missed`: events may be lost, list again."""
        return self._node.catalogue.watch(namespace, heard, missed)

    async def configure(self, namespace: NamespaceName | None = None) -> None:
        """The settings or the policies of a namespace changed: applies them to all affected loaded topics."""
        for topic in list(self.loaded.values()):
            if namespace is None or topic.name.namespace == namespace:
                try:
                    policies = await self._node.namespaces.policies(topic.name.namespace)
                    if policies is None or topic.closed:
                        continue
                    await topic.configure(await self._settings(topic.name, policies))
                except MagnetarError as error:
                    log.warning("topic_settings_update_failed", topic=str(topic.name), error=str(error))

    async def maintain(self) -> None:
        """One round of housekeeping: trimming, deduplication snapshots, unloading of idle topics. Nothing runs while
        the metadata store does not respond, because an unloaded topic could not be loaded again."""
        if not self._node.ownership.steady:
            return
        now = self._node.runtime.monotonic()
        for topic in list(self.loaded.values()):
            if topic.closed or topic.name.canonical in self._closing:
                continue
            try:
                if not topic.idle:
                    topic.idle_since = now
                elif now - topic.idle_since > TOPIC_IDLE_S:
                    await self.unload(topic.name)
                    continue
                if isinstance(topic, Topic):
                    await topic.maintain()
            except MagnetarError as error:
                log.warning("topic_housekeeping_failed", topic=str(topic.name), error=str(error))

    async def close(self) -> None:
        self.closed = True
        while self._loading:
            await asyncio.wait(list(self._loading.values()))
        keys = list(self.loaded)
        for start in range(0, len(keys), UNLOADS_AT_ONCE_MAX):
            await asyncio.gather(*(self._empty(key, lost=False) for key in keys[start : start + UNLOADS_AT_ONCE_MAX]))
        await self._owner.close()


def _result(task: asyncio.Task[T]) -> T:
    """The result of a completed task. The end of the node is NotReady for its callers, not a cancellation."""
    if task.cancelled():
        raise NotReady("the broker is stopping: look the topic up again")
    return task.result()


def _ended(owner: str, error: BaseException) -> None:
    if not isinstance(error, MagnetarError):  # the callers have received those errors
        log.crashed("task_failed", error, owner=owner)

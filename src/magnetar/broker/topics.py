"""The topics in memory: loaded when first asked for, one load at a time each, unloaded when idle, in use, or asked to.

A topic without clients is a row in the metadata store, not an object. Whether one may be created is decided in
`cluster`; this file only acts on the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.base.errors import MagnetarError, NotBuilt, NotReady, TopicNotFound
from magnetar.base.limits import TOPIC_IDLE_S
from magnetar.base.names import Domain, NamespaceName, TopicName
from magnetar.broker.rules import topic_settings
from magnetar.ledger.managed import ManagedLedger
from magnetar.metadata import paths
from magnetar.observe.log import get
from magnetar.topic.nonpersistent import NonPersistentTopic
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.broker.node import Node

log = get("topics")

AnyTopic = Topic | NonPersistentTopic


class Topics:
    def __init__(self, node: Node) -> None:
        self._node = node
        self.loaded: dict[str, AnyTopic] = {}
        self._loading: dict[str, asyncio.Future[AnyTopic]] = {}
        self._closing: dict[str, asyncio.Future[None]] = {}
        self.closed = False

    def __len__(self) -> int:
        return len(self.loaded)

    async def get(self, name: TopicName, *, create: bool) -> AnyTopic:
        """Loaded, being loaded, or loaded now. TopicNotFound where it neither exists nor may be created."""
        key = name.canonical
        while True:
            found = self.loaded.get(key)
            if found is not None and not found.closed and key not in self._closing:
                return found
            if self.closed:
                raise NotReady("the broker is stopping: look the topic up again")
            closing = self._closing.get(key)
            if closing is not None:
                await asyncio.shield(closing)
                continue
            loading = self._loading.get(key)
            if loading is not None:
                return await asyncio.shield(loading)
            return await self._load(name, create=create)

    async def _load(self, name: TopicName, *, create: bool) -> AnyTopic:
        key = name.canonical
        future: asyncio.Future[AnyTopic] = asyncio.get_running_loop().create_future()
        self._loading[key] = future
        try:
            topic = await self._open(name, create=create)
            self.loaded[key] = topic
            future.set_result(topic)
            return topic
        except BaseException as error:
            future.set_exception(
                error if isinstance(error, MagnetarError) else NotReady(f"loading the topic failed: {error!r}")
            )
            future.exception()  # whoever waits gets it; nobody waiting is fine too
            raise
        finally:
            del self._loading[key]

    async def _open(self, name: TopicName, *, create: bool) -> AnyTopic:
        node = self._node
        if name.domain in (Domain.TOPIC, Domain.SEGMENT):
            raise NotBuilt(
                "scalable topics (topic://) are not built in this version of Magnetar: use a persistent:// topic"
            )
        policies = await node.namespaces.policies(name.namespace)
        if policies is None:
            raise TopicNotFound(f"namespace {name.namespace} does not exist: create it, or check the topic's name")
        settings = topic_settings(node.settings, policies)
        await node.catalogue.admit(name, create=create)
        if name.domain is Domain.NON_PERSISTENT:
            return NonPersistentTopic(name, runtime=node.runtime, settings=settings)
        managed = await ManagedLedger.open(
            paths.topic(name, policies.buckets),
            ledgers=node.ledgers,
            metadata=node.metadata,
            runtime=node.runtime,
            config=node.managed_config,
        )
        topic = Topic(
            name,
            managed,
            runtime=node.runtime,
            metadata=node.metadata,
            flusher=node.flusher,
            settings=settings,
            failed=self._failed,
        )
        try:
            return await topic.recover()
        except BaseException:
            await topic.close()
            raise

    def _failed(self, topic: Topic, error: MagnetarError) -> None:
        """Nothing more can be stored in it: unload, so that its clients find it recovered, here or elsewhere."""
        if not self.closed:
            self._node.runtime.spawn(self._node.owner, self.unload(topic.name))

    async def unload(self, name: TopicName) -> bool:
        """Clients look it up again; what was acknowledged is durable. False if it was not loaded."""
        key = name.canonical
        topic = self.loaded.get(key)
        if topic is None:
            return False
        closing = self._closing.get(key)
        if closing is not None:
            await asyncio.shield(closing)
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closing[key] = future
        try:
            await topic.close()
        finally:
            self.loaded.pop(key, None)
            del self._closing[key]
            future.set_result(None)
        return True

    async def delete(self, name: TopicName, *, force: bool) -> None:
        """The topic with everything it holds; TopicNotFound, or Conflict while it is in use and not forced."""
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
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closing[key] = future
        try:
            await topic.close()
            await topic.managed.delete()
            await node.catalogue.deleted(name)
        finally:
            self.loaded.pop(key, None)
            del self._closing[key]
            future.set_result(None)

    async def partitions(self, name: TopicName, *, create: bool) -> int:
        """How many parts the topic has, 0 if it has none; made first where auto-creation says so."""
        return await self._node.catalogue.partitions(name, create=create)

    async def names(self, namespace: NamespaceName, domains: tuple[str, ...]) -> list[str]:
        """Every topic of a namespace, partitions by their own names; non-persistent ones while they are loaded."""
        found: list[str] = []
        if "persistent" in domains:
            found += [topic async for topic in self._node.catalogue.topics(namespace)]
        if "non-persistent" in domains:
            found += sorted(
                str(topic.name)
                for topic in self.loaded.values()
                if isinstance(topic, NonPersistentTopic) and topic.name.namespace == namespace
            )
        return found

    def watch(self, namespace: NamespaceName, heard: Callable[[bool, str], None]) -> Callable[[], None]:
        """Persistent topics coming (True) and going, by name."""
        return self._node.catalogue.watch(namespace, heard)

    async def configure(self, namespace: NamespaceName | None = None) -> None:
        """Settings or a namespace's policies changed: every loaded topic they apply to takes them over."""
        for topic in list(self.loaded.values()):
            if namespace is None or topic.name.namespace == namespace:
                policies = await self._node.namespaces.policies(topic.name.namespace)
                if policies is not None and not topic.closed:
                    await topic.configure(topic_settings(self._node.settings, policies))

    async def maintain(self) -> None:
        """One round of housekeeping: trimming, deduplication snapshots, idle topics out of memory."""
        now = self._node.runtime.monotonic()
        for topic in list(self.loaded.values()):
            if topic.closed or topic.name.canonical in self._closing:
                continue
            if not topic.idle:
                topic.idle_since = now
            elif now - topic.idle_since > TOPIC_IDLE_S:
                await self.unload(topic.name)
                continue
            if isinstance(topic, Topic):
                try:
                    await topic.maintain()
                except MagnetarError as error:
                    log.warning("housekeeping failed", topic=str(topic.name), error=str(error))

    async def close(self) -> None:
        self.closed = True
        for future in list(self._loading.values()):
            await asyncio.wait([future])
        for topic in list(self.loaded.values()):
            try:
                await self.unload(topic.name)
            except MagnetarError as error:
                log.error("unload failed", topic=str(topic.name), error=str(error))

"""The topics of one consumer: partitions and lists of topics, each with its own part, kept up to date.

Partitions that are added later are found (every `discovery_s`) and read from their first message, because all their
messages are newer than the consumer. Parts are attached several at a time; if one fails at the start, all are closed.
`pattern` supplies the matching topics; the receive queue merges the messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from magnetar.base.errors import MagnetarError, Misuse
from magnetar.base.limits import SUBSCRIBES_AT_ONCE_MAX
from magnetar.base.names import topic_name
from magnetar.client.arguments import check_of
from magnetar.client.connection.backoff import persist
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.ack.dead_letters import retry_topic
from magnetar.client.consumer.config import ConsumerConfig, InitialPosition
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.client.message import MessageId
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner

log = get("client.consumer")

MakePart = Callable[[str, ConsumerConfig, int], TopicConsumer]  # topic, configuration, queue size


class TopicConsumers:
    """`by_topic` holds one part for each topic or partition, in the order they were added."""

    def __init__(self, lookup: Lookup, config: ConsumerConfig, make: MakePart) -> None:
        self.by_topic: dict[str, TopicConsumer] = {}
        self._lookup = lookup
        self._asked = config
        self._make = make
        self._counts: dict[str, int] = {}  # topic as named -> number of partitions, 0 for none
        self._owner = Owner("client.parts", self._failed)
        self._changing = asyncio.Lock()
        self.closed = False

    @property
    def topics(self) -> list[str]:
        """As they were named: a partitioned topic counts once."""
        return list(self._counts)

    def of(self, message_id: MessageId) -> TopicConsumer:
        """The part to which an id belongs: the id names its topic, or there is only one part."""
        part = self.by_topic.get(message_id.topic)
        if part is None:
            check_of(message_id, self.by_topic)
        if part is None and len(self.by_topic) == 1:
            part = next(iter(self.by_topic.values()))
        if part is None and len(self._counts) == 1 and message_id.partition >= 0:
            part = self.by_topic.get(f"{next(iter(self._counts))}-partition-{message_id.partition}")
        if part is None:
            raise Misuse(
                "the id does not name one of the consumer's topics: use the message itself", id=str(message_id)
            )
        return part

    async def start(self, topics: Iterable[str], timeout_s: float, *, follow: bool = True) -> None:
        """Attach to the first topics, all or none."""
        try:
            async with self._changing:
                await self._add(topics, timeout_s, later=False)
        except BaseException:
            await self.close()
            raise
        if follow and any(self._counts.values()):
            self._lookup.pool.runtime.spawn(self._owner, self._follow())

    async def change(self, topics: set[str], timeout_s: float) -> None:
        """Consume exactly these topics: new ones from their first message; others are closed."""
        async with self._changing:
            for gone in [topic for topic in self._counts if topic not in topics]:
                await self._remove(gone)
            await self._add(sorted(topics - self._counts.keys()), timeout_s, later=True)

    async def grow(self) -> None:
        """Attach to added partitions, and to those whose attach failed before."""
        async with self._changing:
            for topic, count_before in list(self._counts.items()):
                if count_before:
                    count = await self._partitions(topic, self._lookup.timeout_s)
                    if count > count_before:
                        log.info("partitions_added", topic=topic, partitions=count, before=count_before)
                        self._counts[topic] = count
            partitions = [name for topic, count in self._counts.items() for name in names(topic, count)]
            await self._attach(partitions, self._lookup.timeout_s, later=True)

    async def close(self) -> None:
        self.closed = True
        await self._owner.close()
        parts, self.by_topic = self.by_topic, {}
        await asyncio.gather(*(part.close() for part in parts.values()))

    async def _add(self, topics: Iterable[str], timeout_s: float, *, later: bool) -> None:
        for topic in topics:
            if topic not in self._counts:
                self._counts[topic] = await self._partitions(topic, timeout_s)
        partitions = [name for topic, count in self._counts.items() for name in names(topic, count)]
        await self._attach(partitions, timeout_s, later=later)

    async def _attach(self, topics: list[str], timeout_s: float, *, later: bool) -> None:
        """Attach to those topics that are not attached yet."""
        topics = [topic for topic in topics if topic not in self.by_topic]
        config = replace(self._asked, initial_position=InitialPosition.EARLIEST) if later else self._asked
        total = len(self.by_topic) + len(topics)
        queue_messages = config.queue_of(total)
        if queue_messages == 0 and total > 1:
            raise Misuse("queue_messages of a consumer of several topics must be 1 or more", topics=total)
        turns = asyncio.Semaphore(SUBSCRIBES_AT_ONCE_MAX)
        tasks = [
            self._lookup.pool.runtime.spawn(self._owner, self._open(topic, config, queue_messages, timeout_s, turns))
            for topic in topics
        ]
        try:
            for task in tasks:
                await task
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    async def _open(
        self, topic: str, config: ConsumerConfig, queue_messages: int, timeout_s: float, turns: asyncio.Semaphore
    ) -> None:
        async with turns:
            part = self._make(topic, config, queue_messages)
            await part.open(timeout_s)
            self.by_topic[topic] = part

    async def _remove(self, topic: str) -> None:
        for name in names(topic, self._counts.pop(topic)):
            part = self.by_topic.pop(name, None)
            if part is not None:
                log.info("topic_removed", topic=name)
                await part.close()

    async def _partitions(self, topic: str, timeout_s: float) -> int:
        if topic_name(topic).is_partition:
            return 0
        runtime = self._lookup.pool.runtime
        return await persist(runtime, timeout_s, lambda: self._lookup.partitions(topic), what="partitions")

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._asked.discovery_s)
            try:
                await self.grow()
            except MagnetarError as error:
                log.warning("partition_lookup_failed", why=error, again_s=self._asked.discovery_s)

    def _failed(self, name: str, error: BaseException) -> None:
        if not isinstance(error, MagnetarError):  # callers that wait for the part receive those
            log.crashed("topic_attach_crashed", error)


def names(topic: str, partitions: int) -> list[str]:
    """The full names of the attached topics for one topic."""
    full = str(topic_name(topic))
    return [f"{full}-partition-{index}" for index in range(partitions)] if partitions else [full]


def full_names(named: str | Sequence[str], config: ConsumerConfig) -> list[str]:
    """The topics of a consumer, each once; with `retry` also their retry topics."""
    full = [str(topic_name(topic)) for topic in ([named] if isinstance(named, str) else named)]
    if not full:
        raise Misuse("topics must name at least one topic")
    for topic in full:
        if topic_name(topic).is_scalable:
            raise Misuse(
                "subscribe refuses scalable topics: use stream_consumer, queue_consumer or checkpoint_consumer",
                topic=topic,
            )
    if config.retry:
        full += [str(topic_name(retry_topic(config, topic))) for topic in full]
    return list(dict.fromkeys(full))

"""Keeps one open consumer for each topic of a namespace, as topics come and go.

This is the actor around `namespace/topics`: it watches the namespace, opens and closes topics, and runs the back-off
timers. Its user opens the object for a topic: a stream or a queue topic. It never creates a topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from magnetar.base.errors import MagnetarError, Misuse, TimedOut
from magnetar.base.names import namespace_name
from magnetar.base.public import public
from magnetar.client.arguments import check_text
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.scalable.namespace.topics import (
    CloseTopic,
    Effect,
    Event,
    OpenTopic,
    TimePassed,
    TopicClosed,
    TopicFailed,
    TopicOpened,
    TopicsChanged,
    TopicSet,
)
from magnetar.client.consumer.scalable.namespace.watch import NamespaceWatch
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner

log = get("client.namespace")


@public("magnetar")
@dataclass(frozen=True, slots=True)
class Namespace:
    """The scalable topics of a namespace, `tenant/name`; only those that have all the `properties`."""

    name: str
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_text(self.name, "the name of a namespace")
        namespace_name(self.name)
        properties: object = self.properties
        if not isinstance(properties, Mapping) or not all(
            isinstance(one, str) for pair in properties.items() for one in pair
        ):
            raise Misuse("properties of topics must map text to text", properties=properties)

    def __str__(self) -> str:
        return self.name


class TopicHandle(Protocol):
    """The open object of one topic."""

    async def start(self, timeout_s: float) -> None: ...

    async def close(self) -> None: ...


O = TypeVar("O", bound=TopicHandle)  # noqa: E741
Failed = Callable[[MagnetarError], None]
Make = Callable[[str, bool, Failed], O]  # (topic, whether it is newer than the consumer, callback for a final error)


class NamespaceFollower(Generic[O]):
    """`topics` are the open or opening ones, by name. Topics for which `left_out` is true are not opened."""

    def __init__(
        self,
        lookup: Lookup,
        namespace: Namespace,
        *,
        make: Make[O],
        topics: dict[str, O],
        left_out: Callable[[str], bool] = lambda topic: False,
    ) -> None:
        self.topics = topics
        self.closed = False
        self._lookup = lookup
        self._runtime = lookup.pool.runtime
        self._namespace = namespace
        self._make = make
        self._left_out = left_out
        self._roster = TopicSet()
        self._members = NamespaceWatch(lookup, namespace.name, namespace.properties, changed=self._changed)
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._owner = Owner(f"topics of {namespace}", self._crashed)

    @property
    def failing(self) -> dict[str, MagnetarError]:
        """Topics that could not be opened, and their errors: they are retried."""
        return self._roster.failing

    async def start(self, timeout_s: float) -> None:
        """Wait until every present topic was opened, or refused once."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._members.start(timeout_s)
                self._changed((), ())  # an empty namespace causes no callback
                await self._begun
        except TimeoutError:
            waiting = sorted(topic for topic, one in self._roster.topics.items() if not one.tried)
            raise TimedOut(
                f"not attached to every topic within {timeout_s:g} s",
                namespace=str(self._namespace),
                waiting=", ".join(waiting[:3]),
            ) from None

    async def close(self) -> None:
        """Close everything, without acknowledging anything."""
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        await self._owner.close()
        topics = list(self.topics.values())
        await asyncio.gather(*(one.close() for one in topics), self._members.close())
        self.topics.clear()

    def _changed(self, gone: Sequence[str], come: Sequence[str]) -> None:
        self._handle(TopicsChanged(tuple(gone), tuple(topic for topic in come if not self._left_out(topic))))

    def _handle(self, event: Event) -> None:
        if self.closed:
            return
        self._apply(self._roster.handle(event, self._runtime.monotonic()))
        if self._roster.begun and not self._begun.done():
            self._begun.set_result(None)
        self._rearm()

    def _apply(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case OpenTopic(topic=topic, newer=newer):
                    handle = self._make(topic, newer, self._failing(topic))
                    self.topics[topic] = handle
                    self._runtime.spawn(self._owner, self._start(topic, handle))
                case CloseTopic(topic=topic):
                    self._runtime.spawn(self._owner, self._close(topic))

    def _failing(self, topic: str) -> Failed:
        def failed(error: MagnetarError) -> None:
            log.warning("topic_consumer_ended", topic=topic, why=error)
            self._handle(TopicFailed(topic, error))

        return failed

    async def _start(self, topic: str, handle: O) -> None:
        try:
            await handle.start(self._lookup.timeout_s)
        except MagnetarError as error:
            if self.topics.get(topic) is handle:
                log.warning("topic_open_failed", topic=topic, why=error)
                self._handle(TopicFailed(topic, error))
            return
        if self.topics.get(topic) is handle:
            self._handle(TopicOpened(topic))

    async def _close(self, topic: str) -> None:
        handle = self.topics.get(topic)
        if handle is not None:
            await handle.close()
            if self.topics.get(topic) is handle:
                del self.topics[topic]
        self._handle(TopicClosed(topic))

    # Time

    def _rearm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self._roster.due
        if due is not None and not self.closed:
            wait_s = max(0.0, due - self._runtime.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._handle, TimePassed())

    def _crashed(self, name: str, error: BaseException) -> None:
        log.crashed("namespace_consumer_crashed", error, name=name)

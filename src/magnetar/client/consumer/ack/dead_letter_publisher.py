"""Moves messages to a dead-letter or retry topic: publishes them there first, and acknowledges them here afterwards.

If the publication fails or its outcome is unknown, the message is not acknowledged and is redelivered. It may then be
twice in that topic, but is never lost. Producers are created on first use and kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from magnetar.base.errors import MagnetarError, Misuse
from magnetar.base.limits import DEAD_LETTERS_MAX, DOOMED_MAX
from magnetar.client.consumer.ack.dead_letters import (
    UNDECODABLE,
    buried,
    dead_letter_topic,
    origin,
    retried,
    retry_topic,
)
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.client.counters import Counters
from magnetar.client.message import Message, MessageId
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime

log = get("client.dead_letter_publisher")

_Key = tuple[str, int, int, int]  # topic, ledger, entry, batch index


class RetryProducers(Protocol):
    """The methods of a producer of bytes that this module uses."""

    async def send(
        self,
        value: bytes,
        *,
        key: str | bytes | None = None,
        ordering_key: bytes | None = None,
        properties: Mapping[str, str] | None = None,
        event_time_ms: int | None = None,
        deliver_at_ms: int | None = None,
    ) -> MessageId: ...

    async def close(self) -> None: ...


MakeOutbox = Callable[[str, str], Awaitable[RetryProducers]]  # topic, initial subscription ("" for none)


class DeadLetterPublisher:
    """The publisher of one consumer. `bury` takes messages that the application refused too often. A message that the
    application never received or still processes is not buried, however often its batch was delivered (H-K4)."""

    def __init__(self, config: ConsumerConfig, runtime: Runtime, make: MakeOutbox, counters: Counters) -> None:
        letters = config.dead_letters
        self.redeliveries_max = letters.redeliveries_max if letters is not None else 1 << 31
        self._asked = config
        self._initial_subscription = letters.initial_subscription if letters is not None else ""
        self._runtime = runtime
        self._make = make
        self._counters = counters
        self._outboxes: dict[str, RetryProducers] = {}
        self._making = asyncio.Lock()
        self._owner = Owner("client.deadletter", self._failed)
        self._under_way = 0
        self._doomed: dict[_Key, str] = {}  # messages that could not be buried, and why they must be

    def take_doomed(self, messages: list[Message[Any]]) -> list[Message[Any]]:
        """Bury the messages whose earlier burial failed, and return the others."""
        left = messages
        for message in messages if self._doomed else ():
            why = self._doomed.pop(_key(message), None)
            if why is not None:
                left = [one for one in left if one is not message]
                self.bury([message], why)
        return left

    def bury(self, messages: list[Message[Any]], why: str = "") -> None:
        """Publish messages that the application refused too often, or that have another reason `why`, such as a value
        that does not fit the schema."""
        if self._under_way >= DEAD_LETTERS_MAX:
            for message in messages:
                self._try_again(message, why)
            return
        self._under_way += len(messages)
        self._runtime.spawn(self._owner, self._bury(messages, why))

    async def put_off(self, message: Message[Any], delay_s: float, properties: Mapping[str, str] | None) -> None:
        """Publish to the retry topic for a later delivery, or to the dead-letter topic after too many deferrals."""
        if delay_s < 0:
            raise Misuse("delay_s must not be negative", delay_s=delay_s)
        times, copied = retried(message, self._asked.subscription, round(delay_s * 1000), properties)
        if times > self.redeliveries_max:
            await self._send(dead_letter_topic(self._asked, origin(message, _home(message))), message, copied)
            self._counters.dead_letters += 1
        else:
            due = self._runtime.wall() + round(delay_s * 1000)
            again = retry_topic(self._asked, _home(message) or origin(message))  # the one that its consumer reads
            await self._send(again, message, copied, deliver_at_ms=due)
        _done(message)

    async def close(self) -> None:
        await self._owner.close()
        outboxes, self._outboxes = self._outboxes, {}
        for outbox in outboxes.values():
            await outbox.close()

    async def _bury(self, messages: list[Message[Any]], why: str) -> None:
        reasons = {UNDECODABLE: why} if why else {}
        for message in messages:
            try:
                topic = dead_letter_topic(self._asked, origin(message, _home(message)))
                await self._send(topic, message, {**buried(message, self._asked.subscription), **reasons})
            except MagnetarError as error:
                log.warning("dead_letter_publish_failed", id=message.id, topic=message.topic, why=error)
                self._try_again(message, why)
            else:
                self._counters.dead_letters += 1
                _done(message)
            finally:
                self._under_way -= 1

    async def _send(
        self, topic: str, message: Message[Any], properties: dict[str, str], *, deliver_at_ms: int | None = None
    ) -> None:
        outbox = await self._outbox(topic)
        head = message._head
        key_is_bytes = head.partition_key_b64_encoded or not isinstance(head.partition_key, str)  # may be invalid UTF-8
        await outbox.send(
            message.data,
            key=message.key_bytes if key_is_bytes else message.key,
            ordering_key=message.ordering_key,
            properties=properties,
            event_time_ms=message.event_time_ms or None,
            deliver_at_ms=deliver_at_ms,
        )

    async def _outbox(self, topic: str) -> RetryProducers:
        async with self._making:
            outbox = self._outboxes.get(topic)
            if outbox is None:
                outbox = self._outboxes[topic] = await self._make(topic, self._initial_subscription)
            return outbox

    def _try_again(self, message: Message[Any], why: str) -> None:
        while len(self._doomed) >= DOOMED_MAX:  # a dropped one is delivered again, and refused again
            del self._doomed[next(iter(self._doomed))]
        self._doomed[_key(message)] = why
        _again(message)

    def _failed(self, name: str, error: BaseException) -> None:
        log.crashed("dead_letter_publisher_crashed", error)


def _key(message: Message[Any]) -> _Key:
    delivery = message._delivery
    return delivery.topic, delivery.ledger, delivery.entry, message.batch_index


def _home(message: Message[Any]) -> str:
    """The topic for which its consumer was created; "" if the consumer has several, and the message names its topic."""
    part: TopicConsumer | None = message._delivery.source
    return "" if part is None else part.home


def _part(message: Message[Any]) -> TopicConsumer | None:
    """The consumer that acknowledges it now: its segment may have been refused and attached again since delivery."""
    part: TopicConsumer | None = message._delivery.source
    if part is not None and part.closed and not part.consumer.closed:
        part = part.consumer._source_of(message)
    return part


def _done(message: Message[Any]) -> None:
    part = _part(message)
    if part is not None:
        part.ack(message)
        part.acker.added()


def _again(message: Message[Any]) -> None:
    part = _part(message)
    if part is not None:
        delivery = message._delivery
        part.redelivery.nack((delivery.ledger, delivery.entry), delivery.redelivery_count)

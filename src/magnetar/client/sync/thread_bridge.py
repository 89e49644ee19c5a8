"""Moves messages and acknowledgements of a blocking consumer between its threads and the loop, in groups."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Generic, Protocol, TypeVar

from magnetar.base.limits import CLIENT_MAILBOX_MESSAGES_MAX, CLIENT_TAKEN_MESSAGES_MAX
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.receive.waiters import ReceiveWaiters
from magnetar.client.consumer.topic_consumer import TopicConsumer
from magnetar.client.counters import Counters
from magnetar.client.message import Message
from magnetar.runtime.portal import Portal
from magnetar.runtime.thread_queues import LoopInbox, ThreadOutbox

T = TypeVar("T")


class MessageSource(Protocol):
    """The asyncio consumer that supplies the messages and takes acknowledgements, one by one."""

    asked: ConsumerConfig
    receiver: ReceiveWaiters
    counters: Counters
    closed: bool

    def receive(self, timeout_s: float | None = None) -> Coroutine[Any, Any, Message[Any]]: ...

    def _source_of(self, message: Message[Any]) -> TopicConsumer | None:
        """The consumer that acknowledges it now; None: the message is done or will be redelivered."""
        ...


class ThreadBridge(Generic[T]):
    """The transfers between threads and the loop for one consumer. Messages are put on the shelf for a waiting thread;
    acknowledgements wait in the mailbox for a part of the time that their group may wait.
    """

    def __init__(self, where: Portal, consumer: MessageSource) -> None:
        config = consumer.asked
        self._portal = where
        self._consumer = consumer
        # The timeout of a message starts when it is handed out, and a topic without a queue requests one message for
        # each waiting receive: for both the loop hands out messages one by one.
        self._one_by_one = config.ack_timeout_s > 0 or config.queue_messages == 0
        self.shelf: ThreadOutbox[Message[T]] = ThreadOutbox(where, self._ready)
        self.acks: LoopInbox[Message[T]] = LoopInbox(
            where,
            self.gather,
            CLIENT_MAILBOX_MESSAGES_MAX,
            patience_s=0.0 if self._one_by_one else config.ack_group_s / 2,
            hurry_items=config.ack_group_max,
        )
        self._used = False  # whether a thread ever took a message
        consumer.receiver.serve(self)

    def fetch(self, timeout_s: float | None) -> None:
        """Put available messages on the shelf, or raise the error. If another thread took them, wait at the shelf: a
        wait on the loop would not see messages put there.
        """
        self._used = True
        if self._one_by_one or (not self._portal.call(self._stock) and self._consumer.receiver.ended):
            self._portal.run(lambda: self._one(timeout_s))

    def take_batch(self, messages_max: int, bytes_max: int) -> list[Message[T]]:
        """The messages on the shelf until one of the bounds is reached."""
        messages: list[Message[T]] = []
        size = 0
        while len(messages) < messages_max and size < bytes_max and (taken := self.shelf.take_some(1)):
            messages += taken
            size += len(taken[0].data)
        return messages

    # On the loop

    def arrived(self) -> None:
        """Put the first message on the shelf without a waiting thread: the next thread need not wake the loop."""
        if self._one_by_one:
            return
        if self.shelf.waiting:
            self._used = True
            self._stock()
            if self._consumer.receiver.ready:
                self.shelf.wake_all()
        elif self._used and not self.shelf.items:
            self._stock(1)

    def gather(self) -> None:
        consumer = self._consumer
        if consumer.closed:
            return
        take = self.acks.take
        while (message := take()) is not None:
            part: TopicConsumer | None = message._delivery.source
            if part is not None and part.closed:
                part = consumer._source_of(message)
            consumer.counters.acks += 1
            if part is not None and part.ack(message):
                part.acker.added()

    def put_away(self, source: Any, positions: set[tuple[int, int]] | None) -> None:
        for message in self.shelf.take_some(len(self.shelf)):
            delivery = message._delivery
            if delivery.source is not source or not (
                positions is None or (delivery.ledger, delivery.entry) in positions
            ):
                self.shelf.put([message])

    def _ready(self) -> bool:
        return self._one_by_one or self._consumer.receiver.ready

    def _stock(self, messages_max: int = CLIENT_TAKEN_MESSAGES_MAX) -> int:
        if len(self.acks):
            self.gather()  # deliver them now, which saves another wake-up of the loop
        messages = self._consumer.receiver.take_some(messages_max)
        if messages:
            self.shelf.put(messages)
        return len(messages)

    async def _one(self, timeout_s: float | None) -> None:
        """A taken message is put on the shelf immediately: a thread that is interrupted loses no message."""
        self.shelf.put([await self._consumer.receive(timeout_s)])

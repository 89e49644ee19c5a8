"""How messages and acknowledgements of a blocking consumer cross between its threads and the loop: many at a time."""

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


class Received(Protocol):
    """The asyncio consumer that messages are taken from and acknowledged to, one by one."""

    asked: ConsumerConfig
    receiver: ReceiveWaiters
    counters: Counters
    closed: bool

    def receive(self, timeout_s: float | None = None) -> Coroutine[Any, Any, Message[Any]]: ...

    def _source_of(self, message: Message[Any]) -> TopicConsumer | None:
        """Where it is acknowledged now; None: nowhere, it is done or comes again."""
        ...


class ThreadBridge(Generic[T]):
    """What crosses between threads and the loop for one consumer. Messages are put on the shelf when a thread waits for
    them, or asks; acknowledgements wait in the mailbox for part of the time their group may wait anyway.
    """

    def __init__(self, where: Portal, made: Received) -> None:
        asked = made.asked
        self._portal = where
        self._consumer = made
        # The clock of a message with a deadline starts when it is handed out, and a lane without a queue asks for one
        # message for each waiting receive: both one by one, by the loop.
        self._one_by_one = asked.ack_timeout_s > 0 or asked.queue_messages == 0
        self.shelf: ThreadOutbox[Message[T]] = ThreadOutbox(where, self._ready)
        self.acks: LoopInbox[Message[T]] = LoopInbox(
            where,
            self.gather,
            CLIENT_MAILBOX_MESSAGES_MAX,
            patience_s=0.0 if self._one_by_one else asked.ack_group_s / 2,
            hurry_items=asked.ack_group_max,
        )
        self._used = False  # has a thread ever taken a message?
        made.receiver.serve(self)

    def fetch(self, timeout_s: float | None) -> None:
        """What the loop has is put on the shelf, or its error raised. If another thread got it meanwhile this one waits
        at the shelf too: on the loop it would not see what is put there.
        """
        self._used = True
        if self._one_by_one or (not self._portal.call(self._stock) and self._consumer.receiver.ended):
            self._portal.run(lambda: self._one(timeout_s))

    def take_batch(self, messages_max: int, bytes_max: int) -> list[Message[T]]:
        """What is on the shelf until one of the bounds is reached."""
        found: list[Message[T]] = []
        size = 0
        while len(found) < messages_max and size < bytes_max and (taken := self.shelf.take_some(1)):
            found += taken
            size += len(taken[0].data)
        return found

    # On the loop

    def arrived(self) -> None:
        """The first message is put on the shelf although nobody waits: whoever comes for it need not wake the loop."""
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
        made = self._consumer
        if made.closed:
            return
        take = self.acks.take
        while (message := take()) is not None:
            part: TopicConsumer | None = message._delivery.source
            if part is not None and part.closed:
                part = made._source_of(message)
            made.counters.acks += 1
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
            self.gather()  # on the way: it saves waking the loop for them
        found = self._consumer.receiver.take_some(messages_max)
        if found:
            self.shelf.put(found)
        return len(found)

    async def _one(self, timeout_s: float | None) -> None:
        """What is taken is put at once: a thread interrupted while it waits loses nothing."""
        self.shelf.put([await self._consumer.receive(timeout_s)])

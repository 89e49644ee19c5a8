"""The blocking consumer, reader and table view: messages and acknowledgements cross between threads many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from magnetar.base.errors import Closed, Misuse, Sealed
from magnetar.client.consumer import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, BATCH_WAIT_S
from magnetar.client.consumer import Consumer as AsyncConsumer
from magnetar.client.message import Message, MessageId
from magnetar.client.reader import Reader as AsyncReader
from magnetar.client.receive import NoMessage
from magnetar.client.sync.crossing import Crossing
from magnetar.client.sync.face import Face
from magnetar.client.sync.taking import Taking
from magnetar.client.tableview import TableView as AsyncTableView
from magnetar.runtime.portal import Portal

T = TypeVar("T")


class Consumer(Face[AsyncConsumer[Any]], Generic[T]):
    """Made by `Client.subscribe`. `for message in consumer` ends when the topic was terminated and everything in it is
    acknowledged, or when the consumer is closed. Messages cross from the loop thread many at a time; those that were
    not handed out yet count as received.
    """

    _crossing: Crossing[T]

    def renewed(self, where: Portal, made: AsyncConsumer[Any]) -> None:
        self._crossing = Crossing(where, made)

    # Receiving

    def receive(self, timeout_s: float | None = None) -> Message[T]:
        """The next message; `NoMessage` if none came in time."""
        self.core()
        crossing = self._crossing
        try:
            return crossing.shelf.items.popleft()
        except IndexError:
            message = crossing.shelf.take(timeout_s, crossing.fetch)
        if message is None:
            raise NoMessage("no message came in time", timeout_s=timeout_s)
        return message

    def receive_batch(
        self,
        messages_max: int = BATCH_MESSAGES_MAX,
        *,
        bytes_max: int = BATCH_BYTES_MAX,
        timeout_s: float = BATCH_WAIT_S,
    ) -> list[Message[T]]:
        """As many messages as come until one of the bounds is reached; none at all if the time is over first."""
        self.core()
        found = self._crossing.shelf.take_some(messages_max)
        if found:
            return found
        return self._run(lambda made: made.receive_batch(messages_max, bytes_max=bytes_max, timeout_s=timeout_s))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message[T]:
        try:
            return self.receive()
        except (Sealed, Closed):
            raise StopIteration from None

    # Acknowledging

    def acknowledge(self, message: Message[T] | MessageId, *, confirm: bool = False) -> None:
        """This one is done. With `confirm` the broker's receipt is awaited."""
        made = self.core()[1]
        if confirm or not isinstance(message, Message):
            self._run(lambda _: self._after_acks(made.acknowledge(message, confirm=confirm)))
            return
        if message._delivery.source.consumer is not made:
            raise Misuse("the message was received by another consumer", topic=message.topic)
        if made.closed:
            raise Closed("the consumer is closed", subscription=made.subscription)
        self._crossing.acks.put(message)

    def acknowledge_cumulative(self, message: Message[T] | MessageId, *, confirm: bool = False) -> None:
        """This one and all before it, of the same topic or partition. EXCLUSIVE and FAILOVER only."""
        self._run(lambda made: self._after_acks(made.acknowledge_cumulative(message, confirm=confirm)))

    def negative_acknowledge(self, message: Message[T] | MessageId) -> None:
        """Not done: deliver it again, after a while."""
        self._run(lambda made: self._after_acks(made.negative_acknowledge(message)))

    def reconsume_later(
        self, message: Message[T], delay_s: float, *, properties: Mapping[str, str] | None = None
    ) -> None:
        self._run(lambda made: made.reconsume_later(message, delay_s, properties=properties))

    def redeliver_unacknowledged(self) -> None:
        self._run(lambda made: self._after_acks(made.redeliver_unacknowledged()))

    # Moving about

    def seek(self, to: MessageId | int | datetime, *, inclusive: bool = False) -> None:
        self._run(lambda made: self._after_acks(made.seek(to, inclusive=inclusive)))

    def last_message_id(self) -> MessageId:
        return self._run(lambda made: made.last_message_id())

    def last_message_ids(self) -> list[MessageId]:
        return self._run(lambda made: made.last_message_ids())

    def has_message_available(self) -> bool:
        self.core()
        return bool(self._crossing.shelf) or self._run(lambda made: made.has_message_available())

    def pause(self) -> None:
        where, made = self.core()
        where.call(made.pause)

    def resume(self) -> None:
        where, made = self.core()
        where.call(made.resume)

    # What it is

    @property
    def subscription(self) -> str:
        return self.core()[1].subscription

    @property
    def topics(self) -> list[str]:
        return self.core()[1].topics

    @property
    def partitions(self) -> list[str]:
        return self.core()[1].partitions

    @property
    def connected(self) -> bool:
        return self.core()[1].connected

    @property
    def is_active(self) -> bool:
        return self.core()[1].is_active

    @property
    def reached_end(self) -> bool:
        return self.core()[1].reached_end

    @property
    def queued(self) -> int:
        return self.core()[1].queued + len(self._crossing.shelf)

    @property
    def closed(self) -> bool:
        return self.core()[1].closed

    # Life

    def unsubscribe(self, *, force: bool = False) -> None:
        self._run(lambda made: self._after_acks(made.unsubscribe(force=force)))

    def close(self) -> None:
        """Send the acknowledgements that wait, and leave."""
        self._run(lambda made: self._after_acks(made.close()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _after_acks(self, call: Any) -> Any:
        self._crossing.gather()
        return await call


class Reader(Taking[AsyncReader[Any], T], Generic[T]):
    """Made by `Client.create_reader`. `for message in reader` reads and then waits for more."""

    def has_message_available(self) -> bool:
        """Is there anything behind what was read last?"""
        self.core()
        return bool(self._shelf) or self._run(lambda made: made.has_message_available())

    def seek(self, to: MessageId | int | datetime, *, inclusive: bool = False) -> None:
        self._run(lambda made: made.seek(to, inclusive=inclusive))
        self._shelf.items.clear()

    def last_message_ids(self) -> list[MessageId]:
        return self._run(lambda made: made.last_message_ids())

    @property
    def topics(self) -> list[str]:
        return self.core()[1].topics

    @property
    def closed(self) -> bool:
        return self.core()[1].closed


class TableView(Face[AsyncTableView[Any]], Mapping[str, T], Generic[T]):
    """Made by `Client.create_table_view`. Reads as a mapping from key to value; it changes while you look."""

    def __getitem__(self, key: str) -> T:
        value: T = self.core()[1][key]
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(list(self.core()[1]))

    def __len__(self) -> int:
        return len(self.core()[1])

    def for_each(self, heard: Callable[[str, T], None]) -> None:
        self.core()[1].for_each(heard)

    def listen(self, heard: Callable[[str, T | None], None]) -> None:
        """Called on the loop thread, where it must not block."""
        where, made = self.core()
        where.call(lambda: made.listen(heard))

    def for_each_and_listen(self, heard: Callable[[str, T | None], None]) -> None:
        where, made = self.core()
        where.call(lambda: made.for_each_and_listen(heard))

    def close(self) -> None:
        self._run(lambda made: made.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

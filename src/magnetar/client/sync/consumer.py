"""The blocking consumer, reader and table view: messages and acknowledgements cross between threads in groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from magnetar.base.public import public
from magnetar.client.consumer.consumer import Consumer as AsyncConsumer
from magnetar.client.consumer.reader import Reader as AsyncReader
from magnetar.client.consumer.table_view import TableView as AsyncTableView
from magnetar.client.lag import Lag
from magnetar.client.message import Message, MessageId
from magnetar.client.sync.acking_consumer import AckingConsumer
from magnetar.client.sync.proxy import BlockingProxy
from magnetar.client.sync.pulling_consumer import PullingConsumer

T = TypeVar("T")


@public("magnetar")
class Consumer(AckingConsumer[AsyncConsumer[Any], T], Generic[T]):
    """Created by `Client.subscribe`. `for message in consumer` ends when the topic was terminated and all its messages
    are acknowledged, or when the consumer is closed. Messages cross from the loop thread in groups; those that were not
    handed out yet count as received.
    """

    def acknowledge_cumulative(self, message: Message[T] | MessageId, *, confirm: bool = False) -> None:
        """Acknowledge a message and all before it, of the same topic or partition. EXCLUSIVE and FAILOVER only."""
        self._run(lambda consumer: self._after_acks(consumer.acknowledge_cumulative(message, confirm=confirm)))

    # Positions

    def seek(self, to: MessageId | int | datetime, *, inclusive: bool = False) -> None:
        self._run(lambda consumer: self._after_acks(consumer.seek(to, inclusive=inclusive)))

    def last_message_id(self) -> MessageId:
        return self._run(lambda consumer: consumer.last_message_id())

    def last_message_ids(self) -> list[MessageId]:
        return self._run(lambda consumer: consumer.last_message_ids())

    def has_message_available(self) -> bool:
        self._core()
        return bool(self._crossing.shelf) or self._run(lambda consumer: consumer.has_message_available())

    # Properties

    @property
    def topics(self) -> list[str]:
        return self._core()[1].topics

    @property
    def partitions(self) -> list[str]:
        return self._core()[1].partitions

    @property
    def is_active(self) -> bool:
        return self._core()[1].is_active

    @property
    def reached_end(self) -> bool:
        return self._core()[1].reached_end

    # Lifecycle

    def lag(self) -> Lag:
        """The backlog of the subscription over all its consumers: the unacknowledged messages, their bytes, and the
        publish time and age of the oldest."""
        lag: Lag = self._run(lambda consumer: self._after_acks(consumer.lag()))
        return lag

    def unsubscribe(self, *, force: bool = False) -> None:
        self._run(lambda consumer: self._after_acks(consumer.unsubscribe(force=force)))


@public("magnetar")
class Reader(PullingConsumer[AsyncReader[Any], T], Generic[T]):
    """Created by `Client.create_reader`. `for message in reader` reads, and waits for new messages at the end."""

    def has_message_available(self) -> bool:
        """Whether there is a message after the last one read."""
        self._core()
        return bool(self._shelf) or self._run(lambda reader: reader.has_message_available())

    def seek(self, to: MessageId | int | datetime, *, inclusive: bool = False) -> None:
        self._run(lambda reader: reader.seek(to, inclusive=inclusive))
        self._shelf.items.clear()

    def last_message_ids(self) -> list[MessageId]:
        return self._run(lambda reader: reader.last_message_ids())

    def lag(self) -> Lag:
        """The number of messages that the broker keeps for this reader, their bytes, and the age of the oldest."""
        return self._run(lambda reader: reader.lag())

    @property
    def topics(self) -> list[str]:
        return self._core()[1].topics

    @property
    def closed(self) -> bool:
        return self._core()[1].closed


@public("magnetar")
class TableView(BlockingProxy[AsyncTableView[Any]], Mapping[str, T], Generic[T]):
    """Created by `Client.create_table_view`. A mapping from key to value that changes with its topic."""

    def __getitem__(self, key: str) -> T:
        value: T = self._core()[1][key]
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._core()[1]))

    def __len__(self) -> int:
        return len(self._core()[1])

    def for_each(self, heard: Callable[[str, T], None]) -> None:
        self._core()[1].for_each(heard)

    def listen(self, heard: Callable[[str, T | None], None]) -> None:
        """Call `heard` for every later change, on the loop thread, where it must not block."""
        where, view = self._core()
        where.call(lambda: view.listen(heard))

    def for_each_and_listen(self, heard: Callable[[str, T | None], None]) -> None:
        where, view = self._core()
        where.call(lambda: view.for_each_and_listen(heard))

    def close(self) -> None:
        self._run(lambda view: view.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

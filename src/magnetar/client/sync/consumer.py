"""The blocking consumer, reader and table view: messages and acknowledgements cross between threads many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from magnetar.client.consumer import Consumer as AsyncConsumer
from magnetar.client.message import Message, MessageId
from magnetar.client.reader import Reader as AsyncReader
from magnetar.client.sync.acking import Acking
from magnetar.client.sync.face import Face
from magnetar.client.sync.taking import Taking
from magnetar.client.tableview import TableView as AsyncTableView

T = TypeVar("T")


class Consumer(Acking[AsyncConsumer[Any], T], Generic[T]):
    """Made by `Client.subscribe`. `for message in consumer` ends when the topic was terminated and everything in it is
    acknowledged, or when the consumer is closed. Messages cross from the loop thread many at a time; those that were
    not handed out yet count as received.
    """

    def acknowledge_cumulative(self, message: Message[T] | MessageId, *, confirm: bool = False) -> None:
        """This one and all before it, of the same topic or partition. EXCLUSIVE and FAILOVER only."""
        self._run(lambda made: self._after_acks(made.acknowledge_cumulative(message, confirm=confirm)))

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

    # What it is

    @property
    def topics(self) -> list[str]:
        return self.core()[1].topics

    @property
    def partitions(self) -> list[str]:
        return self.core()[1].partitions

    @property
    def is_active(self) -> bool:
        return self.core()[1].is_active

    @property
    def reached_end(self) -> bool:
        return self.core()[1].reached_end

    # Life

    def unsubscribe(self, *, force: bool = False) -> None:
        self._run(lambda made: self._after_acks(made.unsubscribe(force=force)))


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

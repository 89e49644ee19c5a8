"""A table of the newest value of every key of a topic, kept up to date while it is open.

It uses a reader from the first message on, compacted if the topic is. It is ready when it has read every message that
was in the topic at the start; then it follows the topic. Messages without a key are ignored; an empty or null value
removes its key. The table keeps only the newest value of each key.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from magnetar.base.public import public
from magnetar.client.connection.lookup import Lookup
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.reader import Reader
from magnetar.client.message import Message
from magnetar.client.schema import Schema
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner

log = get("client.table_view")

T = TypeVar("T")


@public("magnetar.aio")
class TableView(Mapping[str, T], Generic[T]):
    """Created by `Client.create_table_view`. A mapping from key to value; lookups cost no request."""

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        config: ConsumerConfig,
        *,
        schema: Schema[T],
        closed: Callable[[Any], None] | None = None,
    ) -> None:
        self._reader: Reader[T] = Reader(lookup, topic, config, schema=schema)
        self._runtime = lookup.pool.runtime
        self._forget = closed
        self._values: dict[str, T] = {}
        self._listeners: list[Callable[[str, T | None], None]] = []
        self._owner = Owner(f"table view {topic}", self._failed)
        self.error: BaseException | None = None  # the error that stopped it

    def __eq__(self, other: object) -> bool:
        return self is other  # a view that follows its topic is not a value

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"<magnetar.aio.TableView {self._described()}>"

    def _described(self) -> str:
        return f"{self._reader._described()}, {len(self._values)} keys"

    def __getitem__(self, key: str) -> T:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def keys(self) -> KeysView[str]:
        return self._values.keys()

    def values(self) -> ValuesView[T]:
        return self._values.values()

    def items(self) -> ItemsView[str, T]:
        return self._values.items()

    def for_each(self, heard: Callable[[str, T], None]) -> None:
        """Call `heard` for every present key."""
        for key, value in list(self._values.items()):
            heard(key, value)

    def listen(self, heard: Callable[[str, T | None], None]) -> None:
        """Call `heard` for every later change; None means a removed key."""
        self._listeners.append(heard)

    def for_each_and_listen(self, heard: Callable[[str, T | None], None]) -> None:
        """Call `heard` for every present key and every later change, without a gap."""
        self.for_each(heard)
        self.listen(heard)

    async def _refresh(self) -> None:
        """Read until the table contains every present message. Only before it follows the topic."""
        while await self._reader.has_message_available():
            self._apply(await self._reader.receive())

    async def _start(self) -> None:
        await self._reader._start()
        try:
            await self._refresh()
        except BaseException:
            await self._reader.close()
            raise
        self._runtime.spawn(self._owner, self._follow())

    async def close(self) -> None:
        await self._owner.close()
        await self._reader.close()
        if self._forget is not None:
            self._forget(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _follow(self) -> None:
        async for message in self._reader:
            self._apply(message)

    def _apply(self, message: Message[T]) -> None:
        key = message.key
        if key is None:
            return
        value: T | None = None
        if message.data and not message.is_null:
            try:
                value = self._values[key] = message.value
            except Exception as error:  # of any type from the schema: one bad message does not end the table
                log.warning("value_decode_failed", topic=message.topic, id=message.id, why=error)
                return
        else:
            self._values.pop(key, None)
        for heard in self._listeners:
            try:
                heard(key, value)
            except Exception as error:  # from the listener; the table continues
                log.crashed("listener_crashed", error, key=key)

    def _failed(self, name: str, error: BaseException) -> None:
        self.error = error
        log.crashed("table_view_crashed", error)

"""The shared part of the blocking reader and stream consumer: a waiting thread fetches messages from the loop thread in
groups. They count as received from then on.
"""

from __future__ import annotations

from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from magnetar.base.errors import Closed, Sealed
from magnetar.base.limits import CLIENT_TAKEN_MESSAGES_MAX
from magnetar.client.consumer.base import BATCH_MESSAGES_MAX, BATCH_WAIT_S
from magnetar.client.consumer.receive.waiters import NoMessage, waited
from magnetar.client.message import Message
from magnetar.client.sync.proxy import BlockingProxy
from magnetar.runtime.portal import Portal
from magnetar.runtime.thread_queues import PullOutbox


class PullSource(Protocol):
    """The asyncio object that supplies the messages."""

    def receive(self, timeout_s: float | None = None) -> Coroutine[Any, Any, Message[Any]]: ...

    def receive_batch(
        self, messages_max: int = ..., *, timeout_s: float = ...
    ) -> Coroutine[Any, Any, list[Message[Any]]]: ...

    def close(self) -> Coroutine[Any, Any, None]: ...

    @property
    def connected(self) -> bool: ...


C = TypeVar("C", bound=PullSource)
T = TypeVar("T")


class PullingConsumer(BlockingProxy[C], Generic[C, T]):
    _shelf: PullOutbox[Message[T]]

    def _renewed(self, where: Portal, consumer: C) -> None:
        self._shelf = PullOutbox(where)

    def receive(self, timeout_s: float | None = None) -> Message[T]:
        """The next message; `NoMessage` if none arrives in time."""
        self._core()
        shelf = self._shelf
        message = waited(
            timeout_s,
            lambda: shelf.take(timeout_s, lambda left_s: self._run(lambda consumer: self._fetch(consumer, left_s))),
        )
        if message is None:
            raise NoMessage("no message arrived in time", timeout_s=timeout_s)
        return message

    def receive_batch(
        self, messages_max: int = BATCH_MESSAGES_MAX, *, timeout_s: float = BATCH_WAIT_S
    ) -> list[Message[T]]:
        self._core()
        messages = self._shelf.take_some(messages_max)
        return messages or self._run(lambda consumer: consumer.receive_batch(messages_max, timeout_s=timeout_s))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message[T]:
        try:
            return self.receive()
        except (Sealed, Closed):
            raise StopIteration from None

    @property
    def connected(self) -> bool:
        return self._core()[1].connected

    def close(self) -> None:
        """Send the waiting acknowledgements and close."""
        self._run(lambda consumer: consumer.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _fetch(self, consumer: C, timeout_s: float | None) -> None:
        messages = await consumer.receive_batch(CLIENT_TAKEN_MESSAGES_MAX, timeout_s=0.0)
        if not messages:
            self._shelf.put([await consumer.receive(timeout_s)])
            messages = await consumer.receive_batch(CLIENT_TAKEN_MESSAGES_MAX, timeout_s=0.0)
        self._shelf.put(messages)

"""The shared part of blocking consumers that acknowledge messages one by one: of plain topics, and of queues.

Messages and acknowledgements cross between threads and the loop in groups (`thread_bridge`); messages that were not
handed out yet count as received. Subclasses add the topics or segments and further methods.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from magnetar.base.errors import Closed, Misuse, Sealed
from magnetar.client.consumer.base import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, BATCH_WAIT_S
from magnetar.client.consumer.receive.waiters import NoMessage, waited
from magnetar.client.message import Message, MessageId
from magnetar.client.sync.proxy import BlockingProxy
from magnetar.client.sync.thread_bridge import MessageSource, ThreadBridge
from magnetar.runtime.portal import Portal


class AckSource(MessageSource, Protocol):
    """The asyncio consumer."""

    def receive_batch(
        self, messages_max: int = ..., *, bytes_max: int = ..., timeout_s: float = ...
    ) -> Coroutine[Any, Any, list[Message[Any]]]: ...

    def acknowledge(self, message: Message[Any] | MessageId, *, confirm: bool = ...) -> Coroutine[Any, Any, None]: ...

    def negative_acknowledge(self, message: Message[Any] | MessageId) -> Coroutine[Any, Any, None]: ...

    def reconsume_later(
        self, message: Message[Any], delay_s: float, *, properties: Mapping[str, str] | None = ...
    ) -> Coroutine[Any, Any, None]: ...

    def redeliver_unacknowledged(self) -> Coroutine[Any, Any, None]: ...

    def close(self) -> Coroutine[Any, Any, None]: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    @property
    def subscription(self) -> str: ...

    @property
    def connected(self) -> bool: ...

    @property
    def queued(self) -> int: ...


C = TypeVar("C", bound=AckSource)
T = TypeVar("T")


class AckingConsumer(BlockingProxy[C], Generic[C, T]):
    _crossing: ThreadBridge[T]

    def _renewed(self, where: Portal, consumer: C) -> None:
        self._crossing = ThreadBridge(where, consumer)

    # Receiving

    def receive(self, timeout_s: float | None = None) -> Message[T]:
        """The next message; `NoMessage` if none arrives in time."""
        self._core()
        crossing = self._crossing
        try:
            return crossing.shelf.items.popleft()
        except IndexError:
            message = waited(timeout_s, lambda: crossing.shelf.take(timeout_s, crossing.fetch))
        if message is None:
            raise NoMessage("no message arrived in time", timeout_s=timeout_s)
        return message

    def receive_batch(
        self,
        messages_max: int = BATCH_MESSAGES_MAX,
        *,
        bytes_max: int = BATCH_BYTES_MAX,
        timeout_s: float = BATCH_WAIT_S,
    ) -> list[Message[T]]:
        """Messages until one of the bounds is reached; an empty list if none arrives in time."""
        self._core()
        messages = self._crossing.take_batch(messages_max, bytes_max)
        if messages:
            return messages
        return self._run(
            lambda consumer: consumer.receive_batch(messages_max, bytes_max=bytes_max, timeout_s=timeout_s)
        )

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message[T]:
        try:
            return self.receive()
        except (Sealed, Closed):
            raise StopIteration from None

    # Acknowledging

    def acknowledge(self, message: Message[T] | MessageId, *, confirm: bool = False) -> None:
        """Acknowledge one message. `confirm` awaits the broker's reply."""
        consumer = self._core()[1]
        if confirm or not isinstance(message, Message):
            self._run(lambda _: self._after_acks(consumer.acknowledge(message, confirm=confirm)))
            return
        if message._delivery.source.consumer is not consumer:
            raise Misuse("the message was received by another consumer: acknowledge it there", topic=message.topic)
        if consumer.closed:
            raise Closed("the consumer is closed", subscription=consumer.subscription)
        self._crossing.acks.put(message)

    def negative_acknowledge(self, message: Message[T] | MessageId) -> None:
        """Request redelivery, after the delay of `nack`."""
        self._run(lambda consumer: self._after_acks(consumer.negative_acknowledge(message)))

    def reconsume_later(
        self, message: Message[T], delay_s: float, *, properties: Mapping[str, str] | None = None
    ) -> None:
        """Defer a message through the retry topic. Requires `retry=True`."""
        self._run(lambda consumer: consumer.reconsume_later(message, delay_s, properties=properties))

    def redeliver_unacknowledged(self) -> None:
        self._run(lambda consumer: self._after_acks(consumer.redeliver_unacknowledged()))

    def pause(self) -> None:
        where, consumer = self._core()
        where.call(consumer.pause)

    def resume(self) -> None:
        where, consumer = self._core()
        where.call(consumer.resume)

    # Properties

    @property
    def subscription(self) -> str:
        return self._core()[1].subscription

    @property
    def connected(self) -> bool:
        return self._core()[1].connected

    @property
    def queued(self) -> int:
        return self._core()[1].queued + len(self._crossing.shelf)

    @property
    def closed(self) -> bool:
        return self._core()[1].closed

    # Lifecycle

    def close(self) -> None:
        """Send the waiting acknowledgements and close."""
        self._run(lambda consumer: self._after_acks(consumer.close()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _after_acks(self, call: Any) -> Any:
        self._crossing.gather()
        return await call

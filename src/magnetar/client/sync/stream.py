"""The blocking stream consumer: messages cross from the loop thread many at a time and count as received from then on.

So they keep their turn among all that was received, and an acknowledgement of a later one covers them: threads of one
consumer that acknowledge must agree on what is done.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from magnetar.base.errors import Closed
from magnetar.base.limits import CLIENT_TAKEN_MESSAGES_MAX
from magnetar.client.consumer import BATCH_MESSAGES_MAX, BATCH_WAIT_S
from magnetar.client.counters import Counters
from magnetar.client.message import Message, MessageId
from magnetar.client.receive import NoMessage
from magnetar.client.stream import StreamConsumer as AsyncStreamConsumer
from magnetar.client.sync.face import Face
from magnetar.runtime.mailbox import PulledShelf
from magnetar.runtime.portal import Portal

T = TypeVar("T")


class StreamConsumer(Face[AsyncStreamConsumer[Any]], Generic[T]):
    """Made by `Client.stream_consumer`. `for message in consumer` ends when the consumer is closed."""

    _shelf: PulledShelf[Message[T]]

    def renewed(self, where: Portal, made: AsyncStreamConsumer[Any]) -> None:
        self._shelf = PulledShelf(where)

    def receive(self, timeout_s: float | None = None) -> Message[T]:
        """The next message; `NoMessage` if none came in time."""
        self.core()
        message = self._shelf.take(timeout_s, lambda left_s: self._run(lambda made: self._fetch(made, left_s)))
        if message is None:
            raise NoMessage("no message came in time", timeout_s=timeout_s)
        return message

    def receive_batch(
        self, messages_max: int = BATCH_MESSAGES_MAX, *, timeout_s: float = BATCH_WAIT_S
    ) -> list[Message[T]]:
        self.core()
        found = self._shelf.take_some(messages_max)
        return found or self._run(lambda made: made.receive_batch(messages_max, timeout_s=timeout_s))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message[T]:
        try:
            return self.receive()
        except Closed:
            raise StopIteration from None

    def acknowledge_cumulative(self, message: Message[T] | MessageId, *, confirm: bool = False) -> None:
        """This one and everything that was received before it, of whatever segment. With `confirm` the brokers'
        receipts are awaited.
        """
        self._run(lambda made: made.acknowledge_cumulative(message, confirm=confirm))

    @property
    def topic(self) -> str:
        return self.core()[1].topic

    @property
    def subscription(self) -> str:
        return self.core()[1].subscription

    @property
    def name(self) -> str:
        return self.core()[1].name

    @property
    def segments(self) -> list[int]:
        """The segments it reads at this moment."""
        return self.core()[1].segments

    @property
    def connected(self) -> bool:
        return self.core()[1].connected

    @property
    def queued(self) -> int:
        return self.core()[1].queued + len(self._shelf)

    @property
    def unacknowledged(self) -> int:
        return self.core()[1].unacknowledged

    @property
    def counters(self) -> Counters:
        return self.core()[1].counters

    @property
    def closed(self) -> bool:
        return self.core()[1].closed

    def close(self) -> None:
        """Send the acknowledgements that wait, and leave."""
        self._run(lambda made: made.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _fetch(self, made: AsyncStreamConsumer[Any], timeout_s: float | None) -> None:
        found = await made.receive_batch(CLIENT_TAKEN_MESSAGES_MAX, timeout_s=0.0)
        if not found:
            self._shelf.put([await made.receive(timeout_s)])
            found = await made.receive_batch(CLIENT_TAKEN_MESSAGES_MAX, timeout_s=0.0)
        self._shelf.put(found)

"""Traffic for the order check: keyed producers, stream consumers that join and leave, and reshapes under load.

It works with any cluster that the client supports, and only through the client; the caller supplies the reshape
function. `ordering` judges the result. The run ends when all stored messages were received, or when no more can be
expected.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from magnetar.base.errors import MagnetarError, Outcome
from magnetar.client.client import Client
from magnetar.client.consumer.config import InitialPosition
from magnetar.client.consumer.receive.waiters import NoMessage
from magnetar.client.consumer.scalable.stream.consumer import StreamConsumer
from magnetar.client.message import Message
from magnetar.client.producer.batch import Batching
from magnetar.client.producer.producer import Producer
from magnetar.testing.order import OrderChecker, SendOutcome

_NUMBER = struct.Struct(">Q")
TURN_S = 0.01  # interval in which producers keep their rate

Reshape = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class LoadConfig:
    """`rate` is messages per second of all producers together; 0 means as fast as possible. `churn_s` 0: consumers
    stay.
    """

    topic: str
    subscription: str = "verify-order"
    producers: int = 8
    consumers: int = 4
    keys: int = 16  # per producer
    rate: float = 2000.0
    size: int = 64
    batching: bool = True
    reshape_s: float = 1.0
    churn_s: float = 0.0
    acknowledge_every: int = 20
    drain_s: float = 30.0  # after this time without a new message, missing messages count as lost


class Workload:
    """Callers may read `ordering` during the run. `reshapes` counts finished reshapes, `refused` the rejected ones."""

    def __init__(
        self, client: Client, load: LoadConfig, *, reshape: Reshape | None = None, name: str = "verify"
    ) -> None:
        self.ordering = OrderChecker()
        self.reshapes = 0
        self.refused = 0
        self.joined = 0
        self.last_refusal: MagnetarError | None = None
        self._client = client
        self._load = load
        self._reshape = reshape
        self._name = name
        self._stopping = asyncio.Event()
        self._drained = asyncio.Event()

    async def run(self, seconds: float) -> OrderChecker:
        """Sends for the given time, then waits until all messages have arrived."""
        return await self._judged(self._load.consumers, seconds)

    async def again(self, subscription: str, consumers: int = 1) -> OrderChecker:
        """Reads the same traffic with late consumers of another subscription, from the first message on."""
        late = Workload(self._client, replace(self._load, subscription=subscription), name=f"{self._name}-late")
        late.ordering = self.ordering.for_another_reader()
        return await late._judged(consumers, 0.0)

    async def _judged(self, consumers: int, seconds: float) -> OrderChecker:
        """Without `seconds` it sends nothing and reads the stored messages."""
        first = [await self._consumer() for _ in range(consumers)]
        work = [self._traffic(seconds), *(self._consume(consumer) for consumer in first)]
        results = await asyncio.gather(*(self._together(one) for one in work), return_exceptions=True)
        for result in results:
            if result is not None:
                raise result
        self.ordering.finish()
        return self.ordering

    async def _traffic(self, seconds: float) -> None:
        if seconds:
            asyncio.get_running_loop().call_later(seconds, self._stopping.set)
            senders = [self._produce(number) for number in range(self._load.producers)]
            await asyncio.gather(self._reshapes(), *(self._together(sender) for sender in senders))
        await self._drain()
        self._drained.set()

    async def _together(self, work: Coroutine[Any, Any, None]) -> None:
        """The first error stops all tasks."""
        try:
            await work
        except BaseException:
            self._stopping.set()
            self._drained.set()
            raise

    # Sending

    async def _produce(self, producer_number: int) -> None:
        load = self._load
        producer: Producer[bytes] = await self._client.create_producer(
            load.topic, name=f"{self._name}-{producer_number}", batching=Batching() if load.batching else None
        )
        keys = [f"{self._name}-{producer_number}-{index}" for index in range(load.keys)]
        filling = b"." * max(load.size - _NUMBER.size, 0)
        try:
            sent = 0
            began = asyncio.get_running_loop().time()
            while not self._stopping.is_set():
                key = keys[sent % len(keys)]
                number = self.ordering.next_number(key)
                await producer.post(_NUMBER.pack(number) + filling, partial(self._record_result, key, number), key=key)
                sent += 1
                if load.rate:
                    due = began + sent * load.producers / load.rate
                    ahead = due - asyncio.get_running_loop().time()
                    if ahead > TURN_S:
                        await asyncio.sleep(ahead)
                elif sent % 100 == 0:
                    await asyncio.sleep(0)  # lets other tasks run: handing over does not wait while the queue has room
        finally:
            await producer.close()

    def _record_result(self, key: str, number: int, _: object, error: MagnetarError | None) -> None:
        if error is None:
            self.ordering.record_result(key, number, SendOutcome.STORED)
        else:
            unknown = error.outcome is Outcome.INDEFINITE
            self.ordering.record_result(key, number, SendOutcome.UNKNOWN if unknown else SendOutcome.FAILED)

    # Receiving

    async def _consumer(self) -> StreamConsumer[bytes]:
        self.joined += 1
        return await self._client.stream_consumer(
            self._load.topic,
            self._load.subscription,
            name=f"{self._name}-{self.joined}",
            initial_position=InitialPosition.EARLIEST,
        )

    async def _consume(self, consumer: StreamConsumer[bytes]) -> None:
        loop = asyncio.get_running_loop()
        churn_s = self._load.churn_s
        until = loop.time() + churn_s if churn_s else None
        while not self._drained.is_set():
            await self._read(consumer, until)
            await consumer.close()
            if self._drained.is_set():
                return
            consumer = await self._consumer()
            until = loop.time() + churn_s if churn_s else None
        await consumer.close()

    async def _read(self, consumer: StreamConsumer[bytes], until: float | None) -> None:
        loop = asyncio.get_running_loop()
        last: Message[bytes] | None = None
        taken = 0
        while not self._drained.is_set() and (until is None or loop.time() < until):
            try:
                message = await consumer.receive(0.1)
            except NoMessage:
                if last is not None:
                    await consumer.acknowledge_cumulative(last)
                    last = None
                continue
            record(self.ordering, message, consumer.name)
            last = message
            taken += 1
            if taken % self._load.acknowledge_every == 0:
                await consumer.acknowledge_cumulative(message)
                last = None
        if last is not None:
            await consumer.acknowledge_cumulative(last)

    async def _drain(self) -> None:
        """Waits until every stored message was received, or until no message has arrived for a long time."""
        loop = asyncio.get_running_loop()
        seen, since = self.ordering.received, loop.time()
        while self.ordering.outstanding and not self._drained.is_set():
            await asyncio.sleep(0.05)
            if self.ordering.received != seen:
                seen, since = self.ordering.received, loop.time()
            elif loop.time() - since > self._load.drain_s:
                return

    # Reshaping

    async def _reshapes(self) -> None:
        reshape = self._reshape
        while reshape is not None and not self._stopping.is_set():
            try:
                async with asyncio.timeout(self._load.reshape_s):
                    await self._stopping.wait()
            except TimeoutError:
                pass
            if self._stopping.is_set():
                return
            try:
                await reshape()
                self.reshapes += 1
            except MagnetarError as error:  # the broker was killed, or the layout has changed
                self.refused += 1
                self.last_refusal = error


def record(ordering: OrderChecker, message: Message[Any], reader: str) -> None:
    id = message.id
    position = (id.segment, id.ledger, id.entry, id.batch_index)
    ordering.record_received(message.key or "", _NUMBER.unpack_from(message.data)[0], position, reader)

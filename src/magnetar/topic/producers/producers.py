"""The producers attached to a topic: turns the answers of the access machine into closes, waits and durable epochs.

`topic/producers/access.py` decides. This class waits until the epoch is durable before it answers or closes a producer,
and checks that a rival's connection is still alive before it refuses a producer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from magnetar.base.errors import Closed, Fenced, MagnetarError, ProducerBusy, Throttled
from magnetar.base.names import TopicName
from magnetar.ledger.clock import Clock
from magnetar.runtime.runtime import Runtime
from magnetar.topic.dedup.dedup import Dedup
from magnetar.topic.producers.access import Granted, GrantedAfterClosing, Mode, ProducerAccess, Queued, Refused, Request
from magnetar.topic.producers.producer import Producer
from magnetar.topic.settings import TopicSettings
from magnetar.wire import commands

EPOCH_PROPERTY = "magnetar.topic-epoch"  # of the managed ledger: survives with the topic


class Properties(Protocol):
    """Where the epoch is kept, and the time that producers are idle since."""

    clock: Clock

    async def set_properties(self, properties: Mapping[str, str]) -> None: ...


class ChargedNames(Protocol):
    """The memory of the names that deduplication remembers."""

    @property
    def full(self) -> bool: ...

    def settle(self) -> None: ...


class Published(Protocol):
    """The part of a topic that its producers use."""

    name: TopicName
    settings: TopicSettings
    runtime: Runtime
    dedup: Dedup | None
    refusal: MagnetarError | None
    moved_to: tuple[str, str]

    @property
    def recall(self) -> ChargedNames | None: ...

    @property
    def managed(self) -> Properties: ...

    def highest_sequence(self, producer: str) -> int: ...


class Producers:
    def __init__(self, topic: Published, epoch: int) -> None:
        self._topic = topic
        self.access = ProducerAccess(epoch)
        self._attached: dict[Request, Producer] = {}
        self._requests: dict[Producer, Request] = {}
        self._waiting: dict[Request, asyncio.Future[int]] = {}

    def __len__(self) -> int:
        return len(self._attached)

    def __iter__(self) -> Iterator[Producer]:
        return iter(list(self._attached.values()))

    @property
    def waiting(self) -> int:
        """How many stand in line for exclusivity."""
        return len(self._waiting)

    async def join(self, producer: Producer, topic_epoch: int | None, queued: Callable[[], None]) -> None:
        """Attach, or raise why not. `queued` is called once if it has to wait for exclusivity; then this waits too."""
        self._check(producer.name)
        request = Request(
            producer.name,
            Mode(producer.access_mode),
            producer.outlet.generation,
            producer.id,
            producer.epoch,
            topic_epoch,
        )
        answer = self.access.join(request)
        while isinstance(answer, Refused) and answer.holder is not None and await self._evict_if_dead(answer.holder):
            self._check(producer.name)
            answer = self.access.join(request)
        match answer:
            case Refused(error=error):
                raise error
            case Granted(epoch=epoch, persist=persist, replaced=replaced):
                if replaced is not None:
                    self._drop(replaced)
                await self._grant(request, producer, epoch, persist=persist)
            case GrantedAfterClosing(epoch=epoch, close=close, fail=fail):
                await self._grant(request, producer, epoch, persist=True, then=lambda: self._fence(close, fail))
            case Queued(replaced=replaced):
                if replaced is not None:
                    self._fail_waiter(replaced, Closed("a newer request of the same producer replaced this one"))
                await self._wait(request, producer, queued)

    def leave(self, producer: Producer) -> None:
        """Detached by its client, its connection or by us; the next waiter is granted."""
        producer.closed = True
        request = self._requests.pop(producer, None)
        if request is None:
            return
        self._attached.pop(request, None)
        if self._topic.dedup is not None:
            self._topic.dedup.detached(producer.base, self._topic.managed.clock.now_ms())
        if self._topic.recall is not None:
            self._topic.recall.settle()
        self._left(request)

    def close_all(self) -> None:
        """The topic moves, ends or fails: every producer is asked to look it up again, every waiter too."""
        url, url_tls = self._topic.moved_to
        for producer in self.detach_all():
            producer.outlet.write(commands.close_producer(producer.id, url=url, url_tls=url_tls))

    def detach_all(self) -> list[Producer]:
        """As `close_all`, but the caller sends CLOSE_PRODUCER: to the producers that this returns."""
        # Waiters first: a leaving producer would grant one of them a topic that is gone.
        for request in list(self._waiting):
            self.access.leave(request)
            self._fail_waiter(request, self._topic.refusal or Closed("the topic was closed here: look it up again"))
        open_ones = [producer for producer in self if not producer.closed]
        for producer in self:
            self.leave(producer)
        return open_ones

    def close(self, producer: Producer) -> None:
        if not producer.closed:
            producer.closed = True
            producer.outlet.write(commands.close_producer(producer.id))
        self.leave(producer)

    def _check(self, name: str) -> None:
        if self._topic.refusal is not None:
            raise self._topic.refusal.with_traceback(None)  # raised again and again: frames must not pile up on it
        limit = self._topic.settings.producers_max
        if limit and len(self._attached) >= limit and all(item.name != name for item in self._attached.values()):
            raise ProducerBusy(f"the topic has its maximum of {limit} producers", topic=str(self._topic.name))
        recall = self._topic.recall
        if recall is not None and recall.full and self._topic.highest_sequence(name) < 0:
            raise Throttled(
                "this broker remembers its maximum of producer names for deduplication: try later", wire_code=6
            )

    async def _wait(self, request: Request, producer: Producer, queued: Callable[[], None]) -> None:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting[request] = future
        queued()
        try:
            epoch = await future
        except BaseException:
            self._left(request)
            raise
        finally:
            self._waiting.pop(request, None)
        await self._grant(request, producer, epoch, persist=True)

    async def _grant(
        self,
        request: Request,
        producer: Producer,
        epoch: int | None,
        *,
        persist: bool,
        then: Callable[[], None] | None = None,
    ) -> None:
        try:
            if persist:
                await self._persist()
        except BaseException:
            # The number may be stored: it stays used up, and the producers to be closed are closed all the same.
            if then is not None:
                then()
            self._left(request)
            raise
        if then is not None:
            then()
        if self._topic.refusal is not None:  # ended while the epoch was written
            self._left(request)
            raise self._topic.refusal.with_traceback(None)
        if not self.access.holds(request):
            raise Fenced(
                "another producer got exclusive access to the topic during the request", topic=str(self._topic.name)
            )
        producer.topic_epoch = epoch
        self._attached[request] = producer
        self._requests[producer] = request
        if self._topic.dedup is not None:
            self._topic.dedup.attached(producer.base)

    async def _persist(self) -> None:
        await self._topic.managed.set_properties({EPOCH_PROPERTY: str(self.access.epoch)})

    def _fence(self, close: list[Request], fail: list[Request]) -> None:
        for request in close:
            producer = self._attached.get(request)
            if producer is not None:
                self.close(producer)
        for request in fail:
            self._fail_waiter(request, Fenced("another producer got exclusive access to the topic"))

    def _left(self, request: Request) -> None:
        for waiter, epoch in self.access.leave(request):
            future = self._waiting.get(waiter)
            if future is not None and not future.done():
                future.set_result(epoch)

    def _drop(self, request: Request) -> None:
        producer = self._attached.pop(request, None)
        if producer is not None:
            producer.closed = True
            self._requests.pop(producer, None)

    def _fail_waiter(self, request: Request, error: MagnetarError) -> None:
        future = self._waiting.pop(request, None)
        if future is not None and not future.done():
            future.set_exception(error)

    async def _evict_if_dead(self, holder: Request) -> bool:
        producer = self._attached.get(holder)
        if producer is None:
            return False
        if await producer.outlet.alive() and self._attached.get(holder) is producer:
            return False
        self.leave(producer)  # unless it left by itself in between
        return True

"""The blocking producer: messages posted from any thread cross to the loop in groups, and in order."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack

from magnetar.base.errors import Busy, Closed, MagnetarError
from magnetar.base.limits import CLIENT_MAILBOX_MESSAGES_MAX
from magnetar.base.public import public
from magnetar.client.producer.config import Counters
from magnetar.client.producer.fields import Done, MessageFields
from magnetar.client.producer.producer import MessageOptions
from magnetar.client.producer.producer import Producer as AsyncProducer
from magnetar.client.sync.proxy import BlockingProxy
from magnetar.runtime.portal import Portal
from magnetar.runtime.thread_queues import LoopInbox
from magnetar.wire.ids import MessageId

T = TypeVar("T")

Posted = tuple[bytes, MessageFields | None, Done | None]


@public("magnetar")
class Producer(BlockingProxy[AsyncProducer[Any]], Generic[T]):
    """Created by `Client.create_producer`. `with` closes it after every sent message is stored."""

    _outgoing: _Outgoing

    def _renewed(self, where: Portal, producer: AsyncProducer[Any]) -> None:
        self._outgoing = _Outgoing(where, producer)

    def send(self, value: T | None, **options: Unpack[MessageOptions]) -> MessageId:
        """Send and wait until the message is stored."""
        where, producer = self._core()
        if len(self._outgoing.box):
            return where.run(lambda: self._behind(producer, value, options))  # after the messages posted before
        try:
            stored: MessageId = where.ask(lambda ended: _send_now(producer, value, ended, options))
        except Busy:
            return where.run(lambda: producer.send(value, **options))
        return stored

    def post(self, value: T | None, callback: Done | None = None, **options: Unpack[MessageOptions]) -> None:
        """Send, and wait only for room in the memory limit. `callback(message_id, error)` runs on the loop thread,
        where it must not block; without a callback, `flush` raises the first error.
        """
        producer = self._core()[1]
        payload, fields = producer._prepared(value, options)
        self._outgoing.box.put((payload, fields, callback))

    def flush(self) -> None:
        """Wait until every earlier message is stored or has failed; raises the first error without a callback."""
        self._run(self._flush)

    def close(self, *, flush: bool = True) -> None:
        """Wait until every sent message is stored, then detach. Without `flush`, pending messages are given up."""
        self._run(lambda producer: self._close(producer, flush))

    @property
    def topic(self) -> str:
        return self._core()[1].topic

    @property
    def name(self) -> str:
        return self._core()[1].name

    @property
    def partitions(self) -> int:
        return self._core()[1].partitions

    @property
    def connected(self) -> bool:
        return self._core()[1].connected

    @property
    def last_sequence_id(self) -> int:
        return self._core()[1].last_sequence_id

    @property
    def pending(self) -> int:
        return self._core()[1].pending + len(self._outgoing.box)

    @property
    def counters(self) -> list[Counters]:
        return self._core()[1].counters

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(flush=kind is None)

    async def _flush(self, producer: AsyncProducer[Any]) -> None:
        await self._outgoing.emptied()
        await producer.flush()

    async def _close(self, producer: AsyncProducer[Any], flush: bool) -> None:
        if flush:
            await self._outgoing.emptied()
        await producer.close(flush=flush)
        self._outgoing.refuse(Closed("the producer is closed", topic=producer.topic))

    async def _behind(self, producer: AsyncProducer[Any], value: T | None, options: MessageOptions) -> MessageId:
        await self._outgoing.emptied()
        return await producer.send(value, **options)


class _Outgoing:
    """Moves messages from the mailbox to the producer, in order: immediately, or in a task that waits for room."""

    def __init__(self, where: Portal, producer: AsyncProducer[Any]) -> None:
        self.box: LoopInbox[Posted] = LoopInbox(where, self._look, CLIENT_MAILBOX_MESSAGES_MAX)
        self._producer = producer
        self._waiting: asyncio.Task[None] | None = None

    async def emptied(self) -> None:
        """Wait until the producer has every message that was put before."""
        self._look()
        if self._waiting is not None:
            await asyncio.shield(self._waiting)

    def _look(self) -> None:
        if self._waiting is not None:
            return
        take, admit = self.box.take, self._producer._admit
        while (item := take()) is not None:
            if not admit(*item):
                self._waiting = self._producer._work(self._wait(item))
                break
        self._producer._hurry()

    async def _wait(self, item: Posted | None) -> None:
        try:
            while item is not None:
                await self._producer._admit_later(*item)
                item = self.box.take()
        except asyncio.CancelledError:
            _refuse(item, Closed("the producer is closed", topic=self._producer.topic))
            raise
        finally:
            self._waiting = None

    def refuse(self, error: MagnetarError) -> None:
        """Fail the messages that will not be sent."""
        while (item := self.box.take()) is not None:
            _refuse(item, error)


def _send_now(producer: AsyncProducer[Any], value: Any, ended: Done, options: MessageOptions) -> None:
    producer.send_nowait(value, ended, **options)
    producer._hurry(awaited=True)


def _refuse(item: Posted | None, error: MagnetarError) -> None:
    if item is not None and item[2] is not None:
        item[2](None, error)

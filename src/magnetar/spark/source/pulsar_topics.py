"""Requests to any server with Pulsar's protocol: it asks for last messages and counts entries.

Positions in one ledger are dense, so the difference of two entry ids bounds the number of entries between them. The
number of entries in an earlier ledger is unknown without reading it, so a limited batch ends in the ledger where it
starts. A limit in messages applies to entries here, and a limit in bytes uses the size of the next entry as an
estimate. A seek resolves a time in a segment. Data loss is detected when a segment is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from magnetar.base.errors import Misuse, TopicNotFound
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.limits import SPARK_ASKED_AT_ONCE_MAX, SPARK_MARKS_MAX
from magnetar.client.batch_read.range_reader import EARLIEST, EntryReader
from magnetar.client.batch_read.range_reader import Place as EntryPlace
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.receive.decode import open_metadata
from magnetar.client.message import MessageId
from magnetar.client.read_client import ReadClient
from magnetar.client.schema import BYTES
from magnetar.layout.readable_range import DONE, NUMBER_MAX, START, CutPoint, Places, ReadPosition
from magnetar.layout.segment import FIRST, Segment
from magnetar.spark.source.batch_limits import UNLIMITED, Limits
from magnetar.spark.source.offset import SourceOffset
from magnetar.spark.source.options import AtTime, Extreme
from magnetar.spark.source.planner import Balance, Rules, unread
from magnetar.spark.source.readable_range import ReadableRange
from magnetar.spark.source.subscription_claim import Claim
from magnetar.spark.source.topic_info import TopicSnapshot
from magnetar.spark.source.topic_layout import TopicLayout, shapes

T = TypeVar("T")


class PulsarTopicInfo:
    """`subscription` is rejected: a plain server keeps cursors only for consumers."""

    def __init__(self, client: ReadClient, topic: str, *, subscription: str = "", claim: Claim | None = None) -> None:
        if subscription:
            raise Misuse(
                "option subscription requires a scalable topic (topic://) of a Magnetar broker. For any other "
                "topic, set a retention that covers the longest pause of the query",
                subscription=subscription,
            )
        self._client = client
        self._shapes = shapes(client, topic)
        self._probes: dict[SegmentId, EntryReader] = {}  # stay open: a query asks repeatedly

    async def shape(self, epoch: Epoch = FIRST) -> TopicLayout:
        return await self._shapes.now(epoch)

    async def survey(self, start: SourceOffset, limits: Limits, rules: Rules) -> TopicSnapshot:
        if rules.balance is Balance.TIME:
            raise Misuse(
                "option balance: by time requires a scalable topic (topic://) of a Magnetar broker, which "
                "reports publish times"
            )
        shape = await self.shape(start.epoch)
        start = shape.adopted(start)
        open_places = {id: place for id, place in start.places.items() if place != DONE and id in shape.layout}
        open_places.update(dict.fromkeys(unread(shape.layout, start.places), START))
        await self._forget(open_places)

        async def one(id: SegmentId) -> ReadableRange:
            return await self._stretch(shape, id, open_places[id], limits)

        return TopicSnapshot(shape, await _each(open_places, one))

    async def find(self, where: Extreme | AtTime) -> tuple[TopicLayout, Places]:
        shape = await self.shape()
        if where is Extreme.EARLIEST:
            return shape, {}

        async def one(id: SegmentId) -> ReadPosition:
            segment = shape.layout.segment(id)
            position = await (self._end(shape, segment) if where is Extreme.LATEST else self._at(shape, segment, where))
            return DONE if position is None and not segment.is_active else position or START

        return shape, await _each([one.id for one in shape.layout.segments], one)

    async def lost(self, places: Places) -> Places:
        """The server does not report losses."""
        return {}

    async def deleted(self) -> bool:
        """The server does not report deleted messages."""
        return False

    async def hold(self, at: SourceOffset) -> None:
        """No subscription exists to move."""

    async def close(self) -> None:
        await self._forget({})
        await self._shapes.close()

    # One segment

    async def _stretch(self, shape: TopicLayout, id: SegmentId, place: ReadPosition, limits: Limits) -> ReadableRange:
        sealed = not shape.layout.segment(id).is_active
        try:
            last = await self._last(shape, id)
        except TopicNotFound:
            if shape.plain:
                raise
            return ReadableRange(place, lost=True)
        if last is None or ReadPosition(*last, NUMBER_MAX) < place:
            return ReadableRange(place, sealed=sealed)
        first, size, publish_ms = last, 0, 0
        if limits != UNLIMITED:
            first, size, publish_ms = await self._peek(shape.topics[id], place)
        return ReadableRange(
            place, tuple(marks(place, first, last, size, limits, publish_ms=publish_ms)), sealed=sealed
        )

    async def _last(self, shape: TopicLayout, id: SegmentId) -> EntryPlace | None:
        probe = self._probes.get(id)
        if probe is None:
            probe = self._probes[id] = EntryReader(self._client.lookup, shape.topics[id])
            try:
                await probe.open()
            except BaseException:
                del self._probes[id]
                await probe.close()
                raise
        return await probe.last()

    async def _peek(self, topic: str, place: ReadPosition) -> tuple[EntryPlace, int, int]:
        """The next entry, its size, and its publish time."""
        reader = EntryReader(self._client.lookup, topic, EARLIEST if place == START else place[:2], peek=True)
        try:
            await reader.open()
            ledger, entry, data = (await reader.take())[0]
        finally:
            await reader.close()
        return (ledger, entry), len(data), open_metadata(data)[0].publish_time

    async def _end(self, shape: TopicLayout, segment: Segment) -> ReadPosition | None:
        """The position after the last message; None for a sealed segment, which is skipped entirely."""
        if not segment.is_active:
            return None
        last = await self._last(shape, segment.id)
        return START if last is None else ReadPosition(last[0], last[1] + 1)

    async def _at(self, shape: TopicLayout, segment: Segment, where: Extreme | AtTime) -> ReadPosition | None:
        assert isinstance(where, AtTime)
        from magnetar.client.consumer.reader import (
            Reader,  # consumers take long to import, and this module needs only a reader
        )

        name = f"time-{self._client.runtime.rng('spark.times').getrandbits(48):012x}"
        config = ConsumerConfig(name, durable=False, start=MessageId.EARLIEST)
        reader = Reader(self._client.lookup, shape.topics[segment.id], config, schema=BYTES)
        try:
            await reader._start()
            await reader.seek(where.ms)
            if await reader.has_message_available():
                id = (await reader.receive()).id
                return ReadPosition(id.ledger, id.entry)
        finally:
            await reader.close()
        return await self._end(shape, segment)

    async def _forget(self, kept: Iterable[SegmentId]) -> None:
        names = set(kept)
        for id in [id for id in self._probes if id not in names]:
            await self._probes.pop(id).close()


def marks(
    place: ReadPosition, first: EntryPlace, last: EntryPlace, size: int, limits: Limits, *, publish_ms: int = 0
) -> list[CutPoint]:
    """Possible ends of a batch: in steps through the ledger of the next entry, and after the last entry."""
    begin = first[1]
    here = first[0] == last[0]  # in the open ledger
    there = last[1] + 1 - begin if here else 1 << 31
    most = min(there, limits.messages or there, (limits.bytes or NUMBER_MAX) // max(size, 1) + 1)
    step = max(1, most // SPARK_MARKS_MAX)
    cut_points = [
        CutPoint(ReadPosition(first[0], begin + count), count, count * size, publish_ms)
        for count in range(step, most + 1, step)
        if count < there
    ]
    # The size of the ledgers in between is unknown: it counts as more than any limit.
    count, bytes = (there, there * size) if here else (NUMBER_MAX >> 8, NUMBER_MAX >> 8)
    return [*cut_points, CutPoint(ReadPosition(last[0], last[1] + 1), count, bytes, publish_ms)]


async def _each(ids: Iterable[SegmentId], call: Callable[[SegmentId], Awaitable[T]]) -> dict[SegmentId, T]:
    """Runs the call for all segments, several at a time."""
    results: dict[SegmentId, T] = {}
    waiting = list(ids)
    while waiting:
        now, waiting = waiting[:SPARK_ASKED_AT_ONCE_MAX], waiting[SPARK_ASKED_AT_ONCE_MAX:]
        results.update(zip(now, await asyncio.gather(*map(call, now)), strict=True))
    return results

"""The batch readers of a world: they work like a micro-batch engine, over the product's real client.

A batch reader requests a plan, reads exactly what the plan says, keeps its position under a hold, goes away, and reads
some batches again. A batch ends at cut points of the plan; a segment begins when everything before it is read. The
messages of a batch are recorded like those of a checkpoint consumer, under the position where the batch began, so that
one rule holds for both: one sequence of each key. The process fails, which is a finding, if a batch has another number
of messages than planned, differs at the second reading, or misses messages under its hold.
"""

from __future__ import annotations

import asyncio
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.client.batch_read.plan import From, Plan
from magnetar.client.batch_read.range_reader import EntryReader
from magnetar.layout.layout import Layout
from magnetar.layout.readable_range import DONE, START, ReadPosition
from magnetar.wire import entry as entries
from magnetar.wire import message as messages
from simulation import history as record
from simulation.clients.checkpoint_consumer import CHECKPOINTS_KEPT, CheckpointConsumerProcess
from simulation.clients.consumer import SETTLING_POLL_S
from simulation.history import OK, Value, value_of

READ_TWICE = 0.3  # of the batches are read twice
LIMITS = (1, 3, 20, 0)  # in messages; the last one is none
INFLATED_BYTES_MAX = 1 << 20
HOLD_S = 30 * 86_400  # clocks of worlds go wrong by days

Row = tuple[SegmentId, Value | None, tuple[int, int, int]]
Places = dict[SegmentId, ReadPosition]


class BatchReaderProcess(CheckpointConsumerProcess):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._stands: list[tuple[str, Places]] = [("", {})]  # each behind the one before

    async def open(self) -> Any:
        """Opens at an earlier position, most often the newest, and forgets what came after it. The hold stands at the
        oldest of these positions or before it."""
        self._session = self._context.history.session()
        if not self._context.settling and self._chance.random() < 0.3:
            del self._stands[self._chance.randint(1, len(self._stands)) :]
        name, places = self._stands[-1]
        try:
            await self._client.hold(self.address, self.name, expires_s=HOLD_S, owner="a world")
        except MagnetarError as error:
            self._failed(record.READ_FROM, error, checkpoint=name)
            return None
        self.note(record.READ_FROM, OK, checkpoint=name)
        return places

    async def finish(self, idle_s: float, tries: int) -> bool:
        for _ in range(tries):
            try:
                places = await self.open()
                while places is not None:
                    after = await self._batch(places, 0)
                    if after == places:
                        self.note(record.READ_ALL, OK)
                        return True
                    places = after
            except MagnetarError:
                pass  # another try
            await asyncio.sleep(1.0)
        return False

    async def _stint(self, places: Any) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._chance.expovariate(1 / self.plan.stint_s)
        while not self._context.over and (self._context.settling or loop.time() < until):
            before, places = places, await self._batch(places, self._chance.choice(LIMITS))
            if places != before:
                await self._commit(places)
            await asyncio.sleep(SETTLING_POLL_S if self._context.settling else self._chance.random() * 0.3 + 0.05)

    async def _commit(self, places: Places) -> None:
        name = f"{self.name}@{self._session}.{len(self._context.history.lines)}"
        self.note(record.KEPT, OK, checkpoint=name)
        self._stands = [*self._stands[-CHECKPOINTS_KEPT + 1 :], (name, places)]
        oldest = self._stands[0][1]
        if oldest:
            await self._client.hold(self.address, self.name, oldest)

    async def _leave(self, places: Any) -> None:
        if not self._context.over:
            await asyncio.sleep(self._chance.random() * self.plan.stint_s * 0.3)

    # One batch

    async def _batch(self, places: Places, limit: int) -> Places:
        """Reads one batch and returns its end."""
        plan = await self._planned(places, limit)
        begins = _opened(plan.layout, places)
        ends = {id: self._end(plan, id, limit) for id, place in begins.items() if place != DONE}
        rows = await self._read(plan, ends)
        if self._chance.random() < READ_TWICE and await self._read(plan, ends) != rows:
            raise AssertionError(f"{self.name}: a batch of {self._topic} came otherwise when it was read again: {ends}")
        for segment, value, place in rows:
            self.note(record.READ, OK, value=value, place=place, segment=segment)
        return begins | {id: DONE if done else end for id, (end, _, done) in ends.items()}

    async def _planned(self, places: Places, limit: int) -> Plan:
        start: From = "start" if places else "earliest"  # messages deleted before the hold are not lost
        return await self._client.plan(self.address, places, start=start, messages_max=limit)

    def _end(self, plan: Plan, id: SegmentId, limit: int) -> tuple[ReadPosition, int, bool]:
        """The end of the batch in a segment, the number of messages up to it, and whether the segment is finished
        then."""
        stretch = plan.stretches.get(id)
        if stretch is None:
            return START, 0, False
        if stretch.lost:
            self._gone(id)
        marks = stretch.marks
        if not marks:
            return stretch.start, 0, stretch.sealed
        count = self._chance.randint(1, len(marks)) if limit else len(marks)
        return marks[count - 1].place, marks[count - 1].messages, stretch.sealed and count == len(marks)

    def _gone(self, segment: SegmentId) -> None:
        raise AssertionError(f"{self.name}: messages of segment {segment} of {self._topic} are gone under its hold")

    async def _read(self, plan: Plan, ends: dict[SegmentId, tuple[ReadPosition, int, bool]]) -> list[Row]:
        rows: list[Row] = []
        for id, (end, count, _) in sorted(ends.items()):
            if count:
                chunk = await self._segment(plan, id, end)
                if len(chunk) != count:
                    raise AssertionError(
                        f"{self.name}: {count} messages of segment {id} of {self._topic} were planned up to {end}, "
                        f"{len(chunk)} came"
                    )
                rows += chunk
        return rows

    async def _segment(self, plan: Plan, id: SegmentId, end: ReadPosition) -> list[Row]:
        topic = plan.layout.segment(id).topic(topic_name(self._topic))
        reader = EntryReader(self._client.lookup, str(topic), plan.stretches[id].start[:2])
        rows: list[Row] = []
        try:
            await reader.open()
            while True:
                for ledger, number, data in await reader.take():
                    if (ledger, number) >= end[:2]:
                        return rows
                    rows += [(id, value, (ledger, number, index)) for index, value in enumerate(_values(data))]
                    if (ledger, number + 1) >= end[:2]:
                        return rows
        finally:
            await reader.close()


def _opened(layout: Layout, places: Places) -> Places:
    """The start of a batch: the given positions, and the segments whose ancestors are all read."""
    positions = dict(places)
    for segment in layout.segments:  # parents first: children have higher ids
        if segment.id not in positions and all(positions.get(id) == DONE for id in segment.parents if id in layout):
            positions[segment.id] = START
    return positions


def _values(data: bytes) -> list[Value | None]:
    opened = messages.open_entry(data)
    payload = messages.inflate(opened.metadata, opened.payload, INFLATED_BYTES_MAX)
    if not entries.is_batch(data):
        return [value_of(payload)]
    return [value_of(body) for _, body in messages.split_batch(payload, opened.metadata.num_messages_in_batch)]

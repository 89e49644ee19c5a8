"""Writes the gathered messages of a producer: `send_schedule` decides when, `segment_queues` decides what.

It owns the segment writers, the timer between two rounds, and the encoding of frames; the frames of one round for one
broker are one write. It makes no decisions: it returns a message that cannot be encoded to its owner, and reports every
write to the schedule and the queues. It trusts its owner to open, settle and drop the writers.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import SegmentId
from magnetar.client.producer.scalable.encode import EncodedEntry, pack
from magnetar.client.producer.scalable.segment_queue import QueuedEntry
from magnetar.client.producer.scalable.segment_queues import SegmentQueues
from magnetar.client.producer.scalable.segment_writer import SegmentWriter
from magnetar.client.producer.scalable.send_schedule import SendAction, SendSchedule
from magnetar.runtime.runtime import Runtime


class SendListener(Protocol):
    """Receives the events of writing."""

    def packed(self) -> None:
        """An entry was encoded."""
        ...

    def unpackable(self, segment: SegmentId, sequence: int, error: MagnetarError) -> None: ...

    def advanced(self) -> None:
        """Entries were written to a segment."""
        ...


class SendRounds:
    def __init__(
        self, runtime: Runtime, queues: SegmentQueues, pace: SendSchedule, heard: SendListener, *, chunking: bool
    ) -> None:
        self.writers: dict[SegmentId, SegmentWriter] = {}
        self._runtime = runtime
        self._loop = asyncio.get_running_loop()
        self._queues = queues
        self._pace = pace
        self._heard = heard
        self._chunking = chunking
        self._ringing: asyncio.TimerHandle | None = None

    def act(self, due: SendAction, segment: SegmentId) -> None:
        """Perform the action that became due when this segment took a message."""
        if due is SendAction.NOW:
            self.write(segment)
        elif due is SendAction.TURN:
            self._loop.call_soon(self._turn_over)
        elif due is SendAction.RING:
            self._ring()

    def hurry(self, *, awaited: bool) -> None:
        """Write now, and not in the next turn of the loop."""
        self._go(*self._pace.hurry(self._runtime.monotonic(), awaited=awaited))
        for writer in self.writers.values():
            if writer.connection is not None:
                writer.connection.flush()

    def answered(self, segment: SegmentId) -> None:
        """No entry of this segment is in flight any more."""
        self.act(self._pace.answered(segment, self._runtime.monotonic()), segment)

    def write(self, segment: SegmentId) -> int:
        """Write the entries that the segment queue releases; returns their number."""
        writer = self.writers.get(segment)
        connection = None if writer is None else writer.connection
        wrote = 0
        while writer is not None and connection is not None and not connection.congested:
            entry = self._queues.next_entry(segment)
            if entry is None:
                break
            packed = self._packed(writer, entry)
            if packed is not None:
                wrote += 1
                for frame in packed.frames:
                    connection.write(frame)
        self._pace.wrote(segment, something=wrote > 0)
        if wrote:
            self._heard.advanced()
        return wrote

    def stop(self) -> None:
        """Stop the timer: no further round starts by itself."""
        if self._ringing is not None:
            self._ringing.cancel()
            self._ringing = None

    def _turn_over(self) -> None:
        """All senders of this turn of the loop have added their messages: write now, in this turn."""
        self._go(*self._pace.turned(self._runtime.monotonic()))

    def _go(self, segments: list[SegmentId], due: SendAction) -> None:
        if due is SendAction.RING:
            self._ring()
        self._round(segments)

    def _ring(self) -> None:
        self._ringing = self._loop.call_later(self._pace.wait_s, self._rang)

    def _rang(self) -> None:
        self._ringing = None
        self._round(self._pace.rang())

    def _round(self, segments: list[SegmentId]) -> None:
        """Write these segments together: the frames for one broker are one write."""
        if not segments:
            return
        written = {segment: entries for segment in segments if (entries := self.write(segment))}
        for segment in written:
            connection = self.writers[segment].connection
            if connection is not None:
                connection.flush()
        self._pace.went(sum(written.values()), self._runtime.monotonic())
        if self._pace.silenced():
            self.stop()

    def _packed(self, writer: SegmentWriter, entry: QueuedEntry) -> EncodedEntry | None:
        packed: EncodedEntry | None = entry.frames
        if packed is not None:
            packed.first = None
            return packed
        try:
            packed = pack(entry, writer.stamp, self._runtime.wall(), chunking=self._chunking)
        except MagnetarError as error:
            self._heard.unpackable(writer.segment, entry.sequence, error)
            return None
        self._heard.packed()
        entry.frames = packed
        entry.parts = len(packed.frames)
        return packed

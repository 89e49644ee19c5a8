"""Writing what a producer gathered for its lanes: the hand of `pace`, which says when, and of `lanes`, which say what.

It owns the attachments of the lanes, the timer between two rounds, and the making of frames; what goes to one broker in
a round is one write. It decides nothing: a message that cannot be packed is handed back to its owner, and what was
written is told to both deciders. It trusts its owner to open, settle and drop the attachments.
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
    """Who hears of what is written."""

    def packed(self) -> None:
        """An entry was made of messages."""
        ...

    def unpackable(self, segment: SegmentId, sequence: int, error: MagnetarError) -> None: ...

    def advanced(self) -> None:
        """Something was written to a lane."""
        ...


class SendRounds:
    def __init__(
        self, runtime: Runtime, lanes: SegmentQueues, pace: SendSchedule, heard: SendListener, *, chunking: bool
    ) -> None:
        self.writers: dict[SegmentId, SegmentWriter] = {}
        self._runtime = runtime
        self._loop = asyncio.get_running_loop()
        self._lanes = lanes
        self._pace = pace
        self._heard = heard
        self._chunking = chunking
        self._ringing: asyncio.TimerHandle | None = None

    def act(self, due: SendAction, segment: SegmentId) -> None:
        """What became due when this lane took a message."""
        if due is SendAction.NOW:
            self.write(segment)
        elif due is SendAction.TURN:
            self._loop.call_soon(self._turn_over)
        elif due is SendAction.RING:
            self._ring()

    def hurry(self, *, awaited: bool) -> None:
        """What would go out in the next turn of the loop goes out in this one."""
        self._go(*self._pace.hurry(self._runtime.monotonic(), awaited=awaited))
        for writer in self.writers.values():
            if writer.connection is not None:
                writer.connection.flush()

    def answered(self, segment: SegmentId) -> None:
        """Nothing of this lane is on its way any more."""
        self._round(self._pace.answered(segment, self._runtime.monotonic()))

    def write(self, segment: SegmentId) -> int:
        """Write what the lane may; how many entries that were."""
        writer = self.writers.get(segment)
        connection = None if writer is None else writer.connection
        wrote = 0
        while writer is not None and connection is not None and not connection.congested:
            entry = self._lanes.next_entry(segment)
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
        """No round comes by itself any more."""
        if self._ringing is not None:
            self._ringing.cancel()
            self._ringing = None

    def _turn_over(self) -> None:
        """All senders of this turn of the loop have had their say: out with it, without another turn."""
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
        """Write these lanes together: what goes to one broker is one write."""
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

"""The messages handed out to a stream consumer's application, over all segments, and their cumulative acknowledgement.

Every message gets a stamp in the step in which it leaves the receive queue. So there is one order over all segments,
and no message can be missing from a later one's positions. The receive queue bounds waiting messages; this stores a
stamp and an id for each unacknowledged message. A revoked segment stays until it is closed: its handed-out messages can
still be acknowledged. If a cumulative acknowledgement would cover messages that were not handed out (`apart`), each
message is acknowledged individually. Pure decisions; ids of one segment must be comparable.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Generic

from magnetar.base.errors import InvalidTransition
from magnetar.base.ids import SegmentId
from magnetar.client.consumer.scalable.stream.unacked import Id, Outstanding


class _Out(Generic[Id]):
    __slots__ = ("acked", "again", "given", "shared")

    def __init__(self, shared: bool) -> None:
        self.shared = shared
        self.given: Outstanding[Id] = Outstanding()
        self.acked: Id | None = None
        self.again = False  # ids decreased once: the broker redelivered


class Positions(Generic[Id]):
    """`stamps` is the source of stamps, shared by several topics. `apart` returns whether a message before an id is
    still to be delivered."""

    def __init__(self, stamps: Iterator[int] | None = None, *, apart: Callable[[Id], bool] | None = None) -> None:
        self._stamps = itertools.count(1) if stamps is None else stamps
        self._apart = apart if apart is not None else lambda id: False
        self._out: dict[SegmentId, _Out[Id]] = {}

    def opened(self, segment: SegmentId, *, shared: bool = False) -> None:
        """A consumer of the segment is attached, for the first time or again. `shared`: other consumers read it too, so
        each message is acknowledged individually."""
        self._out.setdefault(segment, _Out(shared))

    def closed(self, segment: SegmentId) -> None:
        """Its consumer is closed: the next one receives the unacknowledged messages (H-F12)."""
        self._out.pop(segment, None)

    def moved(self, segment: SegmentId) -> None:
        """The subscription was moved: messages handed out before can no longer be acknowledged."""
        out = self._out.get(segment)
        if out is not None:
            self._out[segment] = _Out(out.shared)

    def is_open(self, segment: SegmentId) -> bool:
        return segment in self._out

    def delivered(self, segment: SegmentId, id: Id) -> int:
        """The stamp of a message that the application gets in this very step."""
        out = self._out.get(segment)
        if out is None:
            raise InvalidTransition("the segment of the message is not open", segment=segment)
        newest = out.given.newest
        if newest is not None and not newest < id:
            out.again = True
        if out.acked is not None and id <= out.acked:
            out.acked = None  # its broker was lost before it stored that acknowledgement: send it again
        stamp = next(self._stamps)
        out.given.append(stamp, id)
        return stamp

    def returned(self, segment: SegmentId, stamp: int) -> None:
        """The newest message, with this stamp, did not reach the application."""
        out = self._out.get(segment)
        if out is not None:
            out.given.remove_newest(stamp)

    def vector(self, stamp: int) -> dict[SegmentId, Id]:
        """The highest unacknowledged id of each segment among the messages handed out up to this stamp."""
        vector: dict[SegmentId, Id] = {}
        for segment in sorted(self._out):
            highest = self._out[segment].given.highest(stamp)
            if highest is not None:
                vector[segment] = highest
        return vector

    def acknowledged(self, stamp: int) -> list[tuple[SegmentId, Id]]:
        """Acknowledge everything handed out up to this stamp: returns the cumulative acknowledgement of each affected
        segment, or each single message of a shared segment and of an id that is `apart`. Messages that are acknowledged
        already, and closed segments, are left out.
        """
        acks: list[tuple[SegmentId, Id]] = []
        for segment, id in self.vector(stamp).items():
            out = self._out[segment]
            done = out.given.take_until(stamp)
            if out.shared or self._apart(id):
                acks += [(segment, one) for one in done]
                if out.again and not out.shared:
                    out.given.remove(done)
                continue
            if out.acked is not None and id <= out.acked:
                continue
            out.acked = id
            if out.again:
                out.given.remove_up_to(id)
            acks.append((segment, id))
        return acks

    def covered(self, vector: Mapping[SegmentId, Id]) -> list[tuple[SegmentId, Id]]:
        """As `acknowledged`, by stored ids: everything up to them. Segments that are not open are left out."""
        acks: list[tuple[SegmentId, Id]] = []
        for segment in sorted(vector):
            out, id = self._out.get(segment), vector[segment]
            if out is not None and out.shared:
                acks += [(segment, one) for one in _up_to(out, id)]
                continue
            if out is None or (out.acked is not None and id <= out.acked):
                continue
            out.acked = id
            if self._apart(id):
                acks += [(segment, one) for _, one in out.given if one < id]
            out.given.remove_up_to(id)
            acks.append((segment, id))
        return acks

    def unacked(self, segment: SegmentId) -> int:
        """The number of messages of a segment at the application."""
        out = self._out.get(segment)
        return 0 if out is None else len(out.given)

    @property
    def stamps(self) -> set[int]:
        """The stamps of unacknowledged messages."""
        return {stamp for out in self._out.values() for stamp in out.given.stamps}

    @property
    def segments(self) -> list[SegmentId]:
        return sorted(self._out)


def _up_to(out: _Out[Id], id: Id) -> list[Id]:
    """The handed-out messages of a shared segment up to this id, or only this one if it was not handed out here."""
    stamp = next((stamp for stamp, one in out.given if one == id), None)
    return [id] if stamp is None else out.given.take_until(stamp)

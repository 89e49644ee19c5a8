"""What a stream consumer was handed, over all its segments: one acknowledgement covers everything handed out before.

Every message gets a stamp in the step in which it leaves the inbox, so there is one order over all segments and no
message can be missing from a later one's positions. The inbox bounds what waits; this remembers what is out: a stamp
and an id for each message not acknowledged. A segment that is taken away stays until it is closed: what was handed out
of it can still be acknowledged. Where one acknowledgement up to an id would say too much, since not everything before
it was handed out (`apart`), each message is acknowledged for itself. Decides only; ids of one segment must be
comparable.
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
        self.again = False  # ids went down once: the broker delivered again


class Positions(Generic[Id]):
    """`stamps`: where messages get their turns; those of several topics share one. `apart`: is something that lies
    before an id still to come?"""

    def __init__(self, stamps: Iterator[int] | None = None, *, apart: Callable[[Id], bool] | None = None) -> None:
        self._stamps = itertools.count(1) if stamps is None else stamps
        self._apart = apart if apart is not None else lambda id: False
        self._out: dict[SegmentId, _Out[Id]] = {}

    def opened(self, segment: SegmentId, *, shared: bool = False) -> None:
        """A consumer of the segment is attached, for the first time or again. `shared`: others read it too, so each
        message is acknowledged for itself."""
        self._out.setdefault(segment, _Out(shared))

    def closed(self, segment: SegmentId) -> None:
        """Its consumer is gone: another one may have the segment, and gets what was not acknowledged (H-F12)."""
        self._out.pop(segment, None)

    def moved(self, segment: SegmentId) -> None:
        """The subscription stands elsewhere: what was handed out before is nobody's to acknowledge any more."""
        out = self._out.get(segment)
        if out is not None:
            self._out[segment] = _Out(out.shared)

    def is_open(self, segment: SegmentId) -> bool:
        return segment in self._out

    def delivered(self, segment: SegmentId, id: Id) -> int:
        """The stamp of a message that the application gets in this very step."""
        out = self._out.get(segment)
        if out is None:
            raise InvalidTransition("a message of a segment that is not open", segment=segment)
        newest = out.given.newest
        if newest is not None and not newest < id:
            out.again = True
        if out.acked is not None and id <= out.acked:
            out.acked = None  # its broker was lost before that acknowledgement was kept: it must be said again
        stamp = next(self._stamps)
        out.given.append(stamp, id)
        return stamp

    def returned(self, segment: SegmentId, stamp: int) -> None:
        """The message with this stamp, the newest, did not reach the application after all."""
        out = self._out.get(segment)
        if out is not None:
            out.given.remove_newest(stamp)

    def vector(self, stamp: int) -> dict[SegmentId, Id]:
        """The highest id of each segment among what was handed out up to this stamp and is not acknowledged."""
        found: dict[SegmentId, Id] = {}
        for segment in sorted(self._out):
            highest = self._out[segment].given.highest(stamp)
            if highest is not None:
                found[segment] = highest
        return found

    def acknowledged(self, stamp: int) -> list[tuple[SegmentId, Id]]:
        """Everything handed out up to this stamp is done: the cumulative acknowledgement of each segment it concerns,
        by segment; of a shared one, and of an id that is `apart`, each message that it is for. Nothing for what is
        acknowledged already, or whose segment is closed.
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
        """As `acknowledged`, by ids that were kept: everything up to them. Segments that are not open are left out."""
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
        """How many messages the application has of a segment."""
        out = self._out.get(segment)
        return 0 if out is None else len(out.given)

    @property
    def stamps(self) -> set[int]:
        """Of what was handed out and is not acknowledged."""
        return {stamp for out in self._out.values() for stamp in out.given.stamps}

    @property
    def segments(self) -> list[SegmentId]:
        return sorted(self._out)


def _up_to(out: _Out[Id], id: Id) -> list[Id]:
    """Of a shared segment: what was handed out up to this one; only this one itself if it was not handed out here."""
    stamp = next((stamp for stamp, one in out.given if one == id), None)
    return [id] if stamp is None else out.given.take_until(stamp)

"""The progress of a reader in a scalable topic: a position for every segment, or DONE, and the segments to read next.

A checkpoint is complete: it has an entry for each segment that its layout lists, so absence means "made later", never
"finished" (H-G1), and it is closed under ancestors. It carries the incarnation of its topic: another incarnation
refuses it (H-C4). A frontier is a checkpoint that moves. A segment is read only when every ancestor is DONE (H-G3), and
new segments start at their first message (H-G2). Messages that were deleted before they were read are a loss, which is
always reported (H-G4). This module performs no I/O; `wire` encodes checkpoints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from magnetar.base.errors import InvalidTransition, Misuse
from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Epoch, SegmentId
from magnetar.base.names import topic_name
from magnetar.layout.layout import Layout
from magnetar.layout.lineage import ancestors_of_any, open_segments

UNKNOWN_EPOCH = Epoch(-1)


@dataclass(frozen=True, slots=True)
class SegmentPosition:
    """The last message that was read: `index` in its batch of `size`, or -1 for a whole entry. `around`: a message in
    chunks begins there and ends behind it, so reading continues there and skips messages already read (H-G13)."""

    ledger: int
    entry: int
    index: int = -1
    size: int = field(default=0, compare=False)
    around: tuple[int, int] | None = field(default=None, compare=False)

    @property
    def is_done(self) -> bool:
        return self.ledger == AFTER_ALL.ledger

    @property
    def order(self) -> tuple[int, int, int]:
        """A whole entry comes after each of its messages."""
        return self.ledger, self.entry, self.index if self.index >= 0 else AFTER_ALL.entry

    def is_behind(self, floor: SegmentPosition) -> bool:
        """Is anything after it deleted, if everything up to `floor` is? Of a batch that was read in part, its rest; of
        a message that is around it, its beginning."""
        here, there = (self.ledger, self.entry), (floor.ledger, floor.entry)
        if self.around is not None and self.around <= there:
            return True
        return here < there or (here == there and self.index >= 0)

    def without(self, floor: SegmentPosition) -> SegmentPosition:
        """When everything up to `floor` is deleted: what began there cannot be read any more."""
        gone = self.around is not None and self.around <= (floor.ledger, floor.entry)
        return replace(self, around=None) if gone else self

    def __lt__(self, other: SegmentPosition) -> bool:
        return self.order < other.order

    def __le__(self, other: SegmentPosition) -> bool:
        return self.order <= other.order

    def __str__(self) -> str:
        if self.is_done:
            return "DONE"
        text = f"{self.ledger}:{self.entry}"
        if self.index >= 0:
            text = f"{text}:{self.index}"
        return text if self.around is None else f"{text} and what begins at {self.around[0]}:{self.around[1]}"


START = SegmentPosition(*BEFORE_ALL)  # nothing was read
DONE = SegmentPosition(
    *AFTER_ALL
)  # sealed and read to its end; of an active segment, in checkpoints of others: its end at open


class Kind(Enum):
    PLACES = "places"
    EARLIEST = "earliest"  # everything that is still there
    LATEST = "latest"  # what comes from now on


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`epoch` of its layout, UNKNOWN_EPOCH if another client took it. `incarnation` 0: the broker does not send one, as
    for plain topics. A plain topic that was created again is then recognised by the ledger of the messages read; if
    none were read, it is not recognised."""

    places: Mapping[SegmentId, SegmentPosition] = field(default_factory=dict, hash=False)
    epoch: Epoch = UNKNOWN_EPOCH
    topic: str = ""
    incarnation: int = 0
    kind: Kind = Kind.PLACES

    def is_of(self, topic: str) -> bool:
        """A migration leaves a topic with two names, and a checkpoint is of both. One that names none may be of any."""
        return not self.topic or topic_name(self.topic).scalable == topic_name(topic).scalable

    def belongs(self, topic: str, incarnation: int) -> None:
        """`Misuse` if it is of another topic, or of another life of this one (H-C4)."""
        if not self.is_of(topic):
            raise Misuse("the checkpoint belongs to another topic", checkpoint=self.topic, topic=topic)
        if self.incarnation and incarnation and self.incarnation != incarnation:
            raise Misuse(
                "the topic was deleted and created again after the checkpoint was taken: start at the earliest or "
                "at the latest message",
                topic=topic,
                checkpoint=self.incarnation,
                now=incarnation,
            )


@dataclass(frozen=True, slots=True)
class Loss:
    """Messages were deleted before they were read: of this segment after `place`, and if it is gone as a whole, maybe
    segments after it."""

    segment: SegmentId
    place: SegmentPosition


def united(parts: Iterable[Checkpoint]) -> Checkpoint:
    """One checkpoint of several parts; of a segment that two know, the further place. Nothing goes back."""
    positions: dict[SegmentId, SegmentPosition] = {}
    epoch, topic, incarnation = UNKNOWN_EPOCH, "", 0
    for part in parts:
        if part.kind is not Kind.PLACES:
            raise Misuse("expected checkpoints with positions: others cannot be merged", kind=part.kind.value)
        part.belongs(topic or part.topic, incarnation)
        epoch, topic = max(epoch, part.epoch), topic or part.topic
        incarnation = incarnation or part.incarnation
        for id, place in part.places.items():
            if id not in positions or positions[id] < place:
                positions[id] = place
    return Checkpoint({id: positions[id] for id in sorted(positions)}, epoch, topic, incarnation)


class Frontier:
    """A reader of a whole topic. `places` has an entry for every segment of the newest layout, by id; `unresolved` are
    the segments whose position the caller must find out, and report with `resolved`, before anything is read."""

    def __init__(self, start: Checkpoint, layout: Layout, *, topic: str, incarnation: int = 0) -> None:
        start.belongs(topic, incarnation)
        if start.epoch > layout.epoch:
            raise Misuse(
                "the checkpoint was taken from a later layout than the current one",
                checkpoint=start.epoch,
                now=layout.epoch,
            )
        self.layout = layout
        self.topic = topic
        self.incarnation = incarnation or start.incarnation
        self.places: dict[SegmentId, SegmentPosition] = {}
        self.losses: tuple[Loss, ...] = ()
        self._ended: set[SegmentId] = set()
        self._earliest = {one.id for one in layout.segments} if start.kind is Kind.EARLIEST else set()
        self._begin(start)
        active = [one.id for one in layout.segments if one.is_active]
        self.unresolved: set[SegmentId] = {id for id in active if self.places[id].is_done}

    def _begin(self, start: Checkpoint) -> None:
        ahead = _ahead(start.places, self.layout)
        for segment in self.layout.segments:
            if start.kind is Kind.PLACES:
                self.places[segment.id] = start.places.get(segment.id, DONE if segment.id in ahead else START)
            else:
                self.places[segment.id] = START if start.kind is Kind.EARLIEST else DONE
        self.losses = _lost(start.places, self.layout)

    def unknown(self) -> None:
        """Every place is to be found out: reading starts at a time."""
        self.unresolved = set(self.places)

    def resolved(self, segment: SegmentId, place: SegmentPosition) -> None:
        self.unresolved.discard(segment)
        if segment in self.places:
            self.places[segment] = place

    def readable(self) -> list[SegmentId]:
        """Not DONE, and every ancestor is (H-G3); by id."""
        done = {id for id, place in self.places.items() if place.is_done and id not in self.unresolved}
        open_now = [one.id for one in open_segments(self.layout, done)]
        return [id for id in open_now if id not in done and id not in self.unresolved]

    def follow(self, layout: Layout, incarnation: int = 0) -> tuple[Loss, ...]:
        """Follows a newer layout. A segment that is gone and was not DONE is lost: the caller fails or continues behind
        the gap. A plain topic gets its incarnation when it is migrated."""
        if layout.epoch <= self.layout.epoch:
            return ()
        self.incarnation = self.incarnation or incarnation
        losses = _lost(self.places, layout)
        self.layout = layout
        self.places = {one.id: self.places.get(one.id, START) for one in layout.segments}
        self.unresolved = {id for id in self.unresolved if id in layout}
        self._ended = {id for id in self._ended if id in layout}
        self._finish()
        return losses

    def taken(self, segment: SegmentId, place: SegmentPosition) -> None:
        """The application has this message, and all before it in the segment."""
        if segment in self.places:  # else it was pruned, which was reported
            self.places[segment] = max(self.places[segment], place)

    def ended(self, segment: SegmentId) -> bool:
        """Everything of a sealed segment was taken. Is it DONE? Only once the layout says what comes after it."""
        if segment not in self.places:
            return False
        if segment in self.unresolved:
            raise InvalidTransition("a segment ended that no reader had started", segment=segment)
        self._ended.add(segment)
        self._finish()
        return self.places[segment].is_done

    def trimmed(self, segment: SegmentId, start: SegmentPosition, floor: SegmentPosition) -> Loss | None:
        """Everything up to `floor` is deleted, and reading goes on behind `start`. Who came to read what is left, and
        has not begun, lost nothing."""
        if segment not in self.places or not start.is_behind(floor):
            return None
        self.places[segment] = max(self.places[segment].without(floor), floor)
        return None if start == START and segment in self._earliest else Loss(segment, start)

    def gone(self, segment: SegmentId) -> Loss | None:
        """Its topic does not exist any more. A loss, unless it was DONE; what comes after it may be read."""
        place = self.places.get(segment)
        if place is None or place.is_done:
            return None
        self.places[segment] = DONE
        return Loss(segment, place)

    def checkpoint(self) -> Checkpoint:
        if self.unresolved:
            raise InvalidTransition("a checkpoint was requested before the start positions were known")
        return Checkpoint(dict(self.places), self.layout.epoch, self.topic, self.incarnation)

    def _finish(self) -> None:
        for segment in [id for id in self._ended if not self.layout.segment(id).is_active]:
            self.places[segment] = DONE
            self._ended.discard(segment)


def _ahead(places: Collection[SegmentId], layout: Layout) -> set[SegmentId]:
    """Segments that a checkpoint does not name and whose descendants it does: it is done with them. Only checkpoints of
    other clients leave such out."""
    above = ancestors_of_any(layout, [id for id in places if id in layout])
    return {id for id in above if id not in places}


def _lost(places: Mapping[SegmentId, SegmentPosition], layout: Layout) -> tuple[Loss, ...]:
    """Ancestors are pruned before descendants: if segments are missing, one that was being read is among them."""
    return tuple(Loss(id, places[id]) for id in sorted(places) if id not in layout and not places[id].is_done)

"""The record of one scalable topic: the one value that decides, changed by compare-and-set only.

Every change is a method that returns the next value and raises what clients must notice: the epoch with all they can
see and with every take-over, the term with every take-over, the generation of subscriptions with every one made or
removed. Segment ids are burned when a plan is written and never come back, not even after the topic was deleted:
a tombstone keeps the counters (H-C1, H-C5). Its bytes are `codec`'s business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from magnetar.base.errors import AlreadyExists, Conflict
from magnetar.base.ids import Epoch, SegmentId, Term
from magnetar.base.limits import HISTORY_RESHAPES_MAX
from magnetar.layout.layout import Child, Layout, initial
from magnetar.layout.plain_layout import grown, is_plain, synthetic
from magnetar.layout.routing import Routing
from magnetar.layout.segment import Ending, State

NO_TERM = Term(0)


class Lifecycle(StrEnum):
    LIVE = "LIVE"
    DELETING = "DELETING"  # owners admit nothing any more
    GONE = "GONE"  # a tombstone: counters only


class Kind(StrEnum):
    SPLIT = "SPLIT"
    MERGE = "MERGE"
    REBUCKET = "REBUCKET"  # one segment of the same range follows, with another number of entry buckets
    MIGRATE = "MIGRATE"  # the plain topics that it was made of are sealed, segments of its own follow them


class Outcome(StrEnum):
    DONE = "DONE"
    ABORTED = "ABORTED"


@dataclass(frozen=True, slots=True)
class Intent:
    """An announced reshape: the leader finishes it (H-A2). `abandoned` is the reason if it is taken back instead: then
    owners no longer admit its children, and the leader deletes them."""

    op: str
    kind: Kind
    parents: tuple[SegmentId, ...]
    children: tuple[Child, ...]
    term: Term
    created_ms: int = 0
    trigger: str = "manual"
    reason: str = ""
    abandoned: str = ""
    buckets: int = 0  # entry buckets of each child; 0: as the parents have them
    unknown: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class PastReshape:
    """One reshape of the history. Pruning its segments does not erase it."""

    op: str
    kind: Kind
    outcome: Outcome
    parents: tuple[SegmentId, ...]
    children: tuple[SegmentId, ...]
    epoch: Epoch
    at_ms: int
    trigger: str = "manual"
    reason: str = ""
    unknown: str = field(default="", repr=False)
    form: bytes = field(default=b"", init=False, repr=False, compare=False)  # as that of a segment

    def keep(self, form: bytes) -> bytes:
        object.__setattr__(self, "form", form)
        return form


@dataclass(frozen=True, slots=True)
class Record:
    layout: Layout  # with the epoch and the counter of ids
    incarnation: int  # which life of the name this is; calls and checkpoints carry it (H-C1, H-C4)
    lifecycle: Lifecycle = Lifecycle.LIVE
    term: Term = NO_TERM
    subs_gen: int = 0
    intent: Intent | None = None
    routing: Routing | None = None  # None: the first producer pins it
    fence: int = 0  # of the exclusive producer, one for the topic (H-E11)
    exclusive: str = ""  # the name of the exclusive producer; it may be gone
    created_ms: int = 0
    properties: tuple[tuple[str, str], ...] = ()
    autoscale: str = ""  # JSON of the topic's policy
    history: tuple[PastReshape, ...] = ()
    unknown: str = field(default="", repr=False)

    @property
    def epoch(self) -> Epoch:
        return self.layout.epoch

    @property
    def is_live(self) -> bool:
        return self.lifecycle is Lifecycle.LIVE

    @property
    def is_plain(self) -> bool:
        """The record of a plain topic that was not migrated: it stores the data of stream consumers, and no client sees
        it as a scalable topic."""
        return is_plain(self.layout)

    @property
    def is_migrating(self) -> bool:
        return self.intent is not None and self.intent.kind is Kind.MIGRATE and not self.intent.abandoned

    def everything(self) -> Iterator[Child]:
        """Every topic that may hold its messages: of the layout, then of the intent."""
        for segment in self.layout.segments:
            yield Child(segment.id, segment.range, segment.legacy_topic)
        if self.intent is not None:
            yield from self.intent.children

    def own(self) -> Iterator[Child]:
        """What goes with it when it is deleted: a plain topic that was not migrated is not its own."""
        plain = self.is_plain
        return (one for one in self.everything() if not (plain and one.legacy_topic))

    def sealed_by(self, op: str) -> bool:
        """Whether this operation was committed: how a lost answer is found out (H-A7). Its parents may be pruned."""
        done = (past.op for past in reversed(self.history) if past.outcome is Outcome.DONE)
        return op in done or any(one.sealed_by == op for one in self.layout.segments)

    # Changes

    def claimed(self) -> Record:
        return replace(self, term=Term(self.term + 1), layout=self.layout.raised())

    def intended(self, intent: Intent, layout: Layout) -> Record:
        """The plan and the ids it took, in one change (H-A5)."""
        if self.intent is not None:
            raise Conflict("another reshape is under way", op=self.intent.op)
        return replace(self, intent=intent, layout=layout)

    def committed(self, endings: Mapping[SegmentId, Ending], *, fence: int, now_ms: int) -> Record:
        intent = self._intent()
        buckets = 1 if self.routing is Routing.LOW16 else intent.buckets
        layout = self.layout.reshaped(
            intent.parents, intent.children, now_ms=now_ms, op=intent.op, endings=endings, buckets=buckets
        )
        past = _past(intent, Outcome.DONE, layout.shown_epoch, now_ms)
        return replace(
            self, layout=layout, intent=None, fence=max(self.fence, fence), history=_with(self.history, past)
        )

    def abandoned(self, why: str) -> Record:
        return replace(self, intent=replace(self._intent(), abandoned=why))

    def cleared(self, *, now_ms: int) -> Record:
        """Without the abandoned intent; its ids stay burned (H-A10, H-C2)."""
        past = _past(self._intent(), Outcome.ABORTED, self.layout.shown_epoch, now_ms)
        return replace(self, intent=None, history=_with(self.history, past))

    def pruning(self, ids: Sequence[SegmentId]) -> Record:
        """The topics of these sealed segments are being deleted."""
        return replace(self, layout=self.layout.pruning(ids))

    def pruned(self) -> Record:
        """Without the PRUNING segments: their topics are gone (H-H1)."""
        return replace(self, layout=self.layout.removed(*self.going()))

    def going(self) -> tuple[SegmentId, ...]:
        """The PRUNING segments."""
        return tuple(one.id for one in self.layout.segments if one.state is State.PRUNING)

    def grown(self, topics: Sequence[str]) -> Record:
        """A partitioned topic that was not migrated has more partitions."""
        return replace(self, layout=grown(self.layout, topics)) if self.is_plain else self

    def resubscribed(self) -> Record:
        return replace(self, subs_gen=self.subs_gen + 1)

    def held(self, producer: str) -> Record:
        """The record with this exclusive producer; "" if the topic has none."""
        return replace(self, exclusive=producer)

    def pinned(self, routing: Routing) -> Record:
        """The first routing wins (H-E12). Entry buckets use the low half of the hash: if that half already routes to
        segments, a segment cannot be shared by it."""
        if self.routing is not None:
            return self
        layout = self.layout.whole() if routing is Routing.LOW16 else self.layout
        return replace(self, routing=routing, layout=layout.raised())

    def deleting(self) -> Record:
        return replace(self, lifecycle=Lifecycle.DELETING, layout=self.layout.raised())

    def buried(self) -> Record:
        """The tombstone, in place: counters, and nothing else of the life that is over."""
        layout = Layout(Epoch(self.epoch + 1), self.layout.next_segment_id, ())
        return Record(
            layout=layout,
            incarnation=self.incarnation,
            lifecycle=Lifecycle.GONE,
            term=self.term,
            subs_gen=self.subs_gen + 1,
        )

    def _intent(self) -> Intent:
        if self.intent is None:
            raise Conflict("no reshape is under way")
        return self.intent


def created(
    before: Record | None,
    segments: int,
    *,
    now_ms: int,
    properties: Sequence[tuple[str, str]] = (),
    routing: Routing | None = None,
    buckets: int = 1,
) -> Record:
    """A new topic. `before` is what stands at its name: nothing, or a tombstone whose counters go on, so that nothing
    of the first life can match anything of this one (H-C1). A name whose tombstone was reaped differs by its birth."""
    if before is not None and before.lifecycle is not Lifecycle.GONE:
        raise AlreadyExists("the scalable topic already exists")
    return Record(
        layout=initial(
            segments,
            now_ms=now_ms,
            first_id=before.layout.next_segment_id if before else 0,
            epoch=before.epoch + 1 if before else 0,
            buckets=buckets,
        ),
        incarnation=max(now_ms, before.incarnation + 1 if before else 1),
        term=Term(before.term + 1) if before else NO_TERM,
        subs_gen=before.subs_gen + 1 if before else 0,
        routing=routing,
        created_ms=now_ms,
        properties=tuple(sorted(properties)),
    )


def plain(before: Record | None, topics: Sequence[str], *, now_ms: int) -> Record:
    """For a plain topic, or the partitions of one. Ids of its segments are the numbers of partitions, those of later
    segments go on from the life before; its epoch is above that of what clients were shown without it."""
    if before is not None and before.lifecycle is not Lifecycle.GONE:
        raise AlreadyExists("the scalable topic already exists")
    last = before.epoch if before else 0
    layout = synthetic(topics, epoch=max(last, len(topics)) + 1)
    if before is not None:
        layout = replace(layout, next_segment_id=max(layout.next_segment_id, before.layout.next_segment_id))
    return Record(
        layout=layout,
        incarnation=max(now_ms, before.incarnation + 1 if before else 1),
        term=Term(before.term + 1) if before else NO_TERM,
        subs_gen=before.subs_gen + 1 if before else 0,
        created_ms=now_ms,
    )


def _past(intent: Intent, outcome: Outcome, epoch: Epoch, now_ms: int) -> PastReshape:
    ids = tuple(child.id for child in intent.children)
    return PastReshape(
        intent.op, intent.kind, outcome, intent.parents, ids, epoch, now_ms, intent.trigger, intent.reason
    )


def _with(history: tuple[PastReshape, ...], past: PastReshape) -> tuple[PastReshape, ...]:
    """The newest ones. The last of each kind that was carried out stays: cool-downs are counted from it."""
    longer = (*history, past)
    if len(longer) <= HISTORY_RESHAPES_MAX:
        return longer
    last = {one.kind: one for one in longer if one.outcome is Outcome.DONE}
    oldest = next(index for index, one in enumerate(longer) if last.get(one.kind) is not one)
    return longer[:oldest] + longer[oldest + 1 :]

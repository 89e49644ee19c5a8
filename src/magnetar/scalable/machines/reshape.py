# long: one machine and its one table; taking a plan back shares every phase with carrying it out
"""Split and merge one scalable topic, and make a plain one scalable.

Plans, in order, the steps that turn parents into children. The record alone says how far the operation is: any leader
can resume an operation that another one left (`resume`). The machine performs no I/O: answers come in as events, calls
go out as effects. `TABLE` is the whole machine; a late answer that it does not name changes nothing.

The point of no return is the first seal: from there the operation only goes forward (H-A2). Before it, a child that is
permanently refused lets the plan be taken back, but only after every parent was fenced at this term (H-B4). Between the
seal of the last parent and the commit, the hash range accepts no messages. All work that can be done earlier therefore
happens before that gap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from magnetar.base import validation
from magnetar.base.errors import (
    AlreadyExists,
    Busy,
    Conflict,
    InvalidRange,
    LimitExceeded,
    MagnetarError,
    TopicNotFound,
)
from magnetar.base.ids import SegmentId, Term
from magnetar.base.limits import SEGMENTS_ACTIVE_MAX
from magnetar.cluster.calls.topic_calls import Delete, Fence, ProvisionSegment, Seal, SeedDedup, SubscriptionLife
from magnetar.layout.plain_layout import children_of
from magnetar.layout.routing import Routing
from magnetar.scalable.machines.effects import (
    AskOwner,
    CallFenced,
    CallLost,
    CallOvertaken,
    CallRefused,
    ChildProvisioned,
    ChildSeeded,
    Effect,
    Event,
    Finished,
    ListSubscriptions,
    OwnerRequest,
    ParentFenced,
    ParentSealed,
    ReadRecord,
    RecordOvertaken,
    RecordRead,
    RecordWritten,
    Refusal,
    SealSummary,
    SegmentDeleted,
    StepDown,
    StoreCall,
    SubscriptionsListed,
    TermEnded,
    WriteRecord,
    other_term,
)
from magnetar.scalable.machines.table import Transition
from magnetar.scalable.record.codec import encode
from magnetar.scalable.record.record import Intent, Kind, Lifecycle, Record


class Phase(Enum):
    PREFLIGHT = "the request is being checked; nothing has changed"
    INTENT = "the plan is being written"
    PROVISION = "children are being created; parents still accept messages"
    CHECK = "children are ready; the list of subscriptions is being compared"
    SEAL = "parents are being sealed; the operation can no longer be taken back"
    SEED = "children receive the producer state of their parents"
    COMMIT = "the record is being changed"
    FENCE = "the plan is being taken back; parents are being fenced"
    ABANDON = "the record is being changed: the children will be deleted"
    CLEAN = "the children are being deleted"
    CLEAR = "the plan is being removed from the record"
    DONE = "committed"
    REFUSED = "refused; the operation carries the reason"
    LOST = "the term has ended: another leader continues"


FINAL = frozenset({Phase.DONE, Phase.REFUSED, Phase.LOST})


@dataclass(frozen=True, slots=True)
class Request:
    op: str
    kind: Kind
    parents: tuple[SegmentId, ...]
    now_ms: int
    at: int | None = None  # of a split: the first hash of the upper child
    into: int = 2
    trigger: str = "manual"
    reason: str = ""
    cuts: tuple[int, ...] = ()  # of a split into unequal parts: the first hashes of all but the lowest child
    active_max: int = SEGMENTS_ACTIVE_MAX
    active_min: int = 1
    buckets: int = 0  # of a rebucket


@dataclass(frozen=True, slots=True)
class Reshape:
    """Where one operation stands under one term."""

    op: str
    term: Term
    incarnation: int
    now_ms: int
    phase: Phase = Phase.PREFLIGHT
    request: Request | None = None  # None: taken up from the record
    record: Record | None = None  # as last read or written
    version: int = -1
    ready: frozenset[SegmentId] = frozenset()  # children whose cursors equal the list of `record.subs_gen`
    seals: tuple[tuple[SegmentId, SealSummary], ...] = ()  # by segment
    seeded: frozenset[SegmentId] = frozenset()
    fenced: frozenset[SegmentId] = frozenset()
    deleted: frozenset[SegmentId] = frozenset()
    why: str = ""

    @property
    def intent(self) -> Intent:
        if self.record is None or self.record.intent is None:
            raise Conflict("the operation has no plan", op=self.op)
        return self.record.intent

    @property
    def sealed(self) -> frozenset[SegmentId]:
        return frozenset(segment for segment, _ in self.seals)


Step = tuple[Reshape, tuple[Effect, ...]]


def begin(request: Request, *, term: Term, incarnation: int) -> Step:
    """A new operation of the leader of `term`."""
    return Reshape(request.op, term, incarnation, request.now_ms, request=request), (ReadRecord(request.op),)


def resume(record: Record, version: int, *, term: Term, now_ms: int) -> Step:
    """Forward recovery: the operation that the record of a new leader's first write holds (H-A2)."""
    if record.intent is None:
        raise Conflict("the record has no reshape to resume")
    state = Reshape(record.intent.op, term, record.incarnation, now_ms, record=record, version=version)
    if record.intent.abandoned:
        return _clean(replace(state, why=record.intent.abandoned))
    return _provision(state)


def step(state: Reshape, event: Event) -> Step:
    if isinstance(event, TermEnded):
        if event.term != state.term or state.phase in FINAL:
            return state, ()
        return replace(state, phase=Phase.LOST), ()
    if event.op != state.op or state.phase in FINAL:
        return state, ()
    row = TABLE.get((state.phase, type(event)))
    if row is None or other_term(event, state.term):
        return state, ()
    after, effects = row.take(state, event)
    if validation.enabled:
        validate(after)
    return after, effects


def validate(state: Reshape) -> None:
    if state.phase is Phase.PREFLIGHT or state.phase in FINAL:
        return
    intent = state.intent  # every other phase has a plan
    children, parents = {child.id for child in intent.children}, set(intent.parents)
    assert intent.op == state.op, "the plan is this operation's"
    assert state.ready | state.seeded | state.deleted <= children, "only children are made, seeded and deleted"
    assert state.sealed | state.fenced <= parents, "only parents are sealed and fenced"
    if state.phase is not Phase.INTENT:
        assert state.version >= 0, "the record that has the plan has a version"
    if state.phase in (Phase.CHECK, Phase.SEAL, Phase.SEED, Phase.COMMIT):
        assert state.ready == children, f"{state.phase.name}: every child is ready before a parent is sealed (H-A1)"
    if state.phase in (Phase.SEED, Phase.COMMIT):
        assert state.sealed == parents, f"{state.phase.name}: every parent is sealed"
    if state.phase in (Phase.FENCE, Phase.ABANDON, Phase.CLEAN, Phase.CLEAR):
        assert not state.seals, f"{state.phase.name}: after a seal a plan is not taken back (H-A2)"


# Preflight and intent


def _preflight(state: Reshape, event: RecordRead) -> Step:
    """Everything that can fail is checked on the result (H-A9), then the plan is written and its ids used up (H-A5)"""
    stopped = _stopped(state, event)
    if stopped is not None:
        return stopped
    record = event.record
    assert record is not None
    if record.sealed_by(state.op):
        return _done(state)
    if record.intent is not None and record.intent.op == state.op:  # written, and only the answer was lost (H-A7)
        return _provision(replace(state, record=record, version=event.version))
    if record.intent is not None:
        return _refuse(state, Refusal(Busy, f"another reshape is under way: {record.intent.op}"))
    try:
        intended = _planned(state, record)
    except MagnetarError as error:
        return _refuse(state, Refusal(type(error), error.what, tuple(error.facts.items())))
    return (
        replace(state, phase=Phase.INTENT, record=intended),
        (WriteRecord(state.op, event.version, intended),),
    )


def _planned(state: Reshape, record: Record) -> Record:
    request = state.request
    assert request is not None, "a resumed operation has its plan"
    layout, parents = record.layout, request.parents
    if record.is_plain is not (request.kind is Kind.MIGRATE):
        if record.is_plain:
            raise Conflict("a plain topic cannot be split or merged: migrate it first")
        raise AlreadyExists("the topic is already scalable")
    if request.kind is Kind.MIGRATE:
        ranges, parents = children_of(layout), tuple(one.id for one in layout.active)
    elif request.kind is Kind.SPLIT:
        ranges = layout.split_ranges(request.parents[0], at=request.at, into=request.into, cuts=request.cuts)
    elif request.kind is Kind.REBUCKET:
        if record.routing is Routing.LOW16:
            raise InvalidRange("keys of this topic are routed by low16: its segments have one entry bucket each")
        ranges = (layout.rebucket_range(request.parents[0], request.buckets),)
    else:
        parents = tuple(sorted(parents, key=lambda id: layout.segment(id).range.start))
        ranges = (layout.merge_range(parents),)
    if len(layout.active) - len(parents) + len(ranges) > max(request.active_max, len(layout.active)):
        raise LimitExceeded("the topic would have too many active segments", segments_max=request.active_max)
    if len(layout.active) - len(parents) + len(ranges) < min(request.active_min, len(layout.active)):
        raise LimitExceeded("the topic would have too few active segments", segments_min=request.active_min)
    burned, children = layout.burned(ranges)
    intent = Intent(
        request.op,
        request.kind,
        parents,
        children,
        state.term,
        request.now_ms,
        request.trigger,
        request.reason,
        buckets=request.buckets,
    )
    intended = record.intended(intent, burned)
    encode(intended.committed({}, fence=record.fence, now_ms=request.now_ms))
    encode(intended)
    return intended


def _read_again(state: Reshape, _: Event) -> Step:
    """Another writer was faster: read the record again"""
    return replace(state, phase=Phase.PREFLIGHT, record=None), (ReadRecord(state.op),)


def _intended(state: Reshape, event: RecordWritten) -> Step:
    """The plan is stored: the leader of this term, or a later one, will finish it"""
    return _provision(replace(state, version=event.version))


# Provision


def _provision(state: Reshape) -> Step:
    """The generation of subscriptions was noted with the record; only now they are listed (H-D1)."""
    return (
        replace(state, phase=Phase.PROVISION, ready=frozenset()),
        (ListSubscriptions(state.op, state.incarnation),),
    )


def _listed(state: Reshape, event: SubscriptionsListed) -> Step:
    """Each child is created, with exactly the cursors of the list"""
    assert state.record is not None
    request = ProvisionSegment(
        op=state.op,
        term=state.term,
        incarnation=state.incarnation,
        subs_gen=state.record.subs_gen,
        cursors=tuple(SubscriptionLife(one.name, one.life, one.properties) for one in event.subscriptions),
    )
    return state, tuple(AskOwner(child, request) for child in state.intent.children)


def _provisioned(state: Reshape, event: ChildProvisioned) -> Step:
    """With the last child: check once more; if the parents are sealed already, commit"""
    assert state.record is not None
    if event.subs_gen != state.record.subs_gen:
        return state, ()  # made equal to an older list
    state = replace(state, ready=state.ready | {event.segment})
    if state.ready < {child.id for child in state.intent.children}:
        return state, ()
    if state.sealed >= set(state.intent.parents):
        return _seed_or_commit(state)
    return replace(state, phase=Phase.CHECK), (ReadRecord(state.op),)


def _child_refused(state: Reshape, event: CallRefused) -> Step:
    """Taken back while no parent is sealed, after the parents were fenced (H-A10, H-B4); otherwise repeated"""
    if state.seals:
        return state, (event.call,)
    return replace(state, phase=Phase.FENCE, why=event.why, fenced=frozenset()), _fences(state, state.intent.parents)


def _checked(state: Reshape, event: RecordRead) -> Step:
    """The store answers (H-A11) and the list is unchanged: seal. The list has changed: provision again"""
    stopped = _stopped(state, event)
    if stopped is not None:
        return stopped
    moved = _subscriptions_moved(state, event)
    state = replace(state, record=event.record, version=event.version)
    if moved:
        return _provision(state)
    return replace(state, phase=Phase.SEAL), _seals(state, state.intent.parents)


# Seal, seed, commit


def _seals(state: Reshape, parents: Iterable[SegmentId]) -> tuple[AskOwner, ...]:
    return _to_owners(state, parents, Seal(op=state.op, term=state.term))


def _fences(state: Reshape, parents: Iterable[SegmentId]) -> tuple[AskOwner, ...]:
    return _to_owners(state, parents, Fence(op=state.op, term=state.term, incarnation=state.incarnation))


def _to_owners(state: Reshape, parents: Iterable[SegmentId], request: Seal | Fence) -> tuple[AskOwner, ...]:
    assert state.record is not None
    return tuple(AskOwner(state.record.layout.child(id), request) for id in parents)


def _sealed(state: Reshape, event: ParentSealed) -> Step:
    """After the last parent: pass on the producer state, or commit"""
    if event.segment in state.sealed:
        return state, ()
    state = replace(state, seals=tuple(sorted([*state.seals, (event.segment, event.seal)], key=lambda pair: pair[0])))
    if state.sealed < set(state.intent.parents):
        return state, ()
    return _seed_or_commit(state)


def _seed_or_commit(state: Reshape) -> Step:
    children = state.intent.children
    if any(seal.dedup for _, seal in state.seals) and not state.seeded >= {child.id for child in children}:
        request = SeedDedup(
            op=state.op,
            term=state.term,
            incarnation=state.incarnation,
            dedups=tuple(seal.dedup for _, seal in state.seals),
            fence=max(seal.fence for _, seal in state.seals),
        )
        return replace(state, phase=Phase.SEED), tuple(AskOwner(child, request) for child in children)
    return _commit(state)


def _seeded(state: Reshape, event: ChildSeeded) -> Step:
    """After the last child: commit"""
    state = replace(state, seeded=state.seeded | {event.segment})
    if state.seeded < {child.id for child in state.intent.children}:
        return state, ()
    return _commit(state)


def _commit(state: Reshape) -> Step:
    """Valid only over the version whose term, operation and generation were seen (H-A6, H-D1)."""
    assert state.record is not None
    committed = state.record.committed(
        {segment: seal.ending for segment, seal in state.seals},
        fence=max(seal.fence for _, seal in state.seals),
        now_ms=state.now_ms,
    )
    return replace(state, phase=Phase.COMMIT), (WriteRecord(state.op, state.version, committed),)


def _committed(state: Reshape, _: RecordWritten) -> Step:
    """Done. Watchers read it from the record (H-A4)"""
    return _done(state)


def _look(state: Reshape, _: Event) -> Step:
    """The record was changed, or the outcome is unknown: read it"""
    return state, (ReadRecord(state.op),)


def _commit_read(state: Reshape, event: RecordRead) -> Step:
    """Sealed by this operation means success (H-A7); a new generation: provision again; otherwise commit again"""
    record = event.record
    if record is not None and record.incarnation == state.incarnation and record.sealed_by(state.op):
        return _done(state)
    stopped = _stopped(state, event)
    if stopped is not None:
        return stopped
    moved = _subscriptions_moved(state, event)
    state = replace(state, record=record, version=event.version)
    return _provision(state) if moved else _commit(state)


# Taking a plan back


def _fenced(state: Reshape, event: ParentFenced) -> Step:
    """With a sealed parent the operation can only go forward; after the last open one the plan is given up"""
    if event.sealed:
        return _provision(state)
    state = replace(state, fenced=state.fenced | {event.segment})
    if state.fenced < set(state.intent.parents):
        return state, ()
    return replace(state, phase=Phase.ABANDON), (ReadRecord(state.op),)


def _abandon_read(state: Reshape, event: RecordRead) -> Step:
    """Written first, so that owners no longer admit the children"""
    stopped = _stopped(state, event)
    if stopped is not None:
        return stopped
    assert event.record is not None
    abandoned = event.record.abandoned(state.why)
    return replace(state, record=abandoned), (WriteRecord(state.op, event.version, abandoned),)


def _abandoned(state: Reshape, event: RecordWritten) -> Step:
    """The children are deleted"""
    return _clean(replace(state, version=event.version))


def _clean(state: Reshape) -> Step:
    request = Delete(op=state.op, term=state.term, force=True)
    calls = tuple(AskOwner(child, request) for child in state.intent.children)
    return replace(state, phase=Phase.CLEAN, deleted=frozenset()), calls


def _child_deleted(state: Reshape, event: SegmentDeleted) -> Step:
    """After the last child the plan is removed too"""
    state = replace(state, deleted=state.deleted | {event.segment})
    if state.deleted < {child.id for child in state.intent.children}:
        return state, ()
    return replace(state, phase=Phase.CLEAR), (ReadRecord(state.op),)


def _clear_read(state: Reshape, event: RecordRead) -> Step:
    """The ids stay used up (H-C2)"""
    record = event.record
    if record is not None and record.incarnation == state.incarnation and record.intent is None and record.is_live:
        return _refuse(state, Refusal(Conflict, state.why))  # cleared, and the answer was lost
    stopped = _stopped(state, event)
    if stopped is not None:
        return stopped
    assert record is not None
    return state, (WriteRecord(state.op, event.version, record.cleared(now_ms=state.now_ms)),)


def _cleared(state: Reshape, _: RecordWritten) -> Step:
    """The caller gets the reason"""
    return _refuse(state, Refusal(Conflict, state.why))


# Everywhere


def _lost_call(state: Reshape, event: CallLost) -> Step:
    """The outcome is unknown: after a write the record is read, any other call is repeated (H-A7)"""
    if isinstance(event.call, WriteRecord):
        return state, (ReadRecord(state.op),)
    assert state.record is not None or isinstance(event.call, ReadRecord)
    request = event.call.request if isinstance(event.call, AskOwner) else event.call
    if isinstance(request, ProvisionSegment) and state.record and request.subs_gen != state.record.subs_gen:
        return state, ()  # of an older list
    return state, (event.call,) if isinstance(request, REPEATED[state.phase]) else ()


def _overtaken_read(state: Reshape, event: RecordRead) -> Step:
    """Continues from the record as it is now"""
    stopped = _stopped(state, event)
    if stopped is not None:
        return stopped
    moved = _subscriptions_moved(state, event)
    state = replace(state, record=event.record, version=event.version)
    if moved or state.phase is Phase.PROVISION:
        return _provision(state)
    if state.phase is Phase.SEED:
        return _seed_or_commit(state)
    parents = state.intent.parents
    if state.phase is Phase.SEAL:
        return state, _seals(state, [id for id in parents if id not in state.sealed])
    return state, _fences(state, [id for id in parents if id not in state.fenced])


def _term_over(state: Reshape, event: CallFenced) -> Step:
    """The owner knows a higher term: this leadership ends (H-B3)"""
    assert isinstance(event.call, AskOwner)
    return _lose(state, f"{type(event.call.request).__name__} was fenced")


def _stopped(state: Reshape, event: RecordRead) -> Step | None:
    """Checks that end an operation in any phase."""
    record = event.record
    if record is None or record.incarnation != state.incarnation or record.lifecycle is not Lifecycle.LIVE:
        return _refuse(state, Refusal(TopicNotFound, "the topic was deleted during the operation"))
    if record.term != state.term:
        return _lose(state, f"term {record.term} has taken over")
    if state.phase is not Phase.PREFLIGHT and (record.intent is None or record.intent.op != state.op):
        return _refuse(state, Refusal(Conflict, "the record no longer has the plan"))
    return None


def _subscriptions_moved(state: Reshape, event: RecordRead) -> bool:
    assert state.record is not None
    assert event.record is not None
    return event.record.subs_gen != state.record.subs_gen


def _done(state: Reshape) -> Step:
    return replace(state, phase=Phase.DONE), (Finished(state.op),)


def _refuse(state: Reshape, refusal: Refusal) -> Step:
    return replace(state, phase=Phase.REFUSED, why=refusal.what), (Finished(state.op, refusal),)


def _lose(state: Reshape, why: str) -> Step:
    return replace(state, phase=Phase.LOST, why=why), (StepDown(state.term, why),)


P = Phase
_ENDS = (P.REFUSED, P.LOST)
REPEATED: dict[Phase, tuple[type[StoreCall | OwnerRequest], ...]] = {
    P.PREFLIGHT: (ReadRecord,),
    P.INTENT: (),
    P.PROVISION: (ReadRecord, ListSubscriptions, ProvisionSegment),
    P.CHECK: (ReadRecord,),
    P.SEAL: (ReadRecord, Seal),
    P.SEED: (ReadRecord, SeedDedup),
    P.COMMIT: (ReadRecord,),
    P.FENCE: (ReadRecord, Fence),
    P.ABANDON: (ReadRecord,),
    P.CLEAN: (Delete,),
    P.CLEAR: (ReadRecord,),
}
TABLE: dict[tuple[Phase, type[Event]], Transition[Reshape, Phase, Effect]] = {
    (P.PREFLIGHT, RecordRead): Transition(_preflight, (P.INTENT, P.PROVISION, P.DONE, *_ENDS)),
    (P.INTENT, RecordWritten): Transition(_intended, (P.PROVISION,)),
    (P.INTENT, RecordOvertaken): Transition(_read_again, (P.PREFLIGHT,)),
    (P.INTENT, CallLost): Transition(_read_again, (P.PREFLIGHT,)),
    (P.PROVISION, SubscriptionsListed): Transition(_listed, (P.PROVISION,)),
    (P.PROVISION, ChildProvisioned): Transition(_provisioned, (P.PROVISION, P.CHECK, P.SEED, P.COMMIT)),
    (P.PROVISION, CallRefused): Transition(_child_refused, (P.PROVISION, P.FENCE)),
    **{(phase, CallOvertaken): Transition(_look, (phase,)) for phase in (P.PROVISION, P.SEAL, P.SEED, P.FENCE)},
    **{
        (phase, RecordRead): Transition(_overtaken_read, (phase, P.PROVISION, P.COMMIT, *_ENDS))
        for phase in (P.PROVISION, P.SEAL, P.SEED, P.FENCE)
    },
    (P.CHECK, RecordRead): Transition(_checked, (P.PROVISION, P.SEAL, *_ENDS)),
    (P.SEAL, ParentSealed): Transition(_sealed, (P.SEAL, P.SEED, P.COMMIT)),
    (P.SEED, ChildSeeded): Transition(_seeded, (P.SEED, P.COMMIT)),
    (P.COMMIT, RecordWritten): Transition(_committed, (P.DONE,)),
    (P.COMMIT, RecordOvertaken): Transition(_look, (P.COMMIT,)),
    (P.COMMIT, RecordRead): Transition(_commit_read, (P.DONE, P.PROVISION, P.COMMIT, *_ENDS)),
    (P.FENCE, ParentFenced): Transition(_fenced, (P.FENCE, P.PROVISION, P.ABANDON)),
    (P.ABANDON, RecordRead): Transition(_abandon_read, (P.ABANDON, *_ENDS)),
    (P.ABANDON, RecordWritten): Transition(_abandoned, (P.CLEAN,)),
    (P.ABANDON, RecordOvertaken): Transition(_look, (P.ABANDON,)),
    (P.CLEAN, SegmentDeleted): Transition(_child_deleted, (P.CLEAN, P.CLEAR)),
    (P.CLEAR, RecordRead): Transition(_clear_read, (P.CLEAR, *_ENDS)),
    (P.CLEAR, RecordWritten): Transition(_cleared, (P.REFUSED,)),
    (P.CLEAR, RecordOvertaken): Transition(_look, (P.CLEAR,)),
    **{
        (phase, CallLost): Transition(_lost_call, (phase,))
        for phase in Phase
        if phase not in FINAL and phase is not P.INTENT
    },
    **{
        (phase, CallFenced): Transition(_term_over, (P.LOST,))
        for phase in (P.PROVISION, P.SEAL, P.SEED, P.FENCE, P.CLEAN)
    },
}

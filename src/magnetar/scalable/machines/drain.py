"""Records which sealed segments a subscription has finished permanently: the latch.

The owner reports "drained" when everything up to the end is acknowledged AND on disk (`drained`), so that a crash
cannot undo it (H-F2). The controller writes the latch into the subscription's record, and only then releases the
children (H-F3). A latched segment is never served again, except after a seek. A seek raises `seeks`, which invalidates
all answers from before it (H-D7). The controller waits for the owner's answer; polling is only the safety net (H-F14).
Takes events, returns effects.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from magnetar.base import validation
from magnetar.base.ids import Position, SegmentId
from magnetar.layout.layout import Layout
from magnetar.layout.segment import State
from magnetar.scalable.record.subscription import Subscription


def drained(end: Position, durable: Position) -> bool:
    """The owner's rule. `durable` is the cursor as it would come back after a crash, never as it is in memory."""
    return durable >= end


# Events


@dataclass(frozen=True, slots=True)
class LayoutSeen:
    """After a take-over, and whenever the layout has changed."""

    layout: Layout


@dataclass(frozen=True, slots=True)
class SegmentDrained:
    """The owner's answer, after flushing the cursor."""

    segment: SegmentId
    life: int
    seeks: int


@dataclass(frozen=True, slots=True)
class LatchesStored:
    """The current record of the subscription: after our write, another writer's, or one with an unknown outcome."""

    subscription: Subscription


@dataclass(frozen=True, slots=True)
class PollDue:
    pass


# Effects


@dataclass(frozen=True, slots=True)
class AskDrained:
    """Ask the owner; it answers immediately if the segment is drained, otherwise when that happens."""

    segment: SegmentId
    life: int
    seeks: int


@dataclass(frozen=True, slots=True)
class StoreLatches:
    """Compare-and-set on the subscription's record. Any outcome is reported as `LatchesStored` with the record."""

    latched: tuple[SegmentId, ...]


@dataclass(frozen=True, slots=True)
class Reassign:
    """What may be given out has changed."""


Event = LayoutSeen | SegmentDrained | LatchesStored | PollDue
Effect = AskDrained | StoreLatches | Reassign


@dataclass(frozen=True, slots=True)
class Drain:
    life: int
    seeks: int
    latched: frozenset[SegmentId] = frozenset()  # as stored
    unstored: frozenset[SegmentId] = frozenset()  # drained, not stored yet
    sealed: frozenset[SegmentId] = frozenset()  # of the layout last seen, without those that are being pruned


Step = tuple[Drain, tuple[Effect, ...]]


def restore(subscription: Subscription) -> Drain:
    """From the record alone: nothing that a controller remembered counts (H-F11)."""
    return Drain(subscription.life, subscription.seeks, frozenset(subscription.latched))


def latch(subscription: Subscription, *, seeks: int, latched: tuple[SegmentId, ...], layout: Layout) -> Subscription:
    """A subscription that a seek has changed in between keeps its latches; the drain belongs to the state before. A
    pruned segment needs no latch: the list does not grow with the history of the topic."""
    if subscription.seeks != seeks:
        return subscription
    both = {*subscription.latched, *latched}
    return replace(
        subscription, latched=tuple(sorted(id for id in both if id in layout or id >= layout.next_segment_id))
    )


def step(state: Drain, event: Event) -> Step:
    after, effects = _step(state, event)
    if validation.enabled:
        validate(after)
        assert after.life == state.life, "a drain belongs to one incarnation of the subscription"
        kept = state.latched & after.sealed  # that of a pruned segment is dropped
        assert after.latched >= kept or after.seeks > state.seeks, "only a seek takes a latch back (H-D7)"
    return after, effects


def validate(state: Drain) -> None:
    assert not state.latched & state.unstored, "a stored latch is not stored again"
    assert state.life >= 0, "the subscription has an incarnation"
    assert state.seeks >= 0, "seeks are counted from 0"


def _step(state: Drain, event: Event) -> Step:
    match event:
        case LayoutSeen(layout=layout):
            sealed = frozenset(one.id for one in layout.segments if one.state is State.SEALED)
            listed = {one.id for one in layout.segments}
            state = replace(state, sealed=sealed, unstored=state.unstored & listed)
            return state, (*_ask(state), Reassign())
        case PollDue():
            return state, _ask(state)
        case SegmentDrained(segment=segment, life=life, seeks=seeks):
            if (life, seeks) != (state.life, state.seeks) or segment in state.latched | state.unstored:
                return state, ()  # from before a seek, from another incarnation, or known
            return _store(replace(state, unstored=state.unstored | {segment}))
        case LatchesStored(subscription=stored):
            return _stored(state, stored)


def _stored(state: Drain, stored: Subscription) -> Step:
    if stored.life != state.life:
        return state, ()  # another subscription of this name: its own controller sees to it
    if stored.seeks != state.seeks:
        state = replace(state, seeks=stored.seeks, latched=frozenset(stored.latched), unstored=frozenset())
        return state, (*_ask(state), Reassign())
    latched = frozenset(stored.latched)
    changed = latched != state.latched
    state = replace(state, latched=latched, unstored=state.unstored - latched)
    effects: tuple[Effect, ...] = (Reassign(),) if changed else ()
    return (state, (*effects, *_store(state)[1])) if state.unstored else (state, effects)


def _store(state: Drain) -> Step:
    return state, (StoreLatches(tuple(sorted(state.latched | state.unstored))),)


def _ask(state: Drain) -> tuple[Effect, ...]:
    left = sorted(state.sealed - state.latched - state.unstored)
    return tuple(AskDrained(segment, state.life, state.seeks) for segment in left)

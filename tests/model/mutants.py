"""Deciders and owners with one safeguard taken away. None of them is in the product: each stands beside it, and a test
shows that the world around it breaks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from magnetar.base.ids import SegmentId
from magnetar.layout.layout import initial
from magnetar.scalable.machines import admission, pruning, reshape, takeover
from magnetar.scalable.machines import effects as machines_effects
from magnetar.scalable.record import record
from magnetar.scalable.record.record import Record
from tests.model.world import Rules


def _seen(event: Any, **changes: Any) -> Any:
    """A read whose record looks different."""
    return replace(event, record=replace(event.record, **changes))


def no_forward_recovery() -> Rules:
    def step(state: Any, event: Any) -> Any:
        after, effects = takeover.step(state, event)
        return after, tuple(one for one in effects if not isinstance(one, takeover.ResumeReshape))

    return Rules(takeover_step=step)


def two_intents_at_once() -> Rules:
    def step(state: Any, event: Any) -> Any:
        if state.phase is reshape.Phase.PREFLIGHT and isinstance(event, machines_effects.RecordRead) and event.record:
            event = _seen(event, intent=None)
        return reshape.step(state, event)

    return Rules(reshape_step=step)


def no_generation_check_at_commit() -> Rules:
    """Neither the commit nor the owner (who would tell it earlier) looks whether the list has changed."""

    def listed(current: Record | None, op: str, segment: SegmentId, *, incarnation: int, subs_gen: int) -> bool:
        gen = current.subs_gen if current is not None else subs_gen
        return admission.check_provision(current, op, segment, incarnation=incarnation, subs_gen=gen)

    def step(state: Any, event: Any) -> Any:
        late = state.phase in (reshape.Phase.CHECK, reshape.Phase.COMMIT)
        if late and isinstance(event, machines_effects.RecordRead) and event.record:
            event = _seen(event, subs_gen=state.record.subs_gen)
        return reshape.step(state, event)

    return Rules(reshape_step=step, check_provision=listed)


def old_lists_taken_by_the_owner() -> Rules:
    return Rules(check_provision=no_generation_check_at_commit().check_provision)


def no_listing_check_at_the_owner() -> Rules:
    return Rules(check_provision=lambda *_, **__: True)


def no_tombstone() -> Rules:
    return Rules(tombstone=False)


def id_counter_restarted() -> Rules:
    def created(before: Record | None, segments: int, *, now_ms: int) -> Record:
        after = record.created(before, segments, now_ms=now_ms)
        return replace(after, layout=initial(segments, now_ms=now_ms, epoch=after.epoch))

    return Rules(created=created)


def no_term() -> Rules:
    def step(state: Any, event: Any) -> Any:
        if isinstance(event, machines_effects.RecordRead) and event.record:
            state = replace(state, term=event.record.term)
        return reshape.step(state, event)

    return Rules(reshape_step=step, check_term=lambda *_: None)


def leadership_believed_without_proof() -> Rules:
    return Rules(proof=False)


def abort_without_fencing() -> Rules:
    def step(state: Any, event: Any) -> Any:
        after, effects = reshape.step(state, event)
        if after.phase is reshape.Phase.FENCE and state.phase is reshape.Phase.PROVISION:
            for segment in after.intent.parents:
                after, effects = reshape.step(
                    after, machines_effects.ParentFenced(after.op, SegmentId(segment), sealed=False)
                )
        return after, effects

    return Rules(reshape_step=step)


def forgotten_before_deleted() -> Rules:
    """The record forgets segments before their topics are deleted."""

    def step(state: Any, event: Any) -> Any:
        after, effects = pruning.step(state, event)
        if after.phase is pruning.Phase.MARK and effects:
            [write] = effects
            effects = (replace(write, record=write.record.pruned()),)
        return after, effects

    return Rules(pruning_step=step)

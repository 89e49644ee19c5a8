"""A migration is the machine of splits and merges, whose parents are plain topics."""

from __future__ import annotations

import pytest

from magnetar.base.ids import Position, SegmentId, Term
from magnetar.layout.segment import Ending
from magnetar.scalable.machines import reshape
from magnetar.scalable.machines.effects import (
    ChildProvisioned,
    ParentSealed,
    RecordRead,
    RecordWritten,
    SealSummary,
    SubscriptionsListed,
)
from magnetar.scalable.machines.reshape import Phase, Request, step
from magnetar.scalable.record.record import Kind, Record, created, plain

OP = "op-1"
SEAL = SealSummary(Ending(Position(7, 41), messages=42))


def asked(record: Record, kind: Kind):
    request = Request(OP, kind, (SegmentId(0),) if kind is Kind.SPLIT else (), now_ms=5)
    state, _ = reshape.begin(request, term=Term(1), incarnation=record.incarnation)
    return step(state, RecordRead(OP, record, 4))


PARTS = ("persistent://public/default/x-partition-0", "persistent://public/default/x-partition-1")


def test_migration_seals_plain_topics_and_covers_whole_ring():
    record = plain(None, PARTS, now_ms=1).claimed()
    state, effects = asked(record, Kind.MIGRATE)
    (write,) = effects
    intended = write.record
    assert intended.intent is not None
    assert intended.intent.parents == (0, 1)
    state, _ = step(state, RecordWritten(OP, 5))
    state, effects = step(state, SubscriptionsListed(OP, ()))
    assert [call.segment.id for call in effects] == [2, 3]
    for child in (SegmentId(2), SegmentId(3)):
        state, _ = step(state, ChildProvisioned(OP, child, 0))
    state, effects = step(state, RecordRead(OP, intended, 5))
    assert [call.segment.id for call in effects] == [0, 1]
    state, effects = step(state, ParentSealed(OP, SegmentId(0), SEAL))
    assert effects == (), "one of two is sealed"
    state, effects = step(state, ParentSealed(OP, SegmentId(1), SEAL))
    (write,) = effects
    after = write.record
    assert [one.legacy_topic for one in after.layout.segments] == [*PARTS, "", ""]
    assert [one.parents for one in after.layout.active] == [(0, 1), (0, 1)]
    assert after.history[-1].kind is Kind.MIGRATE


@pytest.mark.parametrize(
    ("record", "kind"),
    [(plain(None, PARTS, now_ms=1), Kind.SPLIT), (created(None, 1, now_ms=1), Kind.MIGRATE)],
)
def test_plain_topic_is_not_split_and_scalable_not_migrated(record: Record, kind: Kind):
    state, effects = asked(record.claimed(), kind)
    assert state.phase is Phase.REFUSED
    (answer,) = effects
    assert answer.refusal.error().http_status == 409

"""Rebucket: a reshape with one child of the same range, which has another number of entry buckets."""

from __future__ import annotations

import pytest

from magnetar.base.errors import InvalidRange
from magnetar.layout.routing import Routing
from magnetar.scalable.machines.reshape import Phase
from magnetar.scalable.record.codec import decode, encode
from magnetar.scalable.record.record import Kind, created
from tests.unit.scalable.machines.test_reshape import ROOT, a_request, asked, written


def test_rebucket_replaces_segment_whoever_finishes_it():
    record = created(None, 1, now_ms=1, buckets=4).claimed()
    request = a_request(kind=Kind.REBUCKET, buckets=16)
    _, effects = asked(record, request)
    intended = written(effects)
    assert (intended.intent.kind, intended.intent.buckets) == (Kind.REBUCKET, 16)
    [child] = intended.intent.children
    assert child.range == record.layout.segment(ROOT).range
    after = decode(encode(intended)).committed({}, fence=0, now_ms=5).layout  # as the next leader finds it
    assert (after.segment(ROOT).is_active, after.segment(child.id).buckets) == (False, 16)
    assert after.segment(child.id).parents == (ROOT,)


@pytest.mark.parametrize(("buckets", "routing"), [(4, None), (0, None), (1025, None), (16, Routing.LOW16)])
def test_useless_or_impossible_rebucket_is_refused_without_effect(buckets, routing):
    record = created(None, 1, now_ms=1, buckets=4)
    record = record.pinned(routing).claimed() if routing else record.claimed()
    state, effects = asked(record, a_request(kind=Kind.REBUCKET, buckets=buckets))
    assert state.phase is Phase.REFUSED
    assert effects[0].refusal.kind is InvalidRange

"""The record of a subscription survives its bytes."""

from __future__ import annotations

import json

import pytest

from magnetar.base.errors import Corrupt
from magnetar.base.ids import SegmentId
from magnetar.scalable.record.subscription import (
    DepartedMember,
    Hold,
    Member,
    Start,
    StreamPlan,
    Subscription,
    SubscriptionState,
    Type,
    decode,
    encode,
)

RICH = Subscription(
    "s/1",
    Type.STREAM,
    life=3,
    incarnation=9,
    start=Start.LATEST,
    standing=SubscriptionState.DELETING,
    ready=True,
    seeks=2,
    latched=(SegmentId(0), SegmentId(10)),
    members=(Member("a", 1), Member("b", 4, shares=True)),
    plan=StreamPlan(
        6,
        (
            Hold(SegmentId(2), "a", "b"),
            Hold(SegmentId(11), "", "a"),
            Hold(SegmentId(12), "a", "", (), ("a", "b")),
            Hold(SegmentId(13), "", "", ("a", "b"), ("a", "b")),
            Hold(SegmentId(14), "", "b", ("b",)),
        ),
        (DepartedMember(SegmentId(2), "c", 77),),
    ),
    properties=(("colour", "blue"), ("team", "x")),
)


@pytest.mark.parametrize("one", [RICH, Subscription("s", Type.QUEUE, 0, 1)])
def test_subscription_comes_back_as_it_was(one):
    assert decode(one.name, encode(one)) == one


def test_unknown_fields_survive_and_newer_version_is_refused():
    body = json.loads(encode(RICH))
    body["later"] = [1]
    assert json.loads(encode(decode("s", json.dumps(body).encode())))["later"] == [1]
    body["v"] = 2
    with pytest.raises(Corrupt, match="upgrade"):
        decode("s", json.dumps(body).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"v":1}', encode(RICH).replace(b'"2":', b'"x":')])
def test_other_bytes_are_corrupt(data):
    with pytest.raises(Corrupt):
        decode("s", data)

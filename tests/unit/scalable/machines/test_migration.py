"""What of plain topics' subscriptions is carried over, as what, and who may consume them then."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Busy, ConsumerBusy, Refused
from magnetar.base.ids import SegmentId
from magnetar.cluster.calls.topic_calls import PlainClient, PlainFacts, PlainSubscription
from magnetar.scalable.machines.migration import (
    MigratedSubscription,
    carried,
    check_consumer,
    check_left,
    left_behind,
    missing,
    refusal,
)
from magnetar.scalable.record.subscription import Hold, StreamPlan, Subscription, SubscriptionState, Type
from magnetar.topic.subscriptions.subscription import EXCLUSIVE, FAILOVER, KEY_SHARED, SHARED


def facts(*subscriptions: tuple[str, int], clients: tuple[PlainClient, ...] = ()) -> PlainFacts:
    return PlainFacts(tuple(PlainSubscription(*one) for one in subscriptions), clients)


def one(type: Type = Type.STREAM, **more: object) -> Subscription:
    return Subscription("s", type, 0, 1, **{"ready": True, **more})


@pytest.mark.parametrize(
    ("kind", "type"),
    [(EXCLUSIVE, Type.STREAM), (FAILOVER, Type.STREAM), (SHARED, Type.QUEUE), (KEY_SHARED, Type.QUEUE)],
)
def test_who_is_attached_says_of_which_type_subscription_is(kind: int, type: Type):
    assert carried([facts(("s", kind))]) == [MigratedSubscription("s", type, undecided=False)]


def test_unattached_subscription_is_undecided_across_partitions():
    assert carried([facts(("a", -1), ("b", -1)), facts(("b", EXCLUSIVE))]) == [
        MigratedSubscription("a", Type.QUEUE, undecided=True),
        MigratedSubscription("b", Type.STREAM, undecided=False),
    ]


def test_subscription_on_one_partition_only_is_carried_too():
    assert [found.name for found in carried([facts(), facts(("s", SHARED))])] == ["s"]


def test_finished_record_is_not_repeated_and_half_made_is():
    wanted = [MigratedSubscription("s", Type.QUEUE, undecided=True)]
    assert missing(wanted, []) == wanted
    assert missing(wanted, [one(ready=False)]) == wanted
    assert missing(wanted, [one()]) == []
    assert missing(wanted, [one(ready=False, standing=SubscriptionState.DELETING)]) == [], "it goes"


def test_some_stranded_clients_are_named_and_all_counted():
    clients = tuple(PlainClient(f"p{number}", "1.2.3.4:5", "Pulsar-CPP-v4") for number in range(5))
    follower = PlainClient("v5", "1.2.3.4:5", "Pulsar-Java-v5", "sub", follows=True)
    left = left_behind([facts(clients=(*clients, follower))])
    assert left == list(clients)
    said = refusal(left)
    assert "producer p2 at 1.2.3.4:5 (Pulsar-CPP-v4) and 2 more" in said
    assert "consumer c of sub" in refusal([PlainClient("c", "1.2.3.4:5", "", "sub")])


def test_migrated_topic_refuses_other_type_and_accepts_same_kind():
    assert check_consumer(one(), FAILOVER)
    assert check_consumer(one(Type.QUEUE), KEY_SHARED)
    assert not check_consumer(one(ready=False), EXCLUSIVE)
    assert not check_consumer(None, SHARED)
    assert not check_consumer(one(Type.QUEUE, undecided=True), EXCLUSIVE), "the first one says it"
    with pytest.raises(Refused):
        check_consumer(one(), SHARED)
    with pytest.raises(Busy):
        check_consumer(one(standing=SubscriptionState.DELETING), EXCLUSIVE)


@pytest.mark.parametrize(
    "hold",
    [
        Hold(SegmentId(0), "a", "a"),
        Hold(SegmentId(0), "a", ""),
        Hold(SegmentId(0), "", "a"),
        Hold(SegmentId(0), "", "", ("a", "b"), ("a", "b")),
    ],
)
def test_planned_stream_segment_excludes_old_consumers(hold: Hold):
    taken = one(plan=StreamPlan(holds=(hold,)))
    with pytest.raises(ConsumerBusy, match="stream consumer a"):
        check_left(taken, SegmentId(0))
    check_left(taken, SegmentId(1))
    check_left(one(), SegmentId(0))

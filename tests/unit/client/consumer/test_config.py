"""What a consumer may be asked to be, and how SUBSCRIBE says it."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Misuse
from magnetar.client.consumer.config import (
    ConsumerConfig,
    DeadLetters,
    InitialPosition,
    KeyShared,
    SubscriptionType,
    by_buckets,
    subscribe_command,
)
from magnetar.client.message import MessageId
from magnetar.wire.proto import pb

SHARED, KEYED = SubscriptionType.SHARED, SubscriptionType.KEY_SHARED


@pytest.mark.parametrize(
    "wrong",
    [
        {"subscription": ""},
        {"queue_messages": -1},
        {"queue_messages": 10**9},
        {"queue_bytes": 0},
        {"ack_group_s": -1},
        {"ack_group_max": 0},
        {"ack_timeout_s": -1},
        {"key_shared": KeyShared()},
        {"read_compacted": True, "type": SHARED},
        {"dead_letters": DeadLetters()},
        {"rollback_s": -1},
    ],
)
def test_misuse_is_refused_before_anything_is_sent(wrong):
    with pytest.raises(Misuse):
        ConsumerConfig(**{"subscription": "s", **wrong})


@pytest.mark.parametrize("wrong", [(-1, 5), (6, 5), (0, 65536)])
def test_sticky_ranges_lie_within_slots(wrong):
    with pytest.raises(Misuse):
        KeyShared(ranges=(wrong,))


def test_dead_letters_count_from_nothing_up():
    with pytest.raises(Misuse):
        DeadLetters(redeliveries_max=-1)
    assert ConsumerConfig("s", type=SHARED, dead_letters=DeadLetters(0)).dead_letters.redeliveries_max == 0


def test_queue_is_shared_out_over_many_topics():
    asked = ConsumerConfig("s", queue_messages=1000)
    assert asked.queue_of(1) == 1000
    assert asked.queue_of(10) == 1000
    assert asked.queue_of(100) == 500
    assert asked.queue_of(1_000_000) == 1
    assert ConsumerConfig("s", queue_messages=0).queue_of(1) == 0


def command(asked: ConsumerConfig, **more) -> pb.CommandSubscribe:
    given = {"schema": None, "start": None, "epoch": 0, **more}
    return subscribe_command(asked, "persistent://public/default/t", 7, 9, **given).subscribe


def test_everything_is_said():
    asked = ConsumerConfig(
        "sub",
        type=SubscriptionType.FAILOVER,
        name="me",
        initial_position=InitialPosition.EARLIEST,
        priority=2,
        properties={"a": "1"},
        subscription_properties={"b": "2"},
        read_compacted=True,
        replicated=True,
    )
    said = command(asked, schema=pb.Schema(name="x", schema_data=b"", type=pb.Schema.String), epoch=4)
    assert (said.topic, said.subscription, said.consumer_id, said.request_id) == (
        "persistent://public/default/t",
        "sub",
        7,
        9,
    )
    assert said.subType == pb.CommandSubscribe.Failover
    assert said.initialPosition == pb.CommandSubscribe.Earliest
    assert (said.consumer_name, said.priority_level, said.durable, said.read_compacted) == ("me", 2, True, True)
    assert (said.replicate_subscription_state, said.consumer_epoch) == (True, 4)
    assert [(item.key, item.value) for item in said.metadata] == [("a", "1")]
    assert [(item.key, item.value) for item in said.subscription_properties] == [("b", "2")]
    assert said.schema.type == pb.Schema.String
    assert not said.HasField("start_message_id")
    assert not said.HasField("keySharedMeta")


def test_key_shared_says_how_keys_are_shared_out():
    assert command(ConsumerConfig("s", type=KEYED)).keySharedMeta.keySharedMode == pb.AUTO_SPLIT
    sticky = command(ConsumerConfig("s", type=KEYED, key_shared=KeyShared(((0, 9), (20, 29)), out_of_order=True)))
    assert sticky.keySharedMeta.keySharedMode == pb.STICKY
    assert sticky.keySharedMeta.allowOutOfOrderDelivery
    assert [(item.start, item.end) for item in sticky.keySharedMeta.hashRanges] == [(0, 9), (20, 29)]


def test_readers_say_where_they_start():
    reading = ConsumerConfig("reader-1", durable=False, rollback_s=60)
    said = command(reading, start=MessageId(5, 6, batch_index=3))
    assert (said.start_message_id.ledgerId, said.start_message_id.entryId) == (5, 6)
    assert said.start_message_id.batch_index == 3
    assert said.start_message_rollback_duration_sec == 60
    assert command(reading, start=MessageId.EARLIEST).start_message_id.ledgerId == (1 << 64) - 1
    assert command(reading, start=MessageId.LATEST).start_message_id.entryId == (1 << 63) - 1


def test_shared_segment_is_subscribed_with_buckets_and_partial_acknowledgements():
    asked = by_buckets(ConsumerConfig("s", read_compacted=True), ((0, 32767), (32768, 65535)))
    assert (asked.type, asked.ack_batch_index, asked.read_compacted) == (KEYED, True, False)
    meta = subscribe_command(asked, "t", 1, 2, schema=None, start=None, epoch=0).subscribe.keySharedMeta
    assert (meta.keySharedMode, meta.entryBucketDispatch) == (pb.STICKY, True)
    assert [(one.start, one.end) for one in meta.hashRanges] == [(0, 32767), (32768, 65535)]

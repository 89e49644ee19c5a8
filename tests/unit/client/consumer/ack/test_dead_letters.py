"""Names and properties of dead-letter and retry topics."""

from __future__ import annotations

from magnetar.client.consumer.ack.dead_letters import buried, dead_letter_topic, left_out, origin, retried, retry_topic
from magnetar.client.consumer.config import ConsumerConfig, DeadLetters, SubscriptionType
from magnetar.client.message import Delivery, Message
from magnetar.client.schema import BYTES
from magnetar.wire.proto import pb

TOPIC = "persistent://public/default/t"


def a_message(properties: dict[str, str] | None = None, topic: str = TOPIC) -> Message:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=0)
    for key, value in (properties or {}).items():
        metadata.properties.add(key=key, value=value)
    return Message(b"x", Delivery(metadata, topic, BYTES, ledger=3, entry=4, partition=1))


def asked(**letters) -> ConsumerConfig:
    return ConsumerConfig("sub", type=SubscriptionType.SHARED, dead_letters=DeadLetters(**letters))


def test_default_names_leave_partition_out():
    assert dead_letter_topic(asked(), TOPIC) == f"{TOPIC}-sub-DLQ"
    assert retry_topic(asked(), f"{TOPIC}-partition-3") == f"{TOPIC}-sub-RETRY"


def test_given_names_win():
    assert dead_letter_topic(asked(topic="dead"), TOPIC) == "dead"
    assert retry_topic(asked(retry_topic="again"), TOPIC) == "again"


def test_dead_letter_keeps_origin_and_properties():
    assert buried(a_message({"color": "red"}), "sub") == {
        "REAL_TOPIC": TOPIC,
        "REAL_SUBSCRIPTION": "sub",
        "ORIGIN_MESSAGE_ID": "3:4:1",
        "color": "red",
    }


def test_retried_message_counts_and_remembers_its_first_topic():
    times, found = retried(a_message(), "sub", 5000, {"why": "busy"})
    assert times == 1
    assert (found["RECONSUMETIMES"], found["DELAY_TIME"], found["why"]) == ("1", "5000", "busy")
    again = a_message(found, topic=f"{TOPIC}-sub-RETRY")
    assert origin(again) == TOPIC
    times, found = retried(again, "sub", 10, None)
    assert (times, found["REAL_TOPIC"], found["ORIGIN_MESSAGE_ID"]) == (2, TOPIC, "3:4:1")


def test_both_names_of_migrated_topic_are_one_in_messages():
    scalable = "topic://public/default/t"
    old, new = a_message(topic=f"{TOPIC}-partition-3"), a_message(topic="segment://public/default/t/0000-ffff-1")
    for home in (TOPIC, scalable):
        assert [origin(one, home) for one in (old, new)] == [home, home]
        put_off = a_message(retried(old, "sub", 1, None)[1], topic=f"{scalable}-sub-RETRY")
        assert origin(put_off, home) == home


def test_message_of_another_topic_keeps_its_name():
    for said in ("persistent://public/default/other", "no://name at all"):
        assert origin(a_message({"REAL_TOPIC": said}), TOPIC) == said


def test_count_that_is_no_number_starts_anew():
    assert retried(a_message({"RECONSUMETIMES": "many"}), "sub", 0, None)[0] == 1


def test_dead_letter_topic_of_scalable_topic_follows_v5_naming():
    segment = "segment://public/default/t/0000-7fff-3"
    scalable = "topic://public/default/t"
    message = a_message(topic=segment)
    assert origin(message) == scalable
    assert buried(message, "sub")["REAL_TOPIC"] == scalable
    assert dead_letter_topic(asked(), origin(message)) == f"{scalable}-DLQ"
    assert retry_topic(asked(), origin(message)) == f"{scalable}-sub-RETRY"


def test_letters_of_undecodable_messages_are_left_out_of_namespace():
    asked = ConsumerConfig("sub", type=SubscriptionType.SHARED, on_undecodable="dead_letter")
    assert left_out(asked, "topic://t/n/x-DLQ")
    assert not left_out(asked, "topic://t/n/x")

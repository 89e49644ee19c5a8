"""What a person writes who has no type checker: refused with the names there are, before anything is sent."""

from __future__ import annotations

import pytest

from magnetar.base.errors import InvalidName, Misuse
from magnetar.client.consumer.config import DeadLetters, SubscriptionType
from magnetar.client.consumer.scalable.namespace.follower import Namespace
from magnetar.client.message import MessageId
from magnetar.client.options import (
    checkpointing_of,
    opening_of,
    queueing_of,
    reading_of,
    streaming_of,
    subscribing_of,
)
from magnetar.client.producer.producer import AccessMode
from magnetar.client.schema import BYTES


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batchin": None}, "a producer has no option batchin: did you mean batching?"),
        ({"compression": "lz4"}, "compression must be one of Compression.NONE"),
        ({"access_mode": "Shared"}, "access_mode must be one of AccessMode.SHARED"),
    ],
)
def test_producers_option_that_there_is_not_is_refused(options, said):
    with pytest.raises(Misuse, match=said):
        opening_of("t", BYTES, options, 1.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"typ": SubscriptionType.SHARED}, "a consumer has no option typ: did you mean type?"),
        ({"type": "shared"}, "type must be one of SubscriptionType.EXCLUSIVE"),
        ({"initial_position": "earliest"}, "initial_position must be one of InitialPosition.LATEST"),
    ],
)
def test_consumers_option_that_there_is_not_is_refused(options, said):
    with pytest.raises(Misuse, match=said):
        subscribing_of("s", options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": 5}, "name must be text"),
        ({"priority": "high"}, "priority must be a whole number"),
        ({"queue_messages": 1.5}, "queue_messages must be a whole number"),
        ({"queue_messages": True}, "queue_messages must be a whole number"),
        ({"ack_timeout_s": "1"}, "ack_timeout_s must be a number"),
        ({"ack_timeout_s": float("nan")}, "ack_timeout_s must be a number"),
        ({"retry": 1}, "retry must be True or False"),
        ({"properties": {"a": 1}}, "properties must be a mapping of text to text"),
        ({"subscription_properties": "a=b"}, "subscription_properties must be a mapping"),
        ({"nack": 2.0}, "nack must be a NackBackoff"),
    ],
)
def test_option_of_wrong_type_is_refused_naming_type(options, said):
    with pytest.raises(Misuse, match=said) as told:
        queueing_of("topic://t/n/x", "s", options)
    assert told.value.facts == {"given": repr(*options.values())}


@pytest.mark.parametrize("given", [None, 5, b"s", ["s"]])
def test_topic_subscription_and_group_are_text(given):
    for make in (queueing_of, streaming_of):
        with pytest.raises(Misuse, match="topic must be one topic name"):
            make(given, "s", {})
        with pytest.raises(Misuse, match="the name of a subscription"):
            make("topic://t/n/x", given, {})
    if given is not None:
        with pytest.raises(Misuse, match="or of a group, must be text"):
            checkpointing_of("topic://t/n/x", {}, "1", given)
    with pytest.raises(Misuse, match="the name of a namespace must be text"):
        Namespace(given)
    with pytest.raises(Misuse, match="topic of dead letters must be text"):
        DeadLetters(topic=given)


@pytest.mark.parametrize("own", ["topic://t/n/x", "persistent://t/n/x"])
def test_dead_letters_of_topic_do_not_go_to_itself(own):
    with pytest.raises(Misuse, match="the dead-letter topic must differ"):
        queueing_of("topic://t/n/x", "s", {"dead_letters": DeadLetters(1, topic=own)})
    queueing_of("topic://t/n/x", "s", {"dead_letters": DeadLetters(1, topic="topic://t/n/dead")})
    queueing_of(Namespace("t/n"), "s", {"dead_letters": DeadLetters(1, topic=own)})


def test_dead_letters_go_to_topic_that_can_be():
    with pytest.raises(InvalidName):
        queueing_of("topic://t/n/x", "s", {"dead_letters": DeadLetters(1, topic="a/b")})


def test_dead_letters_that_are_number_are_refused():
    with pytest.raises(Misuse, match="dead_letters must be a DeadLetters"):
        queueing_of("topic://t/n/x", "s", {"dead_letters": 3})


def test_reader_starts_at_id_and_not_at_word():
    with pytest.raises(Misuse, match=r"MessageId\.EARLIEST"):
        reading_of("earliest", {}, "1")
    with pytest.raises(Misuse, match="a reader has no option type"):
        reading_of(MessageId.EARLIEST, {"type": SubscriptionType.SHARED}, "1")


def test_what_there_is_is_taken():
    assert opening_of("t", BYTES, {"name": "p", "access_mode": AccessMode.SHARED}, 1.0).name == "p"
    assert subscribing_of("s", {"type": SubscriptionType.SHARED}).type is SubscriptionType.SHARED
    assert reading_of(MessageId.LATEST, {}, "1").subscription == "reader-1"


@pytest.mark.parametrize("topic", [Namespace("public/default"), ["topic://t/n/x"]], ids=["namespace", "list"])
def test_checkpoint_consumer_of_several_topics_is_refused_with_remedy(topic) -> None:
    with pytest.raises(Misuse, match="open one for each"):
        checkpointing_of(topic, {}, "1")

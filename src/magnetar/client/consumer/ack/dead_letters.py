"""Names and properties of dead-letter and retry topics, compatible with Pulsar's own clients. Pure decisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from magnetar.base.errors import InvalidName
from magnetar.base.names import topic_name
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.message import Message

REAL_TOPIC = "REAL_TOPIC"
REAL_SUBSCRIPTION = "REAL_SUBSCRIPTION"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
RECONSUME_TIMES = "RECONSUMETIMES"
DELAY_TIME = "DELAY_TIME"
UNDECODABLE = "UNDECODABLE"  # of Magnetar: the reason why the value could not be decoded


def dead_letter_topic(config: ConsumerConfig, topic: str) -> str:
    if config.dead_letters is not None and config.dead_letters.topic:
        return config.dead_letters.topic
    name = topic_name(topic)
    if name.is_scalable:
        return f"{name}-DLQ"  # one for all subscriptions, as Pulsar's V5 client does
    return f"{name.partitioned_name}-{config.subscription}-DLQ"


def retry_topic(config: ConsumerConfig, topic: str) -> str:
    if config.dead_letters is not None and config.dead_letters.retry_topic:
        return config.dead_letters.retry_topic
    return f"{topic_name(topic).partitioned_name}-{config.subscription}-RETRY"


def left_out(config: ConsumerConfig, topic: str) -> bool:
    """Whether a topic of the namespace is a dead-letter or retry topic of the subscription. A consumer of the namespace
    that read these topics too would bury its dead letters again.
    """
    letters = config.dead_letters
    if letters is not None and letters.topic:
        if topic == _full(letters.topic):
            return True
    elif (letters is not None or config.on_undecodable == "dead_letter") and topic.endswith("-DLQ"):
        return True
    return config.retry and topic.endswith(f"-{config.subscription}-RETRY")


def _full(topic: str) -> str:
    return str(topic_name(topic))


def origin(message: Message[Any], home: str = "") -> str:
    """The topic to which a message was first published; a retried message carries its name. `home` is the topic of the
    message's consumer. A migrated topic has two names; its dead letters go to one topic, that of its consumer's name.
    """
    topic = message.properties.get(REAL_TOPIC, _topic(message))
    return home if home and _one_topic(topic, home) else topic


def buried(message: Message[Any], subscription: str) -> dict[str, str]:
    """The properties of a dead letter: its own, and its origin."""
    return {
        REAL_TOPIC: _topic(message),
        REAL_SUBSCRIPTION: subscription,
        ORIGIN_MESSAGE_ID: str(message.id),
        **message.properties,
    }


def retried(
    message: Message[Any], subscription: str, delay_ms: int, properties: Mapping[str, str] | None
) -> tuple[int, dict[str, str]]:
    """The number of deferrals including this one, and the properties of the deferred message."""
    copied = {**buried(message, subscription), **(properties or {})}
    times = int(copied[RECONSUME_TIMES]) + 1 if copied.get(RECONSUME_TIMES, "").isdigit() else 1
    copied[RECONSUME_TIMES] = str(times)
    copied[DELAY_TIME] = str(delay_ms)
    return times, copied


def _one_topic(candidate: str, home: str) -> bool:
    try:
        return topic_name(candidate).scalable == topic_name(home).scalable
    except InvalidName:  # an application may have written any text there
        return False


def _topic(message: Message[Any]) -> str:
    """The topic of a message; for a segment, the topic to which the segment belongs."""
    name = topic_name(message.topic)
    return str(name.parent) if name.is_segment else message.topic

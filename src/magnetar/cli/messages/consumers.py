"""Consumers for `message consume`: one call to receive and one to acknowledge, for topics of any kind.

An existing subscription of a scalable topic decides the type of its consumer; REST reports it. If REST is not
reachable, the type is a stream, and the broker refuses a wrong type. This module creates no topic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal

from magnetar.base.errors import Misuse, NotAuthorized, NotFound, Unavailable, Unknown
from magnetar.base.names import topic_name

if TYPE_CHECKING:
    from magnetar.cli.options import Common
    from magnetar.client.client import Client
    from magnetar.client.message import Message

    Receive = Callable[[float | None], Awaitable[Message[bytes]]]
    Acknowledge = Callable[[Message[bytes]], Awaitable[None]]

ConsumerType = Literal["exclusive", "shared", "failover", "key-shared", "stream", "queue"]
SCALABLE_TYPES = ("stream", "queue")


def requested_type(topic: str, type: ConsumerType | None) -> ConsumerType | None:
    """The type of the consumer; None: the subscription decides. Misuse: the topic has no such consumers."""
    scalable = topic_name(topic).is_scalable
    if type is None:
        return None if scalable else "shared"
    if scalable != (type in SCALABLE_TYPES):
        words = "stream or queue" if scalable else "exclusive, shared, failover or key-shared"
        raise Misuse(f"--type of a {'scalable' if scalable else 'plain'} topic must be {words}", topic=topic, type=type)
    return type


def stored_type(common: Common, topic: str, subscription: str) -> ConsumerType:
    """The type of a subscription of a scalable topic; a new one is a stream."""
    with common.session() as session:
        try:
            plan = session.admin.scalable.subscription(str(topic_name(topic)), subscription)
        except (NotFound, NotAuthorized, Unavailable, Unknown):
            return "stream"
    return "queue" if plan.type == "QUEUE" and not plan.undecided else "stream"


async def subscribed(
    client: Client, topic: str, subscription: str, type: ConsumerType, start: str
) -> tuple[Receive, Acknowledge]:
    """Acknowledgements of a stream consumer are cumulative. Two messages of a batch count as two consumed messages."""
    from magnetar.client.consumer.config import InitialPosition, SubscriptionType

    at = InitialPosition[start.upper()]
    if type == "stream":
        stream = await client.stream_consumer(topic, subscription, initial_position=at, ack_batch_index=True)
        return stream.receive, stream.acknowledge_cumulative
    if type == "queue":
        queue = await client.queue_consumer(topic, subscription, initial_position=at, ack_batch_index=True)
        return queue.receive, queue.acknowledge
    kind = SubscriptionType[type.upper().replace("-", "_")]
    plain = await client.subscribe(topic, subscription, type=kind, initial_position=at, ack_batch_index=True)
    return plain.receive, plain.acknowledge

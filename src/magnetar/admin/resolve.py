"""The subject of a topic route: the topic, loaded if necessary, and one of its subscriptions.

Nothing is created here. A missing namespace, topic or subscription is 404 with Pulsar's text. A topic that another
broker serves raises Moved, and the caller is redirected to that broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.request import Request
from magnetar.base.errors import NotFound, Refused, SubscriptionNotFound, TopicNotFound
from magnetar.base.names import TopicName
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.broker.node import Node
    from magnetar.broker.topics.topics import AnyTopic
    from magnetar.topic.subscriptions.subscription import Subscription


async def check_namespace(node: Node, name: TopicName) -> None:
    if not await node.namespaces.exists(name.namespace):
        raise NotFound("Namespace not found")


async def open_topic(node: Node, name: TopicName) -> AnyTopic:
    """An existing topic or partition; a partitioned topic itself is not found."""
    await check_namespace(node, name)
    await node.served.claim(name)
    try:
        return await node.topics.get(name, create=False)
    except TopicNotFound as error:
        raise TopicNotFound(f"Topic {name} not found") from error


async def stored(node: Node, request: Request, what: str) -> Topic:
    """A persistent topic; `what` names the operation in the error for other topics."""
    name = request.topic
    if not name.is_persistent:
        raise Refused(f"{what} on a non-persistent topic is not allowed", http_status=405)
    topic = await open_topic(node, name)
    assert isinstance(topic, Topic)
    return topic


async def partitions(node: Node, name: TopicName) -> list[TopicName] | None:
    """The partitions of a partitioned topic; None for other topics."""
    await check_namespace(node, name)
    metadata = await node.catalogue.partitioned(name)
    return None if metadata is None else [name.partition(index) for index in range(metadata.partitions)]


async def not_partitioned(node: Node, name: TopicName, words: str) -> None:
    if await node.catalogue.partitioned(name) is not None:
        raise Refused(words, http_status=405)


def subscription(topic: Topic, name: str) -> Subscription:
    existing = topic.subscriptions.get(name)
    if existing is None:
        raise SubscriptionNotFound(f"Subscription {name} not found for topic {topic.name}")
    return existing

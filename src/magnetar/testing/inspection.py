"""Requests of tests to a broker: stored messages, backlogs, and reshapes of a scalable topic.

It runs in the broker's thread and uses the broker's own REST interface and binary protocol, so it sees what clients
see.
"""

from __future__ import annotations

from magnetar.base.errors import SubscriptionNotFound
from magnetar.base.names import topic_name
from magnetar.client.admin.clients import AsyncAdmin
from magnetar.client.client import Client
from magnetar.client.message import Message


async def create_scalable(admin_url: str, topic: str, segments: int) -> None:
    async with AsyncAdmin(admin_url) as admin:
        await admin.scalable.create(topic, segments=segments)


async def split(admin_url: str, topic: str, segment: int) -> list[int]:
    async with AsyncAdmin(admin_url) as admin:
        done = await admin.scalable.split(topic, segment)
    return [] if done is None else list(done.childIds)


async def merge(admin_url: str, topic: str, segments: tuple[int, ...]) -> int:
    async with AsyncAdmin(admin_url) as admin:
        done = await admin.scalable.merge(topic, segments)
    assert done is not None
    return done.childIds[0]


async def backlog(admin_url: str, topic: str, subscription: str) -> int:
    """The number of unacknowledged messages. Raises `SubscriptionNotFound` for a missing subscription."""
    async with AsyncAdmin(admin_url) as admin:
        if topic_name(topic).is_scalable:
            scaled = (await admin.scalable.subscriptions(topic)).get(subscription)
            if scaled is not None:
                return scaled.lag or 0
        else:
            parted = (await admin.topics.partitions(topic)).partitions
            stats = await (admin.topics.partitioned_stats(topic) if parted else admin.topics.stats(topic))
            subscription_stats = stats.subscriptions.get(subscription)
            if subscription_stats is not None:
                lag = subscription_stats.lagMessages
                return lag if isinstance(lag, int) else subscription_stats.msgBacklog
    raise SubscriptionNotFound(f"subscription {subscription} of this topic does not exist", topic=topic)


async def messages(url: str, admin_url: str, topic: str) -> list[Message[bytes]]:
    """All stored messages, the oldest first, whether consumed or not. A scalable topic is read segment by segment."""
    messages: list[Message[bytes]] = []
    async with Client(url) as client:
        for part in await _parts(client, admin_url, topic):
            async with client.create_reader(part) as reader:
                while await reader.has_message_available():
                    messages.append(await reader.receive())
    return messages


async def _parts(client: Client, admin_url: str, topic: str) -> list[str]:
    if not topic_name(topic).is_scalable:
        return await client.partitions(topic)
    async with AsyncAdmin(admin_url) as admin:
        segments = (await admin.scalable.stats(topic)).segments
    return [one.name for _, one in sorted(segments.items(), key=lambda pair: int(pair[0]))]

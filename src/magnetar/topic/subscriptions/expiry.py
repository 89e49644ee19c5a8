"""Message TTL: durable subscriptions acknowledge messages that are older than the time to live of the topic.

The mark of a subscription moves past messages that were published too long ago, also if a consumer holds them, as in
Pulsar. Time is that of retention: a wrong system clock expires nothing. If a sealed segment expires for a stream
subscription, the subscription has drained it, and its consumers continue with the children in order. Readers,
checkpoint consumers and holds have no durable cursor here: nothing expires for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.observe.log import get

if TYPE_CHECKING:
    from magnetar.topic.topic import Topic

log = get("expiry")


async def expire(topic: Topic) -> None:
    """One check of all subscriptions. Nothing is done while the clock is not trusted."""
    managed, ttl_s = topic.managed, topic.settings.message_ttl_s
    behind = [cursor for cursor in topic.subscriptions if cursor.durable and cursor.backlog and cursor.seeking is None]
    if not ttl_s or not behind or not managed.clock.trusted:
        return
    before_ms = managed.clock.now_ms() - ttl_s * 1000
    oldest = await managed.read(min(cursor.start() for cursor in behind), 1, 1)
    if oldest is None or managed.config.publish_time_of(oldest.entry(0)) >= before_ms:
        return
    last_expired = managed.before(await managed.find(before_ms))
    for cursor in behind:
        backlog = cursor.backlog
        if cursor.cursor.mark < last_expired and cursor.seeking is None:
            await cursor.clear_to(last_expired)
            log.info(
                "messages_expired", topic=str(topic.name), subscription=cursor.name, entries=backlog - cursor.backlog
            )
            topic.runtime.mark("messages.expired", topic=str(topic.name), subscription=cursor.name)

"""What the leader of a scalable topic waits for at the owner of a segment: everything acknowledged for good, or nobody
attached.

A question waits here and is answered the moment it happens (H-F14), or with no when its time is up. Drained means on
disk, not in memory alone (H-F2): what is acknowledged up to the end is flushed at once. A segment that is unloaded ends
its questions; they are asked again where it is loaded next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from magnetar.base.errors import MagnetarError, NotReady
from magnetar.cluster.peers import AwaitDrained, AwaitReleased
from magnetar.observe.log import get
from magnetar.topic.subscription import KEY_SHARED, Subscription
from magnetar.topic.topic import Topic

log = get("segments")


async def awaited(topic: Topic, subscription: Subscription, request: AwaitDrained | AwaitReleased) -> bool:
    """NotReady: the segment is being unloaded."""
    if isinstance(request, AwaitReleased) and request.evict:
        _evict(topic, subscription, request.evict)
    happened = _released
    if isinstance(request, AwaitDrained):
        happened = _drained
        subscription.leftover.look()
    waiting = topic.runtime.spawn(topic.owner, _until(topic, subscription, happened, request.wait_s))
    try:
        await asyncio.wait([waiting])
    finally:
        waiting.cancel()
    if waiting.cancelled():
        raise NotReady(f"{topic.name} is being unloaded: look it up again")
    return waiting.result()


async def _until(
    topic: Topic,
    subscription: Subscription,
    happened: Callable[[Topic, Subscription], bool],
    wait_s: float,
) -> bool:
    woken = asyncio.Event()

    def stirred(about: Subscription) -> None:
        if about is subscription:
            woken.set()

    topic.stirred.append(stirred)
    try:
        async with asyncio.timeout(wait_s):
            while not happened(topic, subscription):
                if _flushable(topic, subscription):
                    await subscription.cursor.flush()
                    continue
                woken.clear()
                await woken.wait()
        return True
    except TimeoutError:
        return False
    except MagnetarError as error:
        log.warning("not awaited", topic=str(topic.name), subscription=subscription.name, error=str(error))
        return False
    finally:
        topic.stirred.remove(stirred)


def _evict(topic: Topic, subscription: Subscription, consumer: str) -> None:
    """Of those that share a segment the others stay."""
    if subscription.type != KEY_SHARED:
        subscription.disconnect_all()
        return
    for found in list(subscription.consumers):
        if topic.name.segment is None or found.name == f"{consumer}-seg-{topic.name.segment.id}":
            topic.subscriptions.close_consumer(found)


def _drained(topic: Topic, subscription: Subscription) -> bool:
    """On disk, not in memory alone (H-F2)."""
    end = topic.managed.terminated
    return end is not None and subscription.cursor.drained(end)


def _released(topic: Topic, subscription: Subscription) -> bool:
    return not subscription.consumers


def _flushable(topic: Topic, subscription: Subscription) -> bool:
    """Everything is acknowledged and only the disk does not know yet. Of a reader it never will."""
    return (
        subscription.durable
        and topic.managed.terminated is not None
        and not subscription.backlog
        and subscription.cursor.dirty
    )

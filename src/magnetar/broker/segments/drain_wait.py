"""Waits of the leader of a scalable topic at the owner of a segment: for all messages durably acknowledged, for no
attached consumer, or for all messages received by one consumer.

A request waits here and is answered when its condition becomes true (H-F14), or with no after its time. Drained means
on disk, not only in memory (H-F2): acknowledgements up to the end are flushed immediately. Unloading a segment ends its
waits; the leader repeats them where it is loaded next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from magnetar.base.errors import MagnetarError, NotReady
from magnetar.base.limits import DRAINED_ASK_S
from magnetar.cluster.calls.topic_calls import AwaitDrained, AwaitReceived, AwaitReleased
from magnetar.observe.log import get
from magnetar.topic.dispatch.single import SingleActive
from magnetar.topic.subscriptions.consumer import Consumer
from magnetar.topic.subscriptions.subscription import KEY_SHARED, Subscription
from magnetar.topic.topic import Topic

log = get("segments")

RECEIVED_TRIES_MAX = 3  # a consumer that comes and goes is asked about again, later


async def awaited(
    topic: Topic, subscription: Subscription, request: AwaitDrained | AwaitReleased | AwaitReceived
) -> bool:
    """Waits for the condition of `request`. NotReady: the segment is being unloaded."""
    if isinstance(request, AwaitReleased) and request.evict:
        if not request.keeps_acks:
            subscription.drop_early()  # entries without a final acknowledgement are delivered again (H-F20)
        _evict(topic, subscription, request.evict)
    happened = _released
    if isinstance(request, AwaitDrained):
        happened = _drained
        subscription.leftover.look()
    wait_s = min(DRAINED_ASK_S, request.wait_s)
    if isinstance(request, AwaitReceived):
        until = _until_received(topic, subscription, request.consumer, wait_s)
    else:
        until = _until(topic, subscription, happened, wait_s)
    waiting = topic.runtime.spawn(topic.owner, until)
    try:
        await asyncio.wait([waiting])
    finally:
        waiting.cancel()
    if waiting.cancelled():
        raise NotReady(f"{topic.name} is being unloaded: look it up again")
    if waiting.result() and not isinstance(request, AwaitDrained):
        subscription.admissions += 1  # a consumer about to attach may have been admitted by an older record
    return waiting.result()


async def _until_received(topic: Topic, subscription: Subscription, name: str, wait_s: float) -> bool:
    """All messages are written to the consumer's connection, and it has answered a PING behind them: so messages that
    it gets on another connection from now on arrive later (H-F20)."""
    for _ in range(RECEIVED_TRIES_MAX):
        if not await _until(topic, subscription, lambda topic, one: _sent_to(topic, one, name) is not None, wait_s):
            return False
        consumer = _sent_to(topic, subscription, name)
        if consumer is None:
            continue
        if await consumer.outlet.round_trip() and _sent_to(topic, subscription, name) is consumer:
            return True
    return False


def _sent_to(topic: Topic, subscription: Subscription, name: str) -> Consumer | None:
    """The only consumer of a sealed segment, if it has this name and all messages were sent to it."""
    end, dispatcher = topic.managed.terminated, subscription.dispatcher
    if end is None or not isinstance(dispatcher, SingleActive) or topic.name.segment is None:
        return None
    consumer = dispatcher.active
    if consumer is None or consumer.closed or consumer.name != f"{name}-seg-{topic.name.segment.id}":
        return None
    return consumer if dispatcher.read_position > end else None


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
        log.warning("drain_wait_failed", topic=str(topic.name), subscription=subscription.name, error=str(error))
        return False
    finally:
        topic.stirred.remove(stirred)


def _evict(topic: Topic, subscription: Subscription, consumer: str) -> None:
    """Disconnects a consumer; others that share the segment stay."""
    if subscription.type != KEY_SHARED:
        subscription.disconnect_all()
        return
    for attached in list(subscription.consumers):
        if topic.name.segment is None or attached.name == f"{consumer}-seg-{topic.name.segment.id}":
            topic.subscriptions.close_consumer(attached)


def _drained(topic: Topic, subscription: Subscription) -> bool:
    """Whether all messages are acknowledged on disk, not only in memory (H-F2)."""
    end = topic.managed.terminated
    return end is not None and subscription.cursor.drained(end)


async def complete(topic: Topic, subscription: Subscription) -> bool:
    """Nothing in a sealed segment is left to deliver. Acknowledgements that a crash loses are missing then, so this is
    decided again. Chunks of which no message can be made do not count: the cursor passes them a moment later."""
    end = topic.managed.terminated
    return end is not None and (not subscription.backlog or await subscription.leftover.only(end))


def _released(topic: Topic, subscription: Subscription) -> bool:
    return not subscription.consumers


def _flushable(topic: Topic, subscription: Subscription) -> bool:
    """Whether all messages are acknowledged and only the flush is missing. The cursor of a reader is never flushed."""
    return (
        subscription.durable
        and topic.managed.terminated is not None
        and not subscription.backlog
        and subscription.cursor.dirty
    )

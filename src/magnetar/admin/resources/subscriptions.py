"""Subscriptions: list, create, delete, seek, clear. The subscriptions of a partitioned topic are those of all its
partitions, which several brokers may own (`admin/fan_out.py`).

A seek goes through the subscription, which disconnects its consumers; they reconnect. Clearing acknowledges on behalf
of the consumers. On a migrated topic both apply to the scalable topic, or are refused (`migrated_subscriptions`). Both
are durable when the response is sent. Reading never creates a subscription.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from magnetar.admin import fan_out
from magnetar.admin.request import DONE, BadBody, Request, Response, shown
from magnetar.admin.resolve import check_namespace, not_partitioned, open_topic, partitions, stored, subscription
from magnetar.admin.resources import migrated_subscriptions
from magnetar.admin.route import Route, delete, get, post, put
from magnetar.base.errors import AlreadyExists, Conflict, Misuse, Refused, SubscriptionNotFound, TopicNotFound
from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position
from magnetar.base.names import check_given
from magnetar.broker.segments.cursors import given, life, ours
from magnetar.client.documents.topics import ResetCursor
from magnetar.ledger.properties import check_size
from magnetar.scalable.machines.seek_target import Target, TargetKind, at_time
from magnetar.topic.subscriptions.subscription import Subscription
from magnetar.topic.topic import Topic

if TYPE_CHECKING:
    from magnetar.base.names import TopicName
    from magnetar.broker.node import Node


_NO_EXPIRY = "messages of a scalable topic cannot be expired for a subscription"


async def names(node: Node, request: Request) -> Response:
    async def names_of(topic: TopicName) -> list[str]:
        loaded = await open_topic(node, topic)
        each = loaded.subscriptions if isinstance(loaded, Topic) else loaded.subscriptions.values()
        return [existing.name for existing in each]

    parts = await partitions(node, request.topic)
    if parts is None:
        return shown(sorted(await names_of(request.topic)))
    lists = await fan_out.of_owners(node, request, parts, names_of, list[str])
    return shown(sorted({name for names in lists.values() for name in names}))


async def create(node: Node, request: Request) -> Response:
    """Creates a missing topic too, if its use would create it. On a partitioned topic it creates the missing
    subscriptions, and is 409 only if every partition had one."""
    name, subscription = request.topic, check_given(request.parts["subscription"], "subscription")
    start, properties = _start(request)
    if not name.is_persistent:
        raise Refused("Create subscription on non-persistent topic can only be done through client", http_status=400)

    async def create_one(each: TopicName) -> None:
        topic = await _topic_made(node, each)
        if topic.subscriptions.get(subscription) is not None:
            raise AlreadyExists("Subscription already exists for topic")
        await topic.subscriptions.create(subscription, _mark(topic, start), properties)

    parts = await partitions(node, name)
    if parts is None:
        await create_one(name)
    elif not await fan_out.of_owners(node, request, parts, create_one, None, skips=AlreadyExists):
        raise AlreadyExists("Subscription already exists for topic")
    return DONE


def _check_own(subscription: Subscription) -> None:
    """Raises Conflict for a subscription of a scalable topic, or of stream consumers of this topic."""
    if life(subscription) >= 0:
        whole = subscription.topic.part_of or subscription.topic.name.scalable
        words = f"subscription {subscription.name} belongs to the scalable topic: DELETE it on {whole}"
        raise Conflict(f"{words} (/admin/v2/scalable)")


async def remove(node: Node, request: Request) -> Response:
    name, subscription_name = request.topic, request.parts["subscription"]
    parts = await partitions(node, name)
    if parts is None:
        topic = await stored(node, request, "Deleting a subscription")
        _check_own(subscription(topic, subscription_name))
        await topic.subscriptions.delete(subscription_name, force=request.flag("force"))
        return DONE

    async def remove_one(each: TopicName) -> None:
        topic = await _loaded(node, each)
        _check_own(subscription(topic, subscription_name))
        await topic.subscriptions.delete(subscription_name, force=request.flag("force"))

    if not await fan_out.of_owners(node, request, parts, remove_one, None, skips=SubscriptionNotFound):
        raise SubscriptionNotFound("Subscription not found")
    return DONE


# Moving


async def reset_to_time(node: Node, request: Request) -> Response:
    stamp = request.number("timestamp")
    if await migrated_subscriptions.sought(node, request, lambda _: at_time(max(0, stamp))):
        return DONE

    async def seek(topic: Topic, target: Subscription) -> None:
        await target.seek(await topic.managed.find(stamp))

    await _on_each(node, request, seek)
    return DONE


async def reset_to_id(node: Node, request: Request) -> Response:
    if await migrated_subscriptions.sought(node, request, migrated_subscriptions.place(request)):
        return DONE
    await not_partitioned(node, request.topic, "Reset-cursor at position is not allowed for partitioned-topic")
    reset = request.need(ResetCursor)
    topic = await stored(node, request, "Reset cursor")
    target = subscription(topic, request.parts["subscription"])
    position = Position(reset.ledgerId, reset.entryId)
    await target.seek(topic.managed.after(position) if reset.excluded and position != AFTER_ALL else position)
    return DONE


# Clearing


async def skip(node: Node, request: Request) -> Response:
    count = request.number("count")
    await migrated_subscriptions.refuse(
        node, request, "entries cannot be counted across segments, which have no common order"
    )
    await not_partitioned(node, request.topic, "Skip messages on a partitioned topic is not allowed")
    topic = await stored(node, request, "Skip messages")
    target = subscription(topic, request.parts["subscription"])
    if count >= target.cursor.backlog:
        await target.clear_to(topic.managed.last)
    elif count > 0:
        await target.clear_to(nth_unacked(target, count))
    return DONE


async def skip_all(node: Node, request: Request) -> Response:
    if await migrated_subscriptions.sought(node, request, lambda _: Target(TargetKind.LATEST)):
        return DONE

    async def clear(topic: Topic, target: Subscription) -> None:
        await target.clear_to(topic.managed.last)

    await _on_each(node, request, clear)
    return DONE


async def expire_by_age(node: Node, request: Request) -> Response:
    seconds = request.number("seconds")
    await migrated_subscriptions.refuse(node, request, _NO_EXPIRY)

    async def expire(topic: Topic, target: Subscription) -> None:
        await _expire(topic, target, seconds)

    await _on_each(node, request, expire)
    return DONE


async def expire_all_by_age(node: Node, request: Request) -> Response:
    seconds = request.number("seconds")
    await migrated_subscriptions.refuse(node, request, _NO_EXPIRY)

    async def expire_all(name: TopicName) -> None:
        topic = await _loaded(node, name)
        for target in topic.subscriptions:
            if target.durable:
                await _expire(topic, target, seconds)

    parts = await partitions(node, request.topic)
    if parts is None:
        await expire_all(request.topic)
    else:
        await fan_out.of_owners(node, request, parts, expire_all, None)
    return DONE


async def expire_to_id(node: Node, request: Request) -> Response:
    await migrated_subscriptions.refuse(node, request, _NO_EXPIRY)
    await not_partitioned(node, request.topic, "Expire message at position is not allowed for partitioned-topic")
    reset = request.need(ResetCursor)
    topic = await stored(node, request, "Expire messages")
    target = subscription(topic, request.parts["subscription"])
    position = Position(reset.ledgerId, reset.entryId)
    await target.clear_to(topic.managed.before(position) if reset.excluded else position)
    return DONE


async def _expire(topic: Topic, target: Subscription, seconds: int) -> None:
    first_kept = await topic.managed.find(topic.runtime.wall() - max(0, seconds) * 1000)
    await target.clear_to(topic.managed.before(first_kept))


def nth_unacked(target: Subscription, number: int) -> Position:
    """The position of the `number`-th unacknowledged entry, from 1; past the end if there are fewer."""
    managed, cursor = target.topic.managed, target.cursor
    if cursor.contiguous:
        return managed.chain.nth(managed.chain.rank(cursor.mark) + number - 1)
    position = target.start()
    for _ in range(number - 1):
        if position > managed.last:
            break
        position = cursor.next_unacked(managed.after(position))
    return position


# Properties


async def read_properties(node: Node, request: Request) -> Response:
    properties: dict[str, str] = {}
    for own in await _properties(node, request):
        properties.update(own)
    return shown(properties)


async def write_properties(node: Node, request: Request) -> Response:
    properties: dict[str, str] = request.read(dict[str, str]) or {}
    check_size(properties)
    await migrated_subscriptions.refuse(
        node, request, "their properties are those of their first consumer", moves=False
    )

    async def write(topic: Topic, target: Subscription) -> None:
        await target.cursor.set_properties({**given(properties), **ours(target.cursor.properties)})

    await _on_each(node, request, write)
    return DONE


# What a path and a body mean


async def _on_each(node: Node, request: Request, action: Callable[[Topic, Subscription], Awaitable[None]]) -> None:
    """Applies the action to the subscription on the topic, or on every partition. 404 without any effect: the
    subscription is missing on one of them."""

    async def act(name: TopicName) -> None:
        topic = await _loaded(node, name)
        await action(topic, subscription(topic, request.parts["subscription"]))

    _check_stored(request)
    parts = await partitions(node, request.topic)
    if parts is None:
        await act(request.topic)
        return
    await _properties(node, request)
    await fan_out.of_owners(node, request, parts, act, None)


async def _properties(node: Node, request: Request) -> list[dict[str, str]]:
    """The properties of the subscription on the topic, or on every partition."""

    async def properties_of(name: TopicName) -> dict[str, str]:
        topic = await _loaded(node, name)
        return given(subscription(topic, request.parts["subscription"]).cursor.properties)

    _check_stored(request)
    parts = await partitions(node, request.topic)
    if parts is None:
        return [await properties_of(request.topic)]
    tail = f"subscription/{quote(request.parts['subscription'], safe='')}/properties"
    each = await fan_out.of_owners(node, request, parts, properties_of, dict[str, str], method="GET", tail=tail)
    return list(each.values())


def _check_stored(request: Request) -> None:
    if not request.topic.is_persistent:
        raise Refused("seek and expiry are not supported on non-persistent topics", http_status=405)


async def _loaded(node: Node, name: TopicName) -> Topic:
    topic = await open_topic(node, name)
    if not isinstance(topic, Topic):
        raise Refused("not supported on non-persistent topics, which store no messages", http_status=405)
    return topic


async def _topic_made(node: Node, name: TopicName) -> Topic:
    await check_namespace(node, name)
    await node.served.claim(name)
    try:
        topic = await node.topics.get(name, create=True)
    except TopicNotFound as error:
        raise Misuse("Topic does not exist and cannot be auto-created") from error
    assert isinstance(topic, Topic)
    return topic


def _start(request: Request) -> tuple[ResetCursor, Mapping[str, str] | None]:
    """The start from an empty body (latest), a word, or a message id."""
    document: Any = request.read(Any)
    if document is None or document == "latest":
        return ResetCursor(*AFTER_ALL), None
    if document == "earliest":
        return ResetCursor(*BEFORE_ALL), None
    if isinstance(document, str):
        raise BadBody("the start of a subscription must be earliest, latest or a message id")
    reset = request.need(ResetCursor)
    check_size(reset.properties or {})
    return reset, None if reset.properties is None else given(reset.properties)


def _mark(topic: Topic, reset: ResetCursor) -> Position:
    """The last message that a new subscription does not receive."""
    managed = topic.managed
    position = Position(reset.ledgerId, reset.entryId)
    if position > managed.last:
        return managed.last
    return position if reset.excluded else managed.before(managed.next_valid(max(position, managed.first)))


def _routes(domain: str) -> list[Route]:
    topic = f"/admin/v2/{domain}/{{tenant}}/{{namespace}}/{{topic}}"
    prefix = f"{topic}/subscription/{{subscription}}"
    return [
        get(f"{topic}/subscriptions", names, "The subscriptions of a topic", list[str]),
        put(prefix, create, "Create a subscription: `earliest`, `latest` or a message id", ResetCursor),
        delete(prefix, remove, "Delete a subscription; with force, also while it is used"),
        post(f"{prefix}/resetcursor", reset_to_id, "Seek to a message", ResetCursor),
        post(f"{prefix}/resetcursor/{{timestamp}}", reset_to_time, "Seek to a publish time"),
        post(f"{prefix}/skip/{{count}}", skip, "Acknowledge the next `count` entries"),
        post(f"{prefix}/skip_all", skip_all, "Acknowledge all messages"),
        post(f"{prefix}/expireMessages", expire_to_id, "Acknowledge all messages up to a message", ResetCursor),
        post(f"{prefix}/expireMessages/{{seconds}}", expire_by_age, "Acknowledge messages older than `seconds`"),
        post(
            f"{topic}/all_subscription/expireMessages/{{seconds}}",
            expire_all_by_age,
            "Acknowledge messages older than `seconds` on all subscriptions",
        ),
        get(f"{prefix}/properties", read_properties, "The properties of a subscription", dict[str, str]),
        put(f"{prefix}/properties", write_properties, "Replace the properties of a subscription", dict[str, str]),
    ]


ROUTES = _routes("persistent") + _routes("non-persistent")

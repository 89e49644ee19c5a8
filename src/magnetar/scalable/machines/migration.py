"""Decides which subscriptions of a plain topic move to the scalable topic that it becomes, and who may still use them.

Clients of plain topics name no type: a subscription has the type of its attached consumers. A subscription with
consumers keeps that type permanently; for any other, the first consumer after the migration decides. Takes values and
returns values. The owner of each plain topic reports its subscriptions once the topic accepts nothing new.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from magnetar.base.errors import Busy, ConsumerBusy, Refused
from magnetar.base.ids import SegmentId
from magnetar.cluster.calls.topic_calls import PlainClient, PlainFacts
from magnetar.scalable.record.subscription import Subscription, SubscriptionState, Type
from magnetar.topic.subscriptions.subscription import KEY_SHARED, SHARED, TYPE_NAMES

_NAMED_MAX = 3  # clients in a refusal: enough to find them


@dataclass(frozen=True, slots=True)
class MigratedSubscription:
    """One subscription of plain topics as the scalable topic has it."""

    name: str
    type: Type
    undecided: bool


def type_of(kind: int) -> Type:
    """Stream for a consumer that takes messages one after the other, queue for consumers that share them."""
    return Type.QUEUE if kind in (SHARED, KEY_SHARED) else Type.STREAM


def carried(plain_facts: Iterable[PlainFacts]) -> list[MigratedSubscription]:
    """All durable subscriptions of a topic and its partitions, by name."""
    kinds: dict[str, int] = {}
    for facts in plain_facts:
        for subscription in facts.subscriptions:
            if kinds.get(subscription.name, -1) < 0:
                kinds[subscription.name] = subscription.kind
    return [
        MigratedSubscription(name, Type.QUEUE if kind < 0 else type_of(kind), kind < 0)
        for name, kind in sorted(kinds.items())
    ]


def missing(migrated: Iterable[MigratedSubscription], existing: Iterable[Subscription]) -> list[MigratedSubscription]:
    """Those that have no record yet, or one that was not finished."""
    there = {one.name: one for one in existing}
    return [one for one in migrated if (stored := there.get(one.name)) is None or not (stored.ready or _goes(stored))]


def left_behind(plain_facts: Iterable[PlainFacts]) -> list[PlainClient]:
    """Clients that do not follow a migration."""
    return [client for facts in plain_facts for client in facts.clients if not client.follows]


def refusal(clients: list[PlainClient]) -> str:
    """Why a topic is not migrated under the hands of clients that do not know scalable topics, and what force does."""
    named = ", ".join(_named(one) for one in clients[:_NAMED_MAX])
    more = f" and {len(clients) - _NAMED_MAX} more" if len(clients) > _NAMED_MAX else ""
    return (
        f"clients without support for scalable topics use the topic: {named}{more}. Close them, or force the "
        "migration: their producers are then refused, and their consumers get only messages published before it"
    )


def check_consumer(subscription: Subscription | None, kind: int) -> bool:
    """True: the record of the scalable topic lets the consumer use a plain topic that is being migrated. False: the
    record must be created first, or must first learn the type of the subscription."""
    if subscription is None or subscription.undecided:
        return False
    if subscription.standing is not SubscriptionState.LIVE:
        raise Busy("the subscription is being removed: try again")
    if type_of(kind) is not subscription.type:
        raise Refused(
            f"subscription {subscription.name} is of type {subscription.type} since its topic was migrated: "
            f"it does not accept {TYPE_NAMES[kind]} consumers"
        )
    return subscription.ready


def check_left(subscription: Subscription, segment: SegmentId) -> None:
    """ConsumerBusy, to an old client's consumer: the plan gives this part of the topic to a stream consumer. Who came
    in while that one is away would break its order."""
    for hold in subscription.plan.holds:
        if hold.segment == segment and (hold.held_by or hold.moving):
            who = hold.held_by or hold.target or ", ".join(hold.joint)
            raise ConsumerBusy(f"subscription {subscription.name} was taken over by stream consumer {who}")


def _goes(subscription: Subscription) -> bool:
    return subscription.standing is not SubscriptionState.LIVE


def _named(client: PlainClient) -> str:
    what = f"consumer {client.name} of {client.subscription}" if client.subscription else f"producer {client.name}"
    return f"{what} at {client.address} ({client.version or 'an unknown client'})"

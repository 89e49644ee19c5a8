"""The scalable topics of a world, on top of the content of every world: about a third of all seeds have them.

One or two topics, some with deduplication; producers with several keys; stream subscriptions whose consumers come and
go; and how often an operator reshapes them. Values only, drawn before the world runs.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from simulation.environment.random_streams import RandomStreams
from simulation.world.workload import (
    STREAM,
    ProducerPlan,
    SubscriptionPlan,
    TopicPlan,
)

SHARE = 1 / 3  # of all seeds
CROWDED = 0.15  # of those
KEYS = tuple("abcdefghijkl")
DOOMED = "topic://public/managed/doomed"  # without clients: created, reshaped, deleted and created again


@dataclass(frozen=True, slots=True)
class ScalablePlan:
    reshape_s: float  # between two reshapes, on average
    segments: int  # at birth
    active_max: int  # no split beyond
    idle: bool  # whether subscriptions without consumers come and go
    doomed: bool  # whether there is a topic that is deleted now and then


def is_scalable(streams: RandomStreams) -> bool:
    return streams.fork("workload", "kind streams").random() < SHARE


def draw_scalable(
    chance: random.Random, *, kept: Sequence[str], once: Sequence[str]
) -> tuple[ScalablePlan, tuple[TopicPlan, ...]]:
    plan = ScalablePlan(
        reshape_s=chance.choice((0.2, 0.3, 0.5, 1.0)),
        segments=chance.choice((1, 1, 2, 4)),
        active_max=chance.choice((3, 5, 8)),
        idle=chance.random() < 0.4,
        doomed=chance.random() < 0.3,
    )
    return plan, tuple(_topic(chance, name, name in once) for name in (*kept, *once))


def unretained_topic(chance: random.Random, topic: str) -> TopicPlan:
    """A topic that retains nothing which all of its subscriptions have acknowledged."""
    return replace(_topic(chance, topic, deduplication=False), kept=False)


def add_consumers(chance: random.Random, topics: tuple[TopicPlan, ...]) -> tuple[TopicPlan, ...]:
    """Sometimes there are more stream consumers than segments: they share them by entry buckets."""
    if chance.random() >= CROWDED:
        return topics
    return tuple(
        replace(
            topic,
            subscriptions=tuple(
                replace(plan, consumers=chance.randint(4, 7)) if plan.type == STREAM else plan
                for plan in topic.subscriptions
            ),
        )
        for topic in topics
    )


def settings(chance: random.Random) -> dict[str, str]:
    """Consumers that are gone time out within seconds, so that others get their segments while the world lasts."""
    return {"scalableTopicConsumerSessionGracePeriodSeconds": str(chance.choice((1, 3, 10)))}


def _topic(chance: random.Random, topic: str, deduplication: bool) -> TopicPlan:
    short = topic.rsplit("/", 1)[-1]
    producers = tuple(_producer(chance, f"{short}-p{place}", deduplication) for place in range(chance.randint(1, 3)))
    subscriptions = tuple(_subscription(chance, f"stream{place}") for place in range(chance.randint(1, 2)))
    keys = KEYS[: chance.choice((3, 6, 12))]
    return TopicPlan(topic, deduplication, producers=producers, subscriptions=subscriptions, keys=keys)


def _producer(chance: random.Random, name: str, deduplication: bool) -> ProducerPlan:
    resends = deduplication and chance.random() < 0.5
    batch_messages = 1 if resends else chance.choice((1, 1, 3, 8))
    return ProducerPlan(
        name,
        named=resends or chance.random() < (0.7 if deduplication else 0.3),
        resends=resends,
        batch_messages=batch_messages,
        by_key=chance.random() < 0.3,
        send_timeout_s=0.0 if resends else chance.choice((1.0, 5.0, 30.0)),
        padding_bytes=chance.choice((0, 0, 500)),
        pause_s=chance.choice((0.1, 0.2, 0.4)),
        burst=chance.randint(1, 5),
        stint_messages=chance.choice((20, 100, 1_000)),
    )


def _subscription(chance: random.Random, name: str) -> SubscriptionPlan:
    return SubscriptionPlan(
        name,
        STREAM,
        consumers=chance.randint(1, 3),
        earliest=chance.random() < 0.8,
        batch_index=chance.random() < 0.3,
        queue_messages=chance.choice((1, 3, 10, 1_000)),
        holds_s=chance.choice((0.0, 0.3, 2.0)),
        stint_s=chance.choice((1.0, 3.0, 100.0)),
    )

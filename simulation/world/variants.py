"""More ways to consume a scalable topic, beside its stream subscriptions: in some worlds a queue, a checkpoint reader
and a group of such readers use the same topic.

Each variant draws from a stream of its own, so that worlds without it stay the same.
"""

from __future__ import annotations

import random
from dataclasses import replace

from simulation.world.workload import (
    BATCHES,
    CHECKPOINT,
    GROUP,
    QUEUE,
    STREAM,
    ProducerPlan,
    SubscriptionPlan,
    TopicPlan,
)

SHARE = 0.3  # of the worlds with scalable topics
PLANNED = 0.2  # of them, the same
MOVED = 0.15
SOUGHT = 0.2
MIGRATED = 0.15
CHUNKED = 0.15
RESTLESS = 0.12
BURIES = 0.15
MIXED = 0.5  # of those with chunks
CHUNKED_BYTES = 2_000  # more than the messages of all but those that are too large
QUIET = 0.06
SLOW = 0.1
LATE = 0.25
WORKS_S = 0.2
KEYLESS = 0.4  # of those with deduplication
LEFT = 0.4
MANY = 0.1
MANY_SUBSCRIPTIONS = (20, 40)
LAPSED = 0.06  # they last long
LAPSE_S = (90.0, 130.0)


def add_consumer_kinds(chance: random.Random, topics: tuple[TopicPlan, ...]) -> tuple[TopicPlan, ...]:
    if chance.random() >= SHARE:
        return topics
    return tuple(with_consumer_kinds(chance, topic) for topic in topics)


def add_batch_reader(chance: random.Random, topics: tuple[TopicPlan, ...], held: TopicPlan) -> tuple[TopicPlan, ...]:
    """In a few worlds a batch reader, under a hold, reads one of the topics, or one more topic that retains nothing
    without the hold."""
    if chance.random() >= PLANNED:
        return topics
    if chance.random() < 0.5:
        return (*topics, with_batches(chance, held))
    return (with_batches(chance, topics[0]), *topics[1:])


def add_seeks_to_beginning(chance: random.Random, topics: tuple[TopicPlan, ...]) -> tuple[TopicPlan, ...]:
    """In a few worlds a stream subscription is moved back by its consumer now and then."""
    return topics if chance.random() >= MOVED else (with_seeks(chance, topics[0]), *topics[1:])


def add_seeks(chance: random.Random, topics: tuple[TopicPlan, ...]) -> tuple[TopicPlan, ...]:
    """In some worlds a consumer moves its stream or queue, to times too, or an operator skips everything. Without
    retention the expected messages would be unknown, so only topics with retention have seeks."""
    if chance.random() >= SOUGHT or not topics[0].kept:
        return topics
    ways = (with_times, with_sought_queue, with_skips)
    return (chance.choice(ways)(chance, topics[0]), *topics[1:])


def add_migration(chance: random.Random, topics: tuple[TopicPlan, ...]) -> tuple[TopicPlan, ...]:
    """In some worlds the only topic begins as a plain one and is migrated under all kinds of clients."""
    return topics if chance.random() >= MIGRATED or not topics[0].kept else (with_migration(chance, topics[0]),)


def add_chunks(chance: random.Random, topics: tuple[TopicPlan, ...]) -> tuple[TopicPlan, ...]:
    """In some worlds at least two producers write to each topic, some of them large messages in chunks, mixed with
    messages of others. Batch readers do not read chunks."""
    if chance.random() >= CHUNKED or any(plan.type == BATCHES for topic in topics for plan in topic.subscriptions):
        return topics
    return tuple(with_chunks(chance, topic) for topic in topics)


def add_churn(chance: random.Random, topics: tuple[TopicPlan, ...]) -> tuple[TopicPlan, ...]:
    """In some worlds stream consumers come and go all the time, so that segments change hands while messages of them
    are in flight; and they receive many at a time."""
    if chance.random() >= RESTLESS:
        return topics
    return tuple(with_churn(chance, topic) for topic in topics)


def add_late_acks(chance: random.Random, topics: tuple[TopicPlan, ...]) -> tuple[TopicPlan, ...]:
    """In some worlds stream consumers acknowledge many messages at a time, by time, or only when they leave. They get
    past splits all the same (H-F20)."""
    return topics if chance.random() >= LATE else tuple(with_late_acks(chance, topic) for topic in topics)


def with_late_acks(chance: random.Random, topic: TopicPlan) -> TopicPlan:
    def changed(plan: SubscriptionPlan) -> SubscriptionPlan:
        if plan.type != STREAM:
            return plan
        every = chance.choice((5, 20, 1_000, 0))
        after_s = 0.0 if every else chance.choice((0.5, 2.0, 5.0))
        return replace(plan, acks_every=every, acks_after_s=after_s, alone=plan.consumers == 1 and not topic.regular)

    return replace(topic, subscriptions=tuple(changed(plan) for plan in topic.subscriptions))


def remove_keys(chance: random.Random, topics: tuple[TopicPlan, ...]) -> tuple[TopicPlan, ...]:
    """In some worlds the producers of topics with deduplication send messages without keys, and send them again."""
    if chance.random() >= KEYLESS:
        return topics
    return tuple(with_keyless(topic) if topic.deduplication else topic for topic in topics)


def with_keyless(topic: TopicPlan) -> TopicPlan:
    producers = tuple(replace(one, keyless=True, named=True, by_key=False) for one in topic.producers)
    return replace(topic, producers=producers)


def move_to_default_retention(chance: random.Random, topics: list[str], kept: str, unset: str) -> list[str]:
    """In some worlds the topics with retention are in a namespace without a policy: the default retains a day, and no
    world lasts so long."""
    return [topic.replace(kept, unset) for topic in topics] if chance.random() < LEFT else topics


def add_dead_letters(chance: random.Random, topics: tuple[TopicPlan, ...]) -> tuple[TopicPlan, ...]:
    """In some worlds a queue refuses some messages at every delivery, until they are dead letters."""
    return topics if chance.random() >= BURIES else tuple(with_dead_letters(chance, topic) for topic in topics)


def add_quiet_groups(chance: random.Random, topics: tuple[TopicPlan, ...]) -> tuple[TopicPlan, ...]:
    """In a few worlds little or nothing is written to topics that groups read: most segments are sealed empty."""
    if chance.random() >= QUIET or not all(topic.kept and not topic.regular for topic in topics):
        return topics
    return tuple(with_quiet_groups(chance, topic) for topic in topics)


def add_many_subscriptions(chance: random.Random, topics: tuple[TopicPlan, ...]) -> tuple[TopicPlan, ...]:
    """In some worlds a topic has tens of stream subscriptions: brokers send the waits of all to each other."""
    if chance.random() >= MANY or topics[0].regular or not topics[0].kept:
        return topics
    return (with_many_subscriptions(chance, topics[0]), *topics[1:])


def with_many_subscriptions(chance: random.Random, topic: TopicPlan) -> TopicPlan:
    many = tuple(
        SubscriptionPlan(
            f"many{number}", STREAM, stint_s=chance.choice((3.0, 100.0)), holds_s=chance.choice((0.0, 0.5))
        )
        for number in range(chance.randint(*MANY_SUBSCRIPTIONS))
    )
    return replace(topic, subscriptions=(*topic.subscriptions, *many))


def with_quiet_groups(chance: random.Random, topic: TopicPlan) -> TopicPlan:
    rare = tuple(replace(one, pause_s=chance.choice((2.0, 100.0)), burst=1) for one in topic.producers[:1])
    group = replace(_group(chance), consumers=2, holds_s=0.0, stint_s=chance.choice((1.0, 100.0)), idles=True)
    return replace(topic, producers=rare, subscriptions=(group,))


def with_dead_letters(chance: random.Random, topic: TopicPlan) -> TopicPlan:
    plan = replace(_queue(chance), name="buries", buries=True, refuses=0.0, holds_s=0.3, queue_messages=1_000)
    producers = tuple(one if one.resends else replace(one, batch_messages=8) for one in topic.producers)
    return replace(topic, producers=producers, subscriptions=(*topic.subscriptions, plan))


def with_churn(chance: random.Random, topic: TopicPlan) -> TopicPlan:
    def churned(plan: SubscriptionPlan) -> SubscriptionPlan:
        if plan.type != STREAM or plan.seeks or plan.skipped:
            return plan
        return replace(
            plan, consumers=chance.randint(2, 4), stint_s=chance.choice((0.3, 0.6)), queue_messages=1_000, batched=True
        )

    return replace(topic, subscriptions=tuple(churned(plan) for plan in topic.subscriptions))


def add_work(chance: random.Random, topics: tuple[TopicPlan, ...]) -> tuple[TopicPlan, ...]:
    """In some worlds stream consumers work for a while on what they took: messages wait in their queues."""
    return topics if chance.random() >= SLOW else tuple(with_work(topic) for topic in topics)


def with_work(topic: TopicPlan) -> TopicPlan:
    def working(plan: SubscriptionPlan) -> SubscriptionPlan:
        return replace(plan, works_s=WORKS_S) if plan.type == STREAM else plan

    return replace(topic, subscriptions=tuple(working(plan) for plan in topic.subscriptions))


def with_chunks(chance: random.Random, topic: TopicPlan) -> TopicPlan:
    producers = topic.producers
    if len(producers) == 1:
        producers = (*producers, replace(producers[0], name=f"{producers[0].name}-other"))
    large, *others = (replace(one, chunking=True, padding_bytes=chance.choice((0, 0, 1_500))) for one in producers)
    return replace(topic, producers=(replace(large, padding_bytes=1_500), *others))


def with_mixed(topic: TopicPlan) -> TopicPlan:
    """One more producer, whose messages in two chunks each are mixed with each other."""
    producer = ProducerPlan(f"{topic.producers[0].name}-mixes", mixes=True, padding_bytes=600, pause_s=0.2)
    return replace(topic, producers=(*topic.producers, producer))


def with_oversized(topic: TopicPlan) -> TopicPlan:
    """Its producers send messages now and then that are larger than `CHUNKED_BYTES`."""
    producers = tuple(one if one.mixes or one.resends else replace(one, oversized=0.1) for one in topic.producers)
    return replace(topic, producers=producers)


def limit_pending_chunks(chance: random.Random, topics: tuple[TopicPlan, ...]) -> tuple[TopicPlan, ...]:
    """In worlds with chunks: stream and queue consumers that may hold few messages half received."""

    def small(plan: SubscriptionPlan) -> SubscriptionPlan:
        return replace(plan, chunked_max=chance.choice((0, 1, 2))) if plan.type in (STREAM, QUEUE) else plan

    return tuple(replace(one, subscriptions=tuple(small(plan) for plan in one.subscriptions)) for one in topics)


def with_migration(chance: random.Random, topic: TopicPlan) -> TopicPlan:
    """A topic with deduplication has no partitions: of a producer's sequence ids in several partitions only the lowest
    is handed over, because the migration does not know which of them has had which keys."""
    partitions = chance.choice((0, 0, 2, 3))
    migrated = replace(topic, regular=True, partitions=0 if topic.deduplication else partitions)
    if not any(plan.type == QUEUE for plan in migrated.subscriptions):
        migrated = with_consumer_kinds(chance, migrated)
    migrated = replace(migrated, subscriptions=tuple(_late(chance, plan) for plan in migrated.subscriptions))
    read = any(plan.type == BATCHES for plan in migrated.subscriptions)
    return with_batches(chance, migrated) if chance.random() < 0.3 and not read else migrated


def _late(chance: random.Random, plan: SubscriptionPlan) -> SubscriptionPlan:
    """Of some queues that begin at the end: what is written where they have no cursor yet they would never get."""
    return replace(plan, earliest=False) if plan.type == QUEUE and chance.random() < 0.5 else plan


def with_lapses(chance: random.Random, topic: TopicPlan) -> TopicPlan:
    """A topic with short retention and little traffic, and a reader that stays away for longer than its hold lasts."""
    slow = tuple(replace(one, pause_s=one.pause_s * 10, burst=2, stint_messages=1_000) for one in topic.producers)
    plan = SubscriptionPlan("lapses", BATCHES, stint_s=chance.choice((1.0, 5.0)), lapses=True)
    return replace(topic, producers=slow, subscriptions=(*topic.subscriptions, plan))


def with_times(chance: random.Random, topic: TopicPlan) -> TopicPlan:
    """A stream whose only consumer moves it to times."""
    plan = replace(with_seeks(chance, topic).subscriptions[-1], name="timed", times=True)
    return replace(topic, subscriptions=(*topic.subscriptions, plan))


def with_sought_queue(chance: random.Random, topic: TopicPlan) -> TopicPlan:
    plan = replace(_queue(chance), name="sought", seeks=True, times=True)
    return replace(topic, subscriptions=(*topic.subscriptions, plan))


def with_skips(chance: random.Random, topic: TopicPlan) -> TopicPlan:
    """A queue and a stream of several consumers, which an operator moves to the end."""
    queue = replace(_queue(chance), name="skipped-queue", skipped=True)
    stream = SubscriptionPlan(
        "skipped-stream",
        STREAM,
        consumers=chance.randint(1, 3),
        queue_messages=chance.choice((1, 10, 1_000)),
        holds_s=chance.choice((0.0, 0.3)),
        stint_s=chance.choice((1.0, 3.0, 100.0)),
        skipped=True,
    )
    return replace(topic, subscriptions=(*topic.subscriptions, queue, stream))


def with_seeks(chance: random.Random, topic: TopicPlan) -> TopicPlan:
    plan = SubscriptionPlan(
        "moved",
        STREAM,
        queue_messages=chance.choice((1, 10, 1_000)),
        holds_s=chance.choice((0.0, 0.3)),
        stint_s=chance.choice((3.0, 100.0)),
        seeks=True,
    )
    return replace(topic, subscriptions=(*topic.subscriptions, plan))


def with_batches(chance: random.Random, topic: TopicPlan) -> TopicPlan:
    plan = SubscriptionPlan("batches", BATCHES, stint_s=chance.choice((0.5, 1.0, 3.0)))
    return replace(topic, subscriptions=(*topic.subscriptions, plan))


def with_consumer_kinds(chance: random.Random, topic: TopicPlan) -> TopicPlan:
    return replace(topic, subscriptions=(*topic.subscriptions, _reader(chance), _queue(chance), _group(chance)))


def _reader(chance: random.Random) -> SubscriptionPlan:
    return SubscriptionPlan(
        "reader",
        CHECKPOINT,
        queue_messages=chance.choice((1, 3, 10, 1_000)),
        stint_s=chance.choice((0.5, 1.0, 3.0)),
    )


def _group(chance: random.Random) -> SubscriptionPlan:
    return SubscriptionPlan(
        "group",
        GROUP,
        consumers=chance.randint(1, 3),
        queue_messages=chance.choice((1, 10, 1_000)),
        holds_s=chance.choice((0.0, 0.3, 2.0)),
        stint_s=chance.choice((1.0, 3.0, 100.0)),
    )


def _queue(chance: random.Random) -> SubscriptionPlan:
    return SubscriptionPlan(
        "queue",
        QUEUE,
        consumers=chance.randint(1, 2),
        queue_messages=chance.choice((1, 10, 1_000)),
        holds_s=chance.choice((0.0, 0.3)),
        refuses=chance.choice((0.0, 0.02)),
        leaves=0.0,
        stint_s=chance.choice((3.0, 100.0)),
    )

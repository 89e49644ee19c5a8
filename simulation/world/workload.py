"""The plan of a world's clients: topics, their producers, their subscriptions and how these behave. Values only.

`draw_topics` draws a workload from a random generator; a test that needs a certain workload writes one down. Nothing
here calls a broker: the processes in `simulation.clients` carry it out.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from magnetar.client.consumer.config import SubscriptionType

KEYS = ("a", "b", "c", "d", "e")
READER = "Reader"
STREAM = "Stream"  # of a scalable topic
QUEUE = "Queue"  # of a scalable topic
CHECKPOINT = "Checkpoint"  # a reader of a scalable topic
GROUP = "Group"  # of readers of a scalable topic, with one checkpoint
BATCHES = "Batches"  # a reader of a scalable topic that plans them, under a hold
TYPES = tuple(kind.value for kind in SubscriptionType)


@dataclass(frozen=True, slots=True)
class ProducerPlan:
    name: str  # of the process, and of the producer where it is `named`
    named: bool = False  # then it gives its sequence ids itself
    resends: bool = False  # what it does not know to be stored it sends again as the next object: named, deduplicated
    batch_messages: int = 1  # 1: every message alone
    by_key: bool = False
    keyless: bool = False  # its messages have no key
    send_timeout_s: float = 5.0
    padding_bytes: int = 0  # on top of what a message says
    chunking: bool = False  # what is larger than brokers take goes in chunks
    oversized: float = 0.0  # how many of its messages are larger than any consumer puts together, in such a world
    mixes: bool = False  # cuts messages itself: first halves of several, then their second halves
    pause_s: float = 0.1  # between messages, on average
    burst: int = 3  # messages in a burst, at most
    delays: float = 0.0  # share of its messages that are delayed
    stint_messages: int = 60  # until the object is closed and another one made, on average


@dataclass(frozen=True, slots=True)
class SubscriptionPlan:
    name: str
    type: str = "Exclusive"  # one of TYPES, READER, STREAM, QUEUE, CHECKPOINT, GROUP or BATCHES
    consumers: int = 1
    first: int = 0  # the number of the first of them
    earliest: bool = True
    cumulative: bool = False  # acknowledges up to, now and then; else one by one
    batch_index: bool = False
    queue_messages: int = 10
    holds_s: float = 0.5  # a message is held up to so long before it is acknowledged
    confirms: float = 0.1  # how many of the acknowledgements wait for the broker's receipt
    refuses: float = 0.05  # how many messages are refused
    leaves: float = 0.05  # how many messages are never acknowledged
    stint_s: float = 3.0  # until a consumer leaves and comes back, on average
    seeks: bool = False  # one consumer, that goes back now and then
    times: bool = False  # ... and to times, and to the end
    buries: bool = False  # a queue that refuses some messages always: they go to the dead letters
    lapses: bool = False  # a reader in batches that stays away until its hold expires, now and then
    skipped: bool = False  # an operator passes over all there is, now and then
    chunked_max: int = 0  # messages in chunks that a consumer may hold half received; 0: as clients do by themselves
    acks_every: int = 0  # a stream consumer acknowledges this number at a time, and the rest when it leaves; 0: by time
    acks_after_s: float = 0.0  # a stream consumer acknowledges all it has so long after the oldest; 0: as above
    alone: bool = False  # the one consumer of its stream, which acknowledges late, of a topic that is not migrated
    batched: bool = False  # a stream consumer that takes many at a time
    works_s: float = 0.0  # a stream consumer takes nothing for so long after each message or batch
    idles: bool = False  # a group that says how far it is although nothing came
    mayfly: bool = False  # one consumer, that deletes the subscription now and then and creates it again


@dataclass(frozen=True, slots=True)
class TopicPlan:
    topic: str
    deduplication: bool = False
    kept: bool = True  # nothing of it is trimmed: the namespace's retention is without bounds
    producers: tuple[ProducerPlan, ...] = ()
    subscriptions: tuple[SubscriptionPlan, ...] = ()
    keys: tuple[str, ...] = KEYS
    regular: bool = (
        False  # it begins as a plain topic with this number of partitions, and is migrated under its clients
    )
    partitions: int = 0

    def validate(self) -> None:
        plans = [
            (one.name, number) for one in self.subscriptions for number in range(one.first, one.first + one.consumers)
        ]
        assert len(set(plans)) == len(plans), f"{self.topic}: two consumers have one name"

    @property
    def address(self) -> str:
        """The name that its clients use."""
        return self.topic.replace("topic://", "persistent://", 1) if self.regular else self.topic

    @property
    def scalable(self) -> bool:
        return self.topic.startswith("topic://")


def draw_topics(
    chance: random.Random, *, plain: Sequence[str] = (), once: Sequence[str] = (), gone: Sequence[str] = ()
) -> list[TopicPlan]:
    """One plan for each topic; topics in `once` have deduplication, those in `gone` retain nothing that all have
    acknowledged."""
    return [_topic(chance, topic, topic in once, topic not in gone) for topic in (*plain, *once, *gone)]


def _topic(chance: random.Random, topic: str, deduplication: bool, kept: bool) -> TopicPlan:
    short = topic.rsplit("/", 1)[-1]
    kinds = chance.sample([*TYPES, *TYPES, *([READER] if kept else [])], chance.randint(2, 4))
    subscriptions = tuple(
        _subscription(chance, f"{kind.lower()}{place}", kind, kept) for place, kind in enumerate(kinds)
    )
    keyed = any(plan.type == "Key_Shared" for plan in subscriptions)
    producers = tuple(
        _producer(chance, f"{short}-p{place}", deduplication, keyed) for place in range(chance.randint(1, 3))
    )
    if not keyed and chance.random() < 0.4:
        # Delayed ones of a key would come behind younger ones: legal, and nothing could be said about its order.
        producers = tuple(replace(plan, delays=chance.choice((0.1, 0.5))) for plan in producers)
    return TopicPlan(topic, deduplication, kept, producers=producers, subscriptions=subscriptions)


def _producer(chance: random.Random, name: str, deduplication: bool, keyed: bool) -> ProducerPlan:
    resends = deduplication and chance.random() < 0.5
    return ProducerPlan(
        name,
        named=resends or chance.random() < (0.7 if deduplication else 0.3),
        resends=resends,
        batch_messages=1 if resends else chance.choice((1, 1, 3, 8)),
        by_key=keyed,
        send_timeout_s=0.0 if resends else chance.choice((1.0, 5.0, 30.0)),
        padding_bytes=chance.choice((0, 0, 500, 1_500)),
        pause_s=chance.choice((0.1, 0.3, 0.6)),
        burst=chance.randint(1, 4),
        stint_messages=chance.choice((10, 40, 1_000)),
    )


def _subscription(chance: random.Random, name: str, kind: str, kept: bool) -> SubscriptionPlan:
    """A consumer that moves back in a topic without retention finds some messages deleted: no checker could judge
    that."""
    single = kind in ("Exclusive", "Failover")
    consumers = 1 if kind in ("Exclusive", READER) else chance.randint(1, 3)
    if kind == "Exclusive" and chance.random() < 0.3:
        consumers = 2  # the second waits until the first one leaves
    special = chance.random() if kind == "Exclusive" and consumers == 1 else 1.0
    return SubscriptionPlan(
        name,
        kind,
        consumers,
        earliest=chance.random() < 0.8,
        cumulative=single and chance.random() < 0.5,
        batch_index=chance.random() < 0.3,
        queue_messages=chance.choice((0, 1, 3, 10, 1_000)),
        holds_s=chance.choice((0.0, 0.3, 2.0)),
        confirms=chance.choice((0.0, 0.1, 0.5)),
        refuses=chance.choice((0.0, 0.02)),
        leaves=chance.choice((0.0, 0.02, 0.1)),
        stint_s=chance.choice((3.0, 100.0) if kind == READER else (1.0, 3.0, 100.0)),
        seeks=kept and special < 0.2,
        mayfly=0.2 <= special < 0.4,
    )

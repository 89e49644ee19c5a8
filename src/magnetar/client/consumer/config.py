"""The configuration of a consumer: its subscription and all options, as values.

Misuse is refused here, before any request. The broker decides the rest, such as permissions and free hash ranges.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Literal

from magnetar.base.errors import InvalidRange, Misuse
from magnetar.base.hashes import SLOTS
from magnetar.base.limits import (
    ACK_GROUP_IDS_MAX,
    ACK_GROUP_S,
    CHUNKED_EXPIRE_S,
    CHUNKED_PENDING_MAX,
    DISCOVERY_S,
    INBOX_BYTES_MAX,
    RECEIVER_QUEUE_MESSAGES,
    RECEIVER_QUEUE_MESSAGES_MAX,
)
from magnetar.base.public import public
from magnetar.client.arguments import check_number, check_text
from magnetar.client.consumer.ack.nacks import NackBackoff
from magnetar.client.message import MessageId
from magnetar.wire.proto import pb

QUEUE_MESSAGES_TOTAL = 50_000  # over all partitions of a consumer, as in stock clients

OnSegments = Callable[["SegmentsChanged"], None]
OnUndecodable = Literal["raise", "dead_letter"]
Topics = str | list[str] | tuple[str, ...] | re.Pattern[str]


@public("magnetar")
class SubscriptionType(Enum):
    """How messages are distributed. `EXCLUSIVE`: to the only consumer. `FAILOVER`: to one consumer at a time, the
    others stand by. `SHARED`: to any consumer, in no order. `KEY_SHARED`: all messages of a key to one consumer, in
    order.
    """

    EXCLUSIVE = "Exclusive"
    SHARED = "Shared"
    FAILOVER = "Failover"
    KEY_SHARED = "Key_Shared"

    @property
    def single(self) -> bool:
        """Whether one consumer receives everything, in order."""
        return self in (SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER)


@public("magnetar")
class InitialPosition(Enum):
    """Where a new subscription starts; an existing one continues at its position."""

    LATEST = "Latest"
    EARLIEST = "Earliest"


@public("magnetar")
@dataclass(frozen=True, slots=True)
class SegmentsChanged:
    """Segments of a topic that a stream consumer starts to read (`gained`), and those that it stops reading (`lost`):
    read to the end, moved to another consumer, or closed with it.
    """

    topic: str
    gained: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()


@public("magnetar")
@dataclass(frozen=True, slots=True)
class KeyShared:
    """How keys are distributed. Without `ranges` the broker splits them; with ranges (of 0..65535, both ends included)
    this consumer gets exactly these.
    """

    ranges: tuple[tuple[int, int], ...] = ()
    out_of_order: bool = False
    buckets: bool = False  # the ranges are those of all entry buckets of a segment, for all its consumers

    def __post_init__(self) -> None:
        for start, end in self.ranges:
            if not 0 <= start <= end < SLOTS:
                raise InvalidRange(f"a sticky range must lie within 0..{SLOTS - 1}", start=start, end=end)


@public("magnetar")
@dataclass(frozen=True, slots=True)
class DeadLetters:
    """After `redeliveries_max` redeliveries a message goes to `topic` and not to the application: by default
    `<topic>-<subscription>-DLQ`, of a scalable topic `<topic>-DLQ`. `reconsume_later` publishes to `retry_topic` (by
    default `<topic>-<subscription>-RETRY`). `<topic>` is the name under which the consumer subscribed.
    """

    redeliveries_max: int = 16
    topic: str = ""
    retry_topic: str = ""
    initial_subscription: str = ""

    def __post_init__(self) -> None:
        check_number(self.redeliveries_max, "redeliveries_max")
        for name in ("topic", "retry_topic", "initial_subscription"):
            check_text(getattr(self, name), f"{name} of dead letters")


@dataclass(frozen=True, slots=True)
class ConsumerConfig:
    """Everything about a consumer except its topics, its schema and its callbacks."""

    subscription: str
    type: SubscriptionType = SubscriptionType.EXCLUSIVE
    name: str = ""
    initial_position: InitialPosition = InitialPosition.LATEST
    priority: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    subscription_properties: Mapping[str, str] = field(default_factory=dict)
    durable: bool = True
    read_compacted: bool = False
    replicated: bool = False
    key_shared: KeyShared | None = None
    queue_messages: int = RECEIVER_QUEUE_MESSAGES
    queue_messages_total: int = QUEUE_MESSAGES_TOTAL
    queue_bytes: int = INBOX_BYTES_MAX
    ack_group_s: float = ACK_GROUP_S
    ack_group_max: int = ACK_GROUP_IDS_MAX
    ack_batch_index: bool = False
    ack_timeout_s: float = 0.0  # 0: never
    nack: NackBackoff = field(default_factory=NackBackoff)
    dead_letters: DeadLetters | None = None
    retry: bool = False
    chunked_pending_max: int = CHUNKED_PENDING_MAX
    chunked_expire_s: float = CHUNKED_EXPIRE_S
    discard_incomplete_chunks: bool = False
    # This client cannot decrypt. It skips encrypted messages and leaves them unacknowledged, for a consumer that has
    # the key. With this option it acknowledges them as undecryptable. Each is counted, and the first is logged.
    discard_encrypted: bool = False
    discovery_s: float = DISCOVERY_S
    start: MessageId | None = None  # of readers
    start_inclusive: bool = False
    rollback_s: int = 0
    paused: bool = False
    # A message whose value does not fit the schema. "raise": `message.value` raises `Undecodable`. "dead_letter": it is
    # decoded on arrival, and goes to the dead-letter topic and not to the application.
    on_undecodable: OnUndecodable = "raise"
    on_segments: OnSegments | None = None  # of stream consumers

    @property
    def watches(self) -> bool:
        """Whether taken messages must be recorded: for the timeout, and for dead letters, which only they can
        become."""
        return self.ack_timeout_s > 0 or self.dead_letters is not None

    def __post_init__(self) -> None:
        check_text(self.subscription, "the name of a subscription, or of a group,")
        if not self.subscription:
            raise Misuse("the name of a subscription must not be empty")
        if not 0 <= self.queue_messages <= RECEIVER_QUEUE_MESSAGES_MAX:
            raise Misuse(f"queue_messages must be 0..{RECEIVER_QUEUE_MESSAGES_MAX}", queue_messages=self.queue_messages)
        if self.queue_bytes <= 0 or self.queue_messages_total <= 0:
            raise Misuse("queue_bytes and queue_messages_total must be positive")
        if self.ack_group_s < 0 or self.ack_group_max <= 0 or self.ack_timeout_s < 0:
            raise Misuse("ack_group_s and ack_timeout_s must not be negative, ack_group_max must be positive")
        if self.key_shared is not None and self.type is not SubscriptionType.KEY_SHARED and self.durable:
            raise Misuse("key_shared requires a KEY_SHARED subscription or a reader", type=self.type.value)
        if self.read_compacted and not self.type.single:
            raise Misuse("read_compacted requires an EXCLUSIVE or FAILOVER subscription", type=self.type.value)
        if self.dead_letters is not None and self.type.single and not self.retry:
            raise Misuse(
                "dead_letters requires a SHARED or KEY_SHARED subscription: brokers count redeliveries only there",
                type=self.type.value,
            )
        if self.on_undecodable not in ("raise", "dead_letter"):
            raise Misuse("on_undecodable must be 'raise' or 'dead_letter'", given=repr(self.on_undecodable)[:80])
        if self.on_undecodable == "dead_letter" and self.type.single:
            raise Misuse(
                "on_undecodable='dead_letter' requires a SHARED or KEY_SHARED subscription or a queue consumer: where"
                " order matters, catch Undecodable at message.value and decide",
                type=self.type.value,
            )
        if self.rollback_s < 0:
            raise Misuse("rollback_s must not be negative", rollback_s=self.rollback_s)

    @property
    def buries(self) -> bool:
        """Whether messages may go to a dead-letter or retry topic."""
        return self.dead_letters is not None or self.retry or self.on_undecodable == "dead_letter"

    def queue_of(self, topics: int) -> int:
        """The queue size of each of this many topics."""
        if topics <= 1 or self.queue_messages == 0:
            return self.queue_messages
        return max(1, min(self.queue_messages, self.queue_messages_total // topics))


def by_buckets(config: ConsumerConfig, ranges: tuple[tuple[int, int], ...]) -> ConsumerConfig:
    """The configuration for a segment that is shared with other consumers (PIP-486). Messages that one consumer
    acknowledged in a batch are not delivered to another. Compacted reading is off: shared consumers cannot have it."""
    return replace(
        config,
        type=SubscriptionType.KEY_SHARED,
        key_shared=KeyShared(ranges, buckets=True),
        ack_batch_index=True,
        read_compacted=False,
    )


def subscribe_command(
    config: ConsumerConfig,
    topic: str,
    consumer_id: int,
    request_id: int,
    *,
    schema: pb.Schema | None,
    start: MessageId | None,
    epoch: int,
    creates: bool = True,
) -> pb.BaseCommand:
    command = pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE)
    subscribe = command.subscribe
    subscribe.topic = topic
    subscribe.subscription = config.subscription
    subscribe.subType = getattr(pb.CommandSubscribe, config.type.value)
    subscribe.consumer_id = consumer_id
    subscribe.request_id = request_id
    if config.name:
        subscribe.consumer_name = config.name
    subscribe.priority_level = config.priority
    subscribe.durable = config.durable
    subscribe.read_compacted = config.read_compacted
    subscribe.initialPosition = getattr(pb.CommandSubscribe, config.initial_position.value)
    subscribe.replicate_subscription_state = config.replicated
    subscribe.force_topic_creation = creates
    subscribe.consumer_epoch = epoch
    for key, value in config.properties.items():
        subscribe.metadata.add(key=key, value=value)
    for key, value in config.subscription_properties.items():
        subscribe.subscription_properties.add(key=key, value=value)
    if schema is not None:
        subscribe.schema.CopyFrom(schema)
    if config.type is SubscriptionType.KEY_SHARED or config.key_shared is not None:
        key_shared = config.key_shared or KeyShared()
        meta = subscribe.keySharedMeta
        meta.keySharedMode = pb.STICKY if key_shared.ranges else pb.AUTO_SPLIT
        meta.allowOutOfOrderDelivery = key_shared.out_of_order
        for first, last in key_shared.ranges:
            meta.hashRanges.add(start=first, end=last)
        if key_shared.buckets:
            meta.entryBucketDispatch = True
    if start is not None:
        subscribe.start_message_id.ledgerId = start.ledger % (1 << 64)
        subscribe.start_message_id.entryId = start.entry % (1 << 64)
        if start.batch_index >= 0:
            subscribe.start_message_id.batch_index = start.batch_index
    if config.rollback_s:
        subscribe.start_message_rollback_duration_sec = config.rollback_s
    return command


def unsubscribe_command(consumer_id: int, request_id: int, *, force: bool) -> pb.BaseCommand:
    command = pb.BaseCommand(type=pb.BaseCommand.UNSUBSCRIBE)
    body = command.unsubscribe
    body.consumer_id, body.request_id, body.force = consumer_id, request_id, force
    return command


def close_command(consumer_id: int, request_id: int) -> pb.BaseCommand:
    command = pb.BaseCommand(type=pb.BaseCommand.CLOSE_CONSUMER)
    command.close_consumer.consumer_id, command.close_consumer.request_id = consumer_id, request_id
    return command

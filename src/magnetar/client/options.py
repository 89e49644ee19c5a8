"""The options of producers, consumers, readers and table views: the keyword arguments of a client's methods, the same
for the asyncio and the blocking client. The modules that use an option document it (`producer/config`, `batch`,
`router`, `consumer/config`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from numbers import Real
from typing import Any, TypedDict

from magnetar.base.errors import Misuse
from magnetar.base.limits import CLIENT_SEND_S
from magnetar.base.names import Domain, topic_name
from magnetar.client.arguments import SHOWN_CHARS_MAX, check_topic, is_number, unknown_option
from magnetar.client.consumer.ack.nacks import NackBackoff
from magnetar.client.consumer.config import (
    ConsumerConfig,
    DeadLetters,
    InitialPosition,
    KeyShared,
    OnSegments,
    OnUndecodable,
    SubscriptionType,
)
from magnetar.client.consumer.scalable.namespace.follower import Namespace
from magnetar.client.message import MessageId
from magnetar.client.producer.batch import Batching
from magnetar.client.producer.config import ProducerConfig
from magnetar.client.producer.producer import AccessMode, Compression
from magnetar.client.producer.router import Chooser, Hashing, Routing
from magnetar.client.schema import Schema


class ProducerOptions(TypedDict, total=False):
    name: str
    batching: Batching | None  # None: every message is an entry of its own
    compression: Compression
    chunking: bool
    routing: Routing | Chooser
    hashing: Hashing
    access_mode: AccessMode
    send_timeout_s: float  # 0: wait without limit
    initial_sequence_id: int | None
    properties: Mapping[str, str]
    initial_subscription: str
    follow: bool  # produce to a plain topic through its layout, and continue when it is migrated


class ConsumerOptions(TypedDict, total=False):
    type: SubscriptionType
    name: str
    initial_position: InitialPosition
    priority: int
    properties: Mapping[str, str]
    subscription_properties: Mapping[str, str]
    durable: bool
    read_compacted: bool
    replicated: bool
    key_shared: KeyShared | None
    queue_messages: int
    queue_messages_total: int
    queue_bytes: int
    ack_group_s: float
    ack_group_max: int
    ack_batch_index: bool
    ack_timeout_s: float
    nack: NackBackoff
    dead_letters: DeadLetters | None
    retry: bool
    on_undecodable: OnUndecodable
    chunked_pending_max: int
    chunked_expire_s: float
    discard_incomplete_chunks: bool
    discard_encrypted: bool
    discovery_s: float
    paused: bool


class ReaderOptions(TypedDict, total=False):
    name: str
    subscription: str
    start_inclusive: bool
    rollback_s: int
    read_compacted: bool
    properties: Mapping[str, str]
    key_shared: KeyShared | None
    queue_messages: int
    queue_bytes: int
    chunked_pending_max: int
    chunked_expire_s: float


class StreamOptions(TypedDict, total=False):
    name: str  # of the consumer: the same name gets the same segments back within the grace period
    initial_position: InitialPosition
    properties: Mapping[str, str]
    subscription_properties: Mapping[str, str]
    read_compacted: bool
    replicated: bool
    queue_messages: int  # of each segment
    queue_bytes: int  # of all segments together
    ack_group_s: float
    ack_batch_index: bool  # on by default: a consumer that takes over a segment continues within a batch
    on_segments: OnSegments | None
    chunked_pending_max: int
    chunked_expire_s: float
    discard_incomplete_chunks: bool
    discard_encrypted: bool


class QueueOptions(TypedDict, total=False):
    name: str
    initial_position: InitialPosition
    priority: int
    properties: Mapping[str, str]
    subscription_properties: Mapping[str, str]
    replicated: bool
    queue_messages: int  # of each segment
    queue_messages_total: int  # of all segments together
    queue_bytes: int
    ack_group_s: float
    ack_group_max: int
    ack_batch_index: bool  # on by default: a message acknowledged by one consumer is not delivered to another
    ack_timeout_s: float
    nack: NackBackoff
    dead_letters: DeadLetters | None
    retry: bool
    on_undecodable: OnUndecodable
    chunked_pending_max: int
    chunked_expire_s: float
    discard_incomplete_chunks: bool
    discard_encrypted: bool
    paused: bool


class CheckpointOptions(TypedDict, total=False):
    name: str
    properties: Mapping[str, str]
    read_compacted: bool
    queue_messages: int  # of each segment
    queue_messages_total: int  # of all segments together
    queue_bytes: int
    chunked_pending_max: int
    chunked_expire_s: float


_MEMBERS: dict[str, type[Enum]] = {
    "access_mode": AccessMode,
    "compression": Compression,
    "initial_position": InitialPosition,
    "type": SubscriptionType,
}


def _is_texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(isinstance(one, str) for pair in value.items() for one in pair)


def _is_real(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and value == value


# Types as the tables above write them: a check, and a description for errors.
_KINDS: dict[str, tuple[Callable[[object], bool], str]] = {
    "str": (lambda given: isinstance(given, str), "text"),
    "int": (is_number, "a whole number"),
    "int | None": (lambda given: given is None or is_number(given), "a whole number or None"),
    "float": (_is_real, "a number"),
    "bool": (lambda given: isinstance(given, bool), "True or False"),
    "Mapping[str, str]": (_is_texts, "a mapping of text to text"),
    "Batching | None": (lambda given: given is None or isinstance(given, Batching), "a Batching or None"),
    "KeyShared | None": (lambda given: given is None or isinstance(given, KeyShared), "a KeyShared or None"),
    "OnSegments | None": (lambda given: given is None or callable(given), "a function of SegmentsChanged, or None"),
    "NackBackoff": (lambda given: isinstance(given, NackBackoff), "a NackBackoff"),
}


_ANYTHING: tuple[Callable[[object], bool], str] = (lambda given: True, "")  # checked elsewhere


def check_options(options: Mapping[str, object], table: type, what: str) -> None:
    """Raises Misuse for an unknown option, a word instead of an enum member, or a value of another type. Type checkers
    find these mistakes, but not every application uses one.
    """
    for name, value in options.items():
        if name not in table.__annotations__:
            raise unknown_option(what, name, table.__annotations__)
        members = _MEMBERS.get(name)
        if members is not None and not isinstance(value, members):
            choices = ", ".join(str(member) for member in members)
            raise Misuse(f"{name} must be one of {choices}", given=repr(value))
        is_one, words = _KINDS.get(table.__annotations__[name].__forward_arg__, _ANYTHING)
        if not is_one(value):
            raise Misuse(f"{name} must be {words}", given=repr(value)[:SHOWN_CHARS_MAX])


def opening_of(topic: str, schema: Schema[Any], options: ProducerOptions, operation_timeout_s: float) -> ProducerConfig:
    check_options(options, ProducerOptions, "a producer")
    if options.get("chunking") and not topic_name(topic).is_persistent:
        raise Misuse("chunking requires a persistent topic", topic=topic)
    follow = options.get("follow", False)
    if follow:
        check_whole(topic, "a producer that follows its topic")
    if (follow or topic_name(topic).is_scalable) and ("routing" in options or "hashing" in options):
        words = "routing and hashing require a partitioned topic: the key chooses the segment of a scalable topic"
        raise Misuse(words, topic=topic)
    return ProducerConfig(
        name=options.get("name", ""),
        access_mode=options.get("access_mode", AccessMode.SHARED).value,
        batching=options.get("batching", Batching()),
        chunking=options.get("chunking", False),
        compression=options.get("compression", Compression.NONE).value,
        schema=schema.info(),
        properties=dict(options.get("properties", {})),
        initial_sequence_id=options.get("initial_sequence_id"),
        initial_subscription=options.get("initial_subscription", ""),
        send_timeout_s=options.get("send_timeout_s", CLIENT_SEND_S),
        operation_timeout_s=operation_timeout_s,
        follow=follow,
    )


def check_whole(topic: str | Namespace, what: str) -> None:
    """Raises Misuse for a topic that is neither scalable nor persistent, and for a partition."""
    if isinstance(topic, Namespace):
        return
    check_topic(topic)
    name = topic_name(topic)
    if name.domain not in (Domain.TOPIC, Domain.PERSISTENT) or name.is_partition:
        words = f"{what} requires a scalable topic or a persistent topic that is not a partition: else use subscribe"
        raise Misuse(words, topic=topic)


def subscribing_of(subscription: str, options: ConsumerOptions) -> ConsumerConfig:
    check_options(options, ConsumerOptions, "a consumer")
    return ConsumerConfig(subscription, **options)


def streaming_of(topic: str | Namespace, subscription: str, options: StreamOptions) -> ConsumerConfig:
    check_options(options, StreamOptions, "a stream consumer")
    check_whole(topic, "a stream consumer")
    if options.get("queue_messages") == 0:
        raise Misuse("queue_messages of a stream consumer must be 1 or more")
    merged: dict[str, Any] = {"ack_batch_index": True, **options}
    return ConsumerConfig(subscription, **merged)


def queueing_of(topic: str | Namespace, subscription: str, options: QueueOptions) -> ConsumerConfig:
    check_options(options, QueueOptions, "a queue consumer")
    check_whole(topic, "a queue consumer")
    if options.get("queue_messages") == 0:
        raise Misuse("queue_messages of a queue consumer must be 1 or more")
    letters = options.get("dead_letters")
    if letters is not None and not isinstance(letters, DeadLetters):
        raise Misuse(
            "dead_letters must be a DeadLetters, such as DeadLetters(redeliveries_max=3)", dead_letters=letters
        )
    if letters is not None and letters.retry_topic:
        check_whole(letters.retry_topic, "a queue consumer with a retry topic")
    if letters is not None and letters.retry_topic and isinstance(topic, Namespace):
        raise Misuse("retry_topic must be left out for a Namespace: each topic has its own retry topic")
    if letters is not None and letters.topic:
        check_buried_elsewhere(letters.topic, topic)
    merged: dict[str, Any] = {"ack_batch_index": True, **options}
    return ConsumerConfig(subscription, type=SubscriptionType.SHARED, **merged)


def check_buried_elsewhere(letters: str, topic: str | Namespace) -> None:
    """A consumer that sends dead letters to its own topic would receive them again and bury them again, without end."""
    name = topic_name(letters)
    if isinstance(topic, str) and topic_name(topic).scalable == name.scalable:
        raise Misuse("the dead-letter topic must differ from the consumed topic: name another one", topic=letters)


def reading_of(start: MessageId, options: ReaderOptions, unique: str) -> ConsumerConfig:
    """A reader's subscription is not durable and has a name of its own."""
    check_options(options, ReaderOptions, "a reader")
    if not isinstance(start, MessageId):
        raise Misuse("start of a reader must be a MessageId: MessageId.EARLIEST, MessageId.LATEST or message.id")
    merged: dict[str, Any] = dict(options)
    merged.setdefault("subscription", f"reader-{unique}")
    return ConsumerConfig(durable=False, start=start, **merged)


def checkpointing_of(topic: str, options: CheckpointOptions, unique: str, group: str | None = None) -> ConsumerConfig:
    """Readers of segments under one name. They acknowledge encrypted messages, so that they reach a segment's end."""
    check_options(options, CheckpointOptions, "a checkpoint consumer")
    if not isinstance(topic, str):
        raise Misuse(
            "topic of a checkpoint consumer must be one topic name: a checkpoint is of one topic, so open one for each",
            topic=repr(topic)[:80],
        )
    check_whole(topic, "a checkpoint consumer")
    if options.get("queue_messages") == 0:
        raise Misuse("queue_messages of a checkpoint consumer must be 1 or more")
    merged: dict[str, Any] = {"discard_encrypted": True, **options}
    return ConsumerConfig(f"reader-{unique}" if group is None else group, durable=False, **merged)

"""The configuration and counters of a producer, and the commands that open and close it. Values and commands only."""

from __future__ import annotations

from dataclasses import dataclass, field

from magnetar.base.limits import CLIENT_OPERATION_S, CLIENT_SEND_S
from magnetar.client.producer.batch import Batching
from magnetar.wire import codec
from magnetar.wire.proto import pb


@dataclass(frozen=True, slots=True)
class ProducerConfig:
    """How a producer opens and encodes. `batching` None: every message is its own entry."""

    name: str = ""
    access_mode: int = pb.Shared
    batching: Batching | None = field(default_factory=Batching)
    chunking: bool = False
    compression: int = codec.NONE
    schema: pb.Schema | None = None
    properties: dict[str, str] = field(default_factory=dict)
    initial_sequence_id: int | None = None
    initial_subscription: str = ""
    send_timeout_s: float = CLIENT_SEND_S
    operation_timeout_s: float = CLIENT_OPERATION_S
    follow: bool = False  # produce to a plain topic through its layout


class Counters:
    """The counters of one publisher since its creation."""

    __slots__ = ("bytes", "entries", "errors", "messages", "reattached", "receipts", "timeouts")

    def __repr__(self) -> str:
        return f"Counters({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__)})"

    def __init__(self) -> None:
        self.messages = 0  # accepted from the application
        self.bytes = 0  # their payloads
        self.entries = 0  # written for the first time
        self.receipts = 0
        self.errors = 0  # messages that failed
        self.timeouts = 0  # part of `errors`: failed by the send timeout
        self.reattached = 0

    def took(self, messages: int, bytes: int) -> None:
        self.messages += messages
        self.bytes += bytes


def producer_command(
    opening: ProducerConfig,
    topic: str,
    producer_id: int,
    request_id: int,
    *,
    name: str,
    epoch: int,
    topic_epoch: int | None,
) -> pb.BaseCommand:
    """The PRODUCER command. `name` is the one that the broker assigned at the first attach if the user gave none."""
    command = pb.BaseCommand(type=pb.BaseCommand.PRODUCER)
    body = command.producer
    body.topic = topic
    body.producer_id = producer_id
    body.request_id = request_id
    if name:
        body.producer_name = name
    body.user_provided_producer_name = bool(opening.name)
    body.epoch = epoch
    body.producer_access_mode = opening.access_mode  # type: ignore[assignment]
    if topic_epoch is not None:
        body.topic_epoch = topic_epoch
    if opening.schema is not None:
        body.schema.CopyFrom(opening.schema)
    if opening.initial_subscription:
        body.initial_subscription_name = opening.initial_subscription
    for key, text in opening.properties.items():
        body.metadata.add(key=key, value=text)
    return command


def close_command(producer_id: int, request_id: int) -> pb.BaseCommand:
    command = pb.BaseCommand(type=pb.BaseCommand.CLOSE_PRODUCER)
    command.close_producer.producer_id = producer_id
    command.close_producer.request_id = request_id
    return command

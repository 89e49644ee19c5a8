"""ACK and REDELIVER with many message ids: processed in pieces, one per turn of the loop.

Commands behind such a command wait for its last piece, so the order of a connection is kept. A consumer may leave, or
be detached by a seek, between two pieces: the rest is then dropped, like an acknowledgement that arrives too late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError, Message

from magnetar.base.errors import BadFrame
from magnetar.base.ids import Position
from magnetar.broker.handlers.consume import (
    CUMULATIVE,
    REDELIVER,
    ack_in_steps,
    ack_refused,
    consumer_epoch,
    not_kept,
    place,
    refused_acks,
    take_ack,
)
from magnetar.topic.subscriptions.subscription import KEY_SHARED, SHARED
from magnetar.wire import commands, frames
from magnetar.wire.pieces import Pieces, cut
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection

T = TypeVar("T", bound=Message)
KINDS = (frames.ACK, REDELIVER)


def take_large(connection: Connection, kind: int, data: bytes, start: int, end: int) -> Iterator[None]:
    return (_ack if kind == frames.ACK else _redeliver)(connection, data, start, end)


def _ack(connection: Connection, data: bytes, start: int, end: int) -> Iterator[None]:
    pieces = Pieces()
    yield from cut(data, start, end, "ack", pieces)
    head = _decoded(pb.CommandAck, pieces.head)
    if head.ack_type == CUMULATIVE:
        if pieces.count != 1:
            raise BadFrame(f"a cumulative acknowledgement must have exactly one message id, got {pieces.count}")
        take_ack(connection, frames.read_ack(data, start, end))
        return
    consumer = connection.consumers.get(head.consumer_id)
    error = ack_refused(
        consumer, head.consumer_id, head.HasField("txnid_least_bits") or head.HasField("txnid_most_bits")
    )
    subscription = None if consumer is None else consumer.subscription
    before = refused_acks(subscription)
    if error is None and consumer is not None and consumer.subscription is not None:
        for first, last in pieces.ranges:
            ids = _decoded(pb.CommandAck, pieces.head + data[first:last]).message_id
            acks = [(place(one.ledgerId, one.entryId), list(one.ack_set) or None) for one in ids]
            yield from ack_in_steps(consumer, consumer.subscription, acks)
            yield
            if consumer.subscription is None:
                break
    if head.HasField("request_id"):
        error = error or not_kept(subscription, before)
        code, text = (None, "") if error is None else (error.wire_code, error.what)
        connection.write(commands.ack_response(head.consumer_id, head.request_id, code=code, text=text))


def _redeliver(connection: Connection, data: bytes, start: int, end: int) -> Iterator[None]:
    pieces = Pieces()
    yield from cut(data, start, end, "redeliverUnacknowledgedMessages", pieces)
    head = _decoded(pb.CommandRedeliverUnacknowledgedMessages, pieces.head)
    consumer = connection.consumers.get(head.consumer_id)
    if consumer is None or consumer.subscription is None:
        return
    consumer_epoch(consumer, head)
    for first, last in pieces.ranges:
        request = _decoded(pb.CommandRedeliverUnacknowledgedMessages, pieces.head + data[first:last])
        consumer.subscription.redeliver(consumer, [Position(one.ledgerId, one.entryId) for one in request.message_ids])
        if consumer.subscription.type not in (SHARED, KEY_SHARED):
            return  # it restarts at its cursor, independent of the ids
        yield
        if consumer.subscription is None:
            return


def _decoded(kind: type[T], data: bytes) -> T:
    try:
        command = kind.FromString(data)
    except DecodeError as error:
        raise BadFrame(f"a command cannot be decoded: {error}") from error
    if not command.IsInitialized():
        raise BadFrame("a command lacks a required field")
    return command

"""The bytes the load generator sends and counts: commands by protobuf, blocks of SEND frames built once, sent often.

All frames of a block have one length (sequence ids start where their varints are five bytes wide), so that a block
can be cut between any two frames and echoed bytes can be counted without looking. A block is sent again and again:
without deduplication a broker must take every one of them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import google_crc32c

from magnetar.wire.proto import pb

SEQUENCE_FIRST = 1 << 28  # five bytes as a varint, up to 2**35
CHECKSUM_MAGIC = b"\x0e\x01"
PUBLISH_TIME_MS = 1_790_000_000_000
SEND_RECEIPT, SEND_ERROR, MESSAGE, ERROR, PING = (
    pb.BaseCommand.SEND_RECEIPT,
    pb.BaseCommand.SEND_ERROR,
    pb.BaseCommand.MESSAGE,
    pb.BaseCommand.ERROR,
    pb.BaseCommand.PING,
)

_size = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive SEND frames of equal length."""

    body: bytes
    frame_bytes: int
    frames: int
    messages_per_frame: int


def framed(command: pb.BaseCommand) -> bytes:
    """A frame without payload."""
    body = command.SerializeToString()
    return _size.pack(len(body) + 4) + _size.pack(len(body)) + body


def connect() -> bytes:
    return framed(
        pb.BaseCommand(type=pb.BaseCommand.CONNECT, connect={"client_version": "magnetar-load", "protocol_version": 19})
    )


def producer(topic: str, producer_id: int, request_id: int) -> bytes:
    fields = {"topic": topic, "producer_id": producer_id, "request_id": request_id}
    return framed(pb.BaseCommand(type=pb.BaseCommand.PRODUCER, producer=fields))


def close_producer(producer_id: int, request_id: int) -> bytes:
    fields = {"producer_id": producer_id, "request_id": request_id}
    return framed(pb.BaseCommand(type=pb.BaseCommand.CLOSE_PRODUCER, close_producer=fields))


def subscribe(topic: str, consumer_id: int, request_id: int) -> bytes:
    fields = {
        "topic": topic,
        "subscription": "load",
        "subType": pb.CommandSubscribe.Exclusive,
        "consumer_id": consumer_id,
        "request_id": request_id,
        "consumer_name": "load",
    }
    return framed(pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE, subscribe=fields))


def flow(consumer_id: int, permits: int) -> bytes:
    return framed(
        pb.BaseCommand(type=pb.BaseCommand.FLOW, flow={"consumer_id": consumer_id, "messagePermits": permits})
    )


def acknowledge_up_to(consumer_id: int, message_id: pb.MessageIdData) -> bytes:
    fields = {"consumer_id": consumer_id, "ack_type": pb.CommandAck.Cumulative, "message_id": [message_id]}
    return framed(pb.BaseCommand(type=pb.BaseCommand.ACK, ack=fields))


def pong() -> bytes:
    return framed(pb.BaseCommand(type=pb.BaseCommand.PONG, pong={}))


def single(payload: bytes, frames: int, producer_id: int = 1) -> Block:
    """Unbatched: one message in a frame."""
    bodies = [_send(producer_id, SEQUENCE_FIRST + number, payload, None) for number in range(frames)]
    return _block(bodies, 1)


def batched(payload: bytes, messages: int, frames: int, producer_id: int = 1) -> Block:
    """One batch of so many messages in a frame."""
    alone = pb.SingleMessageMetadata(payload_size=len(payload)).SerializeToString()
    batch = (_size.pack(len(alone)) + alone + payload) * messages
    bodies = [_send(producer_id, SEQUENCE_FIRST + number * messages, batch, messages) for number in range(frames)]
    return _block(bodies, messages)


def _send(producer_id: int, sequence: int, payload: bytes, messages: int | None) -> bytes:
    body = pb.BaseCommand(
        type=pb.BaseCommand.SEND,
        send={"producer_id": producer_id, "sequence_id": sequence, "num_messages": messages or 1},
    ).SerializeToString()
    metadata = pb.MessageMetadata(producer_name="load", sequence_id=sequence, publish_time=PUBLISH_TIME_MS)
    if messages is not None:
        metadata.num_messages_in_batch = messages
    stamped = metadata.SerializeToString()
    checked = _size.pack(len(stamped)) + stamped + payload
    entry = CHECKSUM_MAGIC + _size.pack(google_crc32c.value(checked)) + checked
    return _size.pack(4 + len(body) + len(entry)) + _size.pack(len(body)) + body + entry


def _block(bodies: list[bytes], messages: int) -> Block:
    length = len(bodies[0])
    assert all(len(body) == length for body in bodies)
    return Block(b"".join(bodies), length, len(bodies), messages)

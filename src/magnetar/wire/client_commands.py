"""Encodes the frequent commands of a consumer: ACK, FLOW, REDELIVER_UNACKNOWLEDGED_MESSAGES.

Byte for byte the output of protobuf for the same command. It trusts its caller: ids are received positions, permits are
positive. Hot: plain functions, so that mypyc compiles the file as it is.
"""

from __future__ import annotations

from struct import Struct
from typing import TypeAlias

from magnetar.wire.broker_frames import varint
from magnetar.wire.tags import (
    OPEN_ACK,
    OPEN_FLOW,
    OPEN_REDELIVER,
)

INDIVIDUAL = 0
CUMULATIVE = 1

# ledger, entry, words of the ack set: a set bit is a message not yet acknowledged; empty: the whole entry
Acked: TypeAlias = tuple[int, int, list[int]]

_HEADER = Struct(">II")


def ack(consumer_id: int, kind: int, ids: list[Acked], *, validation_error: int = -1, request_id: int = -1) -> bytes:
    """One ACK. A cumulative one names exactly one id."""
    parts: list[bytes] = [b"\x08", varint(consumer_id), b"\x10", varint(kind)]
    last_ledger = -1
    lead = b""
    for ledger, entry, words in ids:
        if ledger != last_ledger:
            last_ledger = ledger
            lead = b"\x08" + varint(ledger) + b"\x10"
        body = lead + varint(entry)
        if words:
            body += b"".join([b"\x28" + varint(word) for word in words])
        parts.append(b"\x1a" + varint(len(body)) + body)
    if validation_error >= 0:
        parts.append(b"\x20" + varint(validation_error))
    if request_id >= 0:
        parts.append(b"\x40" + varint(request_id))
    return _frame(OPEN_ACK, b"".join(parts))


def flow(consumer_id: int, permits: int) -> bytes:
    return _frame(OPEN_FLOW, b"\x08" + varint(consumer_id) + b"\x10" + varint(permits))


def redeliver(consumer_id: int, positions: list[tuple[int, int]], epoch: int = -1) -> bytes:
    """An empty list means all unacknowledged messages of this consumer."""
    parts: list[bytes] = [b"\x08", varint(consumer_id)]
    for ledger, entry in positions:
        body = b"\x08" + varint(ledger) + b"\x10" + varint(entry)
        parts.append(b"\x12" + varint(len(body)) + body)
    if epoch >= 0:
        parts.append(b"\x18" + varint(epoch))
    return _frame(OPEN_REDELIVER, b"".join(parts))


def _frame(head: bytes, body: bytes) -> bytes:
    size = len(head) + len(body)
    length = varint(len(body))
    size += len(length)
    return b"".join((_HEADER.pack(size + 4, size), head, length, body))

"""Decodes SEND_RECEIPT and MESSAGE, the frequent commands that a client receives.

Both readers expect the field order of brokers; any other form goes to protobuf, so that both accept and reject the same
bytes. Ledger and entry are unsigned on the wire and signed here, so that "duplicate" and "no position" are -1.
Unreadable input raises `BadFrame`. Offsets must come from `frames.split`. Hot: plain functions over `bytes`, so that
mypyc compiles the file as it is.
"""

from __future__ import annotations

from typing import TypeAlias

from magnetar.wire.frames import decode_as, read_varint
from magnetar.wire.tags import OPEN_MESSAGE, OPEN_SEND_RECEIPT

# producer, sequence, highest sequence (-1: absent), ledger, entry (-1: no position, or a duplicate)
ReceiptParts: TypeAlias = tuple[int, int, int, int, int]

# consumer, ledger, entry, partition (-1: none), redelivery count, ack set (None: nothing acknowledged yet), epoch (-1:
# none)
MessageParts: TypeAlias = tuple[int, int, int, int, int, list[int] | None, int]

SEND_RECEIPT = 7
MESSAGE = 9

_INT31 = 1 << 31
_INT63 = 1 << 63
_INT64 = 1 << 64


def read_receipt(buffer: bytes, start: int, end: int) -> ReceiptParts:
    size = end - start
    if not 8 <= size < 132 or buffer[start : start + 3] != OPEN_SEND_RECEIPT or buffer[start + 3] != size - 4:
        return _receipt_by_protobuf(buffer, start, end)
    producer = sequence = ledger = entry = highest = -1
    position = start + 4
    while position < end:
        tag = buffer[position]
        value, position = read_varint(buffer, position + 1, end)
        if position < 0:
            return _receipt_by_protobuf(buffer, start, end)
        if tag == 0x08:  # SEND_RECEIPT_PRODUCER_ID
            producer = value
        elif tag == 0x10:  # SEND_RECEIPT_SEQUENCE_ID
            sequence = value
        elif tag == 0x20:  # SEND_RECEIPT_HIGHEST_SEQUENCE_ID
            highest = value
        elif tag == 0x1A and ledger < 0:  # SEND_RECEIPT_MESSAGE_ID
            last = position + value
            if last > end or position >= last or buffer[position] != 0x08:  # ID_LEDGERID
                return _receipt_by_protobuf(buffer, start, end)
            ledger, position = read_varint(buffer, position + 1, last)
            if position < 0 or position >= last or buffer[position] != 0x10:  # ID_ENTRYID
                return _receipt_by_protobuf(buffer, start, end)
            entry, position = read_varint(buffer, position + 1, last)
            if position != last:
                return _receipt_by_protobuf(buffer, start, end)
        else:
            return _receipt_by_protobuf(buffer, start, end)
    if producer < 0 or sequence < 0:
        return _receipt_by_protobuf(buffer, start, end)
    return producer, sequence, highest, _signed(ledger), _signed(entry)


def read_message(buffer: bytes, start: int, end: int) -> MessageParts:
    size = end - start
    if not 8 <= size < 132 or buffer[start : start + 3] != OPEN_MESSAGE or buffer[start + 3] != size - 4:
        return _message_by_protobuf(buffer, start, end)
    consumer = ledger = entry = partition = epoch = -1
    redelivered = 0
    words: list[int] | None = None
    position = start + 4
    while position < end:
        tag = buffer[position]
        value, position = read_varint(buffer, position + 1, end)
        if position < 0:
            return _message_by_protobuf(buffer, start, end)
        if tag == 0x08:  # MESSAGE_CONSUMER_ID
            consumer = value
        elif tag == 0x12 and ledger < 0:  # MESSAGE_MESSAGE_ID
            last = position + value
            if last > end:
                return _message_by_protobuf(buffer, start, end)
            while position < last:
                tag = buffer[position]
                value, position = read_varint(buffer, position + 1, last)
                if position < 0:
                    return _message_by_protobuf(buffer, start, end)
                if tag == 0x08:  # ID_LEDGERID
                    ledger = value
                elif tag == 0x10:  # ID_ENTRYID
                    entry = value
                elif tag == 0x18:  # ID_PARTITION
                    partition = value if value < _INT31 else -1
                elif tag != 0x20 and tag != 0x30:  # ID_BATCH_INDEX, ID_BATCH_SIZE
                    return _message_by_protobuf(buffer, start, end)
        elif tag == 0x18 and value < 1 << 32:  # MESSAGE_REDELIVERY_COUNT
            redelivered = value
        elif tag == 0x20:  # MESSAGE_ACK_SET
            if words is None:
                words = []
            words.append(_signed(value))
        elif tag == 0x28:  # MESSAGE_CONSUMER_EPOCH
            epoch = value
        else:
            return _message_by_protobuf(buffer, start, end)
    if consumer < 0 or ledger < 0 or entry < 0:
        return _message_by_protobuf(buffer, start, end)
    return consumer, _signed(ledger), _signed(entry), partition, redelivered, words, epoch


def _receipt_by_protobuf(buffer: bytes, start: int, end: int) -> ReceiptParts:
    receipt = decode_as(buffer, start, end, SEND_RECEIPT).send_receipt
    highest = receipt.highest_sequence_id if receipt.HasField("highest_sequence_id") else -1
    if not receipt.HasField("message_id"):
        return receipt.producer_id, receipt.sequence_id, highest, -1, -1
    message_id = receipt.message_id
    return receipt.producer_id, receipt.sequence_id, highest, _signed(message_id.ledgerId), _signed(message_id.entryId)


def _message_by_protobuf(buffer: bytes, start: int, end: int) -> MessageParts:
    message = decode_as(buffer, start, end, MESSAGE).message
    message_id = message.message_id
    words = list(message.ack_set)
    return (
        message.consumer_id,
        _signed(message_id.ledgerId),
        _signed(message_id.entryId),
        message_id.partition if message_id.partition >= 0 else -1,
        message.redelivery_count,
        words or None,
        message.consumer_epoch if message.HasField("consumer_epoch") else -1,
    )


def _signed(value: int) -> int:
    return value if value < _INT63 else value - _INT64

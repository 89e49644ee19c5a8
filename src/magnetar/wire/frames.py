"""Splits received data into commands, and decodes the three most frequent commands.

A frame is total(4) command-size(4) command [entry]. `split` processes all received bytes in one call. `decode_command`
returns a protobuf command; it raises `BadFrame` if a required field, a submessage or valid text is missing. SEND, ACK
and FLOW have their own readers, which expect the field order of clients. Any other form goes to protobuf, so that both
accept and reject the same bytes. Hot: plain functions over `bytes`, so that mypyc compiles the file as it is. Offsets
must come from `split`.
"""

from __future__ import annotations

from struct import Struct
from typing import TypeAlias

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from magnetar.base.errors import BadFrame
from magnetar.wire.proto import pb
from magnetar.wire.tags import OPEN_ACK, OPEN_FLOW, OPEN_SEND

Frame: TypeAlias = tuple[int, int, int]  # command start, command end (the entry starts there), frame end

# ledger, entry, ack set (None: the whole entry), batch index, batch size, partition; absent fields have protobuf's
# defaults
IdParts: TypeAlias = tuple[int, int, list[int] | None, int, int, int]

# producer, sequence, messages, highest sequence, chunk, marker, txn least, txn most, message id; absent fields are -1
# or None
SendParts: TypeAlias = tuple[int, int, int, int, bool, bool, int, int, IdParts | None]

# consumer, ack type, ids, validation error, request, txn least, txn most, properties; absent fields are -1
AckParts: TypeAlias = tuple[int, int, list[IdParts], int, int, int, int, list[tuple[str, int]]]

SEND = 6
SEND_OPENING = OPEN_SEND
ACK = 10
FLOW = 11
PING = 18
PONG = 19
_LEAVING = 82  # of a stream consumer: no release supports it yet, so an unusual form must not end a connection

_HEADER = Struct(">II")
_LENGTH = Struct(">I")
_FIELD_OF_TYPE: dict[int, str] = {
    number: pb.BaseCommand.DESCRIPTOR.fields_by_number[number].name
    for number in pb.BaseCommand.Type.values()
    if number in pb.BaseCommand.DESCRIPTOR.fields_by_number
}
# Common mistakes, by the bytes at the position of the first frame's size. All exceed the maximum frame size.
_STRANGERS = dict.fromkeys((b"GET ", b"PUT ", b"POST", b"HEAD", b"DELE", b"OPTI", b"HTTP", b"<!DO"), "this is HTTP")
_TLS_HELLO = 0x1603
_INT32_LIMIT = 1 << 31
_INT64_LIMIT = 1 << 63


def split(buffer: bytes, start: int, frame_bytes_max: int) -> tuple[list[Frame], int]:
    """All complete frames from `start` on, and the start of the first incomplete one. Inconsistent sizes raise
    `BadFrame`.
    """
    frames: list[Frame] = []
    append = frames.append
    unpack = _HEADER.unpack_from
    length = len(buffer)
    position = start
    while position + 8 <= length:
        total, size = unpack(buffer, position)
        if size > total - 4 or total > frame_bytes_max:
            raise _lie(total, size, frame_bytes_max)
        end = position + 4 + total
        if end > length:
            break
        append((position + 8, position + 8 + size, end))
        position = end
    if position + 4 <= length < position + 8:  # the first half of a header suffices to reject it
        total = _LENGTH.unpack_from(buffer, position)[0]
        if total < 4 or total > frame_bytes_max:
            raise _lie(total, 0, frame_bytes_max)
    return frames, position


def frame_size(buffer: bytes, start: int) -> int:
    """The complete size of the frame at `start`, or 0 if unknown: the caller waits for this many bytes before the next
    split.
    """
    if start + 4 > len(buffer):
        return 0
    total: int = _LENGTH.unpack_from(buffer, start)[0]
    return total + 4


def encode_command(command: pb.BaseCommand) -> bytes:
    """The frame of a command without an entry. A missing required field is a bug of the caller and raises protobuf's
    EncodeError.
    """
    body: bytes = command.SerializeToString()
    return _HEADER.pack(len(body) + 4, len(body)) + body


def decode_command(buffer: bytes, start: int, end: int) -> pb.BaseCommand | None:
    """The complete command with the submessage of its type; None if this broker does not know the type."""
    try:
        command = pb.BaseCommand.FromString(buffer[start:end])
    except DecodeError:
        raise BadFrame("a command cannot be parsed", bytes=end - start) from None
    if not command.HasField("type"):
        return None
    if not command.IsInitialized():
        raise BadFrame("a command lacks required fields", type=command.type)
    kind = command.type
    if not command.HasField(_FIELD_OF_TYPE[kind]) and kind != PING and kind != PONG and kind != _LEAVING:
        raise BadFrame("a command lacks the message that its type names", type=kind, missing=_FIELD_OF_TYPE[kind])
    _check_text(command)
    return command


def command_type(buffer: bytes, start: int, end: int) -> int:
    """The type of a command, 0 if this broker does not know it."""
    size = end - start
    if size >= 4 and buffer[start] == 8:
        kind = buffer[start + 1]
        # Type, then the only submessage to the end: no later field can change the type.
        if kind < 16:
            if buffer[start + 2] == (kind << 3 | 2) and kind in _FIELD_OF_TYPE:
                length, position = read_varint(buffer, start + 3, end)
                if position > 0 and position + length == end:
                    return kind
        elif kind < 128 and buffer[start + 2] == (kind << 3 & 127 | 130) and buffer[start + 3] == kind >> 4:
            length, position = read_varint(buffer, start + 4, end)
            if position > 0 and position + length == end and kind in _FIELD_OF_TYPE:
                return kind
    try:
        command = pb.BaseCommand.FromString(buffer[start:end])
    except DecodeError:
        raise BadFrame("a command cannot be parsed", bytes=size) from None
    return command.type if command.HasField("type") else 0


def read_send(buffer: bytes, start: int, end: int) -> SendParts:
    size = end - start
    if not 8 <= size < 132 or buffer[start : start + 3] != OPEN_SEND or buffer[start + 3] != size - 4:
        return _send_by_protobuf(buffer, start, end)
    producer = sequence = highest = least = most = -1
    messages = 1
    chunk = marker = False
    position = start + 4
    while position < end:
        tag = buffer[position]
        position += 1
        if position < end and buffer[position] < 128:  # most numbers take this fast path
            value = buffer[position]
            position += 1
        else:
            value, position = read_varint(buffer, position, end)
            if position < 0:
                return _send_by_protobuf(buffer, start, end)
        if tag == 0x08:  # SEND_PRODUCER_ID
            producer = value
        elif tag == 0x10:  # SEND_SEQUENCE_ID
            sequence = value
        elif tag == 0x18 and value < _INT32_LIMIT:  # SEND_NUM_MESSAGES
            messages = value
        elif tag == 0x20:  # SEND_TXNID_LEAST_BITS
            least = value
        elif tag == 0x28:  # SEND_TXNID_MOST_BITS
            most = value
        elif tag == 0x30:  # SEND_HIGHEST_SEQUENCE_ID
            highest = value
        elif tag == 0x38:  # SEND_IS_CHUNK
            chunk = value != 0
        elif tag == 0x40:  # SEND_MARKER
            marker = value != 0
        else:
            return _send_by_protobuf(buffer, start, end)
    if producer < 0 or sequence < 0:
        return _send_by_protobuf(buffer, start, end)
    return producer, sequence, messages, highest, chunk, marker, least, most, None


def read_ack(buffer: bytes, start: int, end: int) -> AckParts:
    if end - start < 8 or buffer[start : start + 3] != OPEN_ACK:
        return _ack_by_protobuf(buffer, start, end)
    length, position = read_varint(buffer, start + 3, end)
    if position < 0 or position + length != end:
        return _ack_by_protobuf(buffer, start, end)
    consumer = kind = error = request = least = most = -1
    ids: list[IdParts] = []
    while position < end:
        tag = buffer[position]
        value, position = read_varint(buffer, position + 1, end)
        if position < 0:
            return _ack_by_protobuf(buffer, start, end)
        if tag == 0x1A:  # ACK_MESSAGE_ID
            if position + value > end:
                return _ack_by_protobuf(buffer, start, end)
            parts = _read_id(buffer, position, position + value)
            if parts is None:
                return _ack_by_protobuf(buffer, start, end)
            ids.append(parts)
            position += value
        elif tag == 0x08:  # ACK_CONSUMER_ID
            consumer = value
        elif tag == 0x10 and value < 2:  # ACK_ACK_TYPE
            kind = value
        elif tag == 0x20 and value < 5:  # ACK_VALIDATION_ERROR
            error = value
        elif tag == 0x30:  # ACK_TXNID_LEAST_BITS
            least = value
        elif tag == 0x38:  # ACK_TXNID_MOST_BITS
            most = value
        elif tag == 0x40:  # ACK_REQUEST_ID
            request = value
        else:
            return _ack_by_protobuf(buffer, start, end)
    if consumer < 0 or kind < 0:
        return _ack_by_protobuf(buffer, start, end)
    return consumer, kind, ids, error, request, least, most, []


def read_flow(buffer: bytes, start: int, end: int) -> tuple[int, int]:
    """Consumer and permits."""
    size = end - start
    if not 8 <= size < 132 or buffer[start : start + 3] != OPEN_FLOW or buffer[start + 3] != size - 4:
        return _flow_by_protobuf(buffer, start, end)
    consumer = permits = -1
    position = start + 4
    while position < end:
        tag = buffer[position]
        value, position = read_varint(buffer, position + 1, end)
        if position < 0:
            return _flow_by_protobuf(buffer, start, end)
        if tag == 0x08:  # FLOW_CONSUMER_ID
            consumer = value
        elif tag == 0x10 and value < _INT32_LIMIT:  # FLOW_MESSAGEPERMITS
            permits = value
        else:
            return _flow_by_protobuf(buffer, start, end)
    if consumer < 0 or permits < 0:
        return _flow_by_protobuf(buffer, start, end)
    return consumer, permits


def read_varint(buffer: bytes, position: int, end: int) -> tuple[int, int]:
    """Value and end position; (0, -1) for a truncated or overlong varint, which protobuf then handles."""
    if position >= end:
        return 0, -1
    byte = buffer[position]
    if byte < 128:
        return byte, position + 1
    value = byte & 127
    shift = 7
    position += 1
    while position < end:
        byte = buffer[position]
        position += 1
        if byte < 128:
            if shift == 63 and byte > 1:
                return 0, -1
            return value | byte << shift, position
        if shift == 63:
            return 0, -1
        value |= (byte & 127) << shift
        shift += 7
    return 0, -1


def _read_id(buffer: bytes, position: int, end: int) -> IdParts | None:
    ledger = entry = partition = batch_index = -1
    batch_size = 0
    words: list[int] | None = None
    while position < end:
        tag = buffer[position]
        value, position = read_varint(buffer, position + 1, end)
        if position < 0:
            return None
        if tag == 0x08:  # ID_LEDGERID
            ledger = value
        elif tag == 0x10:  # ID_ENTRYID
            entry = value
        elif tag == 0x28:  # ID_ACK_SET
            if words is None:
                words = []
            words.append(value if value < _INT64_LIMIT else value - (1 << 64))
        elif tag == 0x18 and value < _INT32_LIMIT:  # ID_PARTITION
            partition = value
        elif tag == 0x20 and value < _INT32_LIMIT:  # ID_BATCH_INDEX
            batch_index = value
        elif tag == 0x30 and value < _INT32_LIMIT:  # ID_BATCH_SIZE
            batch_size = value
        else:
            return None
    if ledger < 0 or entry < 0:
        return None
    return ledger, entry, words, batch_index, batch_size, partition


def _send_by_protobuf(buffer: bytes, start: int, end: int) -> SendParts:
    send = decode_as(buffer, start, end, SEND).send
    return (
        send.producer_id,
        send.sequence_id,
        send.num_messages,
        send.highest_sequence_id if send.HasField("highest_sequence_id") else -1,
        send.is_chunk,
        send.marker,
        send.txnid_least_bits if send.HasField("txnid_least_bits") else -1,
        send.txnid_most_bits if send.HasField("txnid_most_bits") else -1,
        id_parts(send.message_id) if send.HasField("message_id") else None,
    )


def _ack_by_protobuf(buffer: bytes, start: int, end: int) -> AckParts:
    ack = decode_as(buffer, start, end, ACK).ack
    return (
        ack.consumer_id,
        ack.ack_type,
        [id_parts(data) for data in ack.message_id],
        ack.validation_error if ack.HasField("validation_error") else -1,
        ack.request_id if ack.HasField("request_id") else -1,
        ack.txnid_least_bits if ack.HasField("txnid_least_bits") else -1,
        ack.txnid_most_bits if ack.HasField("txnid_most_bits") else -1,
        [(item.key, item.value) for item in ack.properties],
    )


def _flow_by_protobuf(buffer: bytes, start: int, end: int) -> tuple[int, int]:
    flow = decode_as(buffer, start, end, FLOW).flow
    return flow.consumer_id, flow.messagePermits


def id_parts(data: pb.MessageIdData) -> IdParts:
    words = list(data.ack_set)
    return data.ledgerId, data.entryId, words or None, data.batch_index, data.batch_size, data.partition


def decode_as(buffer: bytes, start: int, end: int, kind: int) -> pb.BaseCommand:
    """The command, which must have this type: for readers that found an unusual form."""
    command = decode_command(buffer, start, end)
    if command is None or command.type != kind:
        raise BadFrame("a command has an unexpected type", expected=kind)
    return command


def _check_text(message: Message) -> None:
    """Protobuf returns text that is not UTF-8 as bytes. It is rejected here, so that later code always gets text."""
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            items = value if field.is_repeated else (value,)
            for item in items:
                if not isinstance(item, str):
                    raise BadFrame("text that is not UTF-8", field=field.full_name)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for item in value if field.is_repeated else (value,):
                _check_text(item)


def _lie(total: int, size: int, frame_bytes_max: int) -> BadFrame:
    if total > frame_bytes_max:
        protocol = _STRANGERS.get(_LENGTH.pack(total)) or ("this is TLS" if total >> 16 == _TLS_HELLO else "")
        if protocol:
            return BadFrame(f"{protocol}, but this port expects Pulsar's binary protocol: check scheme and port")
        return BadFrame("a frame exceeds the maximum size", bytes=total, frame_bytes_max=frame_bytes_max)
    return BadFrame("the sizes of a frame contradict each other", total=total, command=size)

"""A run of SENDs: consecutive frames of one producer, checked and joined for one append.

Only plain SENDs: a transaction, a marker or a message id of another cluster ends the run, and the caller reads such a
frame individually. Incoming checksums are verified only here; the bytes after the command stay unchanged. Hot: one call
for all SENDs of a read. The frames must come from `frames.split` over the same buffer.
"""

from __future__ import annotations

from struct import Struct

from google_crc32c import value as _crc32c

from magnetar.base.errors import BadFrame
from magnetar.wire.broker_frames import varint
from magnetar.wire.frames import SEND, SEND_OPENING, Frame, SendParts, command_type, read_send, read_varint

_COMMAND_HEAD = Struct(">I")
_ENTRY_HEAD = Struct(">HII")
# Opening and length, tag and first byte of the producer id, tag and first three bytes of the sequence id.
_LONE_HEAD = Struct(">I6B")
_CHECKSUM_MAGIC = 0x0E01
_PLAIN_HEAD = 0x08063200 - 4  # type SEND, then submessage 6 whose length is the command's size less these four bytes
_RUN_BYTES_MAX = 64 * 1024  # a run of this size is passed on: joining large entries only copies them once more
_PLAIN_BYTES_MAX = 132  # above it the submessage's length needs two bytes
_COUNT_LIMIT = 1 << 31  # of messages in an entry: protobuf refuses more


class SendRun:
    """Entry i is `body[offsets[i]:offsets[i + 1]]`, sent with `sequence_ids[i]` and reaching up to `highest_ids[i]`.

    `highest_ids` may be the same list as `sequence_ids`: callers must not modify them. `chunks` is None if no entry is
    a chunk. `stop` is the first frame outside the run. If that frame is rejected because its entry is damaged, `bad` is
    its index (else -1) and `bad_sequence_id` its id. Only this frame is answered with a checksum error, and the next
    run starts after it.
    """

    __slots__ = (
        "bad",
        "bad_sequence_id",
        "body",
        "chunks",
        "counts",
        "highest_ids",
        "messages",
        "offsets",
        "producer_id",
        "sequence_ids",
        "stop",
    )

    def __init__(
        self,
        producer_id: int,
        stop: int,
        sequence_ids: list[int],
        highest_ids: list[int],
        counts: list[int],
        messages: int,
        offsets: list[int],
        body: bytes,
    ) -> None:
        self.producer_id = producer_id
        self.stop = stop
        self.sequence_ids = sequence_ids
        self.highest_ids = highest_ids
        self.counts = counts
        self.messages = messages
        self.offsets = offsets
        self.body = body
        self.chunks: list[bool] | None = None
        self.bad = -1
        self.bad_sequence_id = -1

    def __len__(self) -> int:
        return len(self.sequence_ids)


def gather_sends(buffer: bytes, frames: list[Frame], index: int) -> SendRun:
    """The longest run of plain SENDs of one producer from frame `index` on, which must be a SEND. Empty if that one is
    not plain.
    """
    sends = gather_next(buffer, frames, index)
    if sends is not None:
        return sends
    if index + 1 == len(frames):
        return _odd(buffer, frames[index], index)
    return _several(buffer, frames, index)


def gather_next(buffer: bytes, frames: list[Frame], index: int) -> SendRun | None:
    """As `gather_sends`, from a frame of any type. None: it is not an intact SEND of the usual form."""
    frame = frames[index]
    start = frame[0]
    if index + 1 < len(frames):
        following = frames[index + 1][0]
        if buffer[start + 4 : start + 7] == buffer[following + 4 : following + 7]:  # the same producer id
            usual = buffer.startswith(SEND_OPENING, start) and buffer[start + 3] == frame[1] - start - 4
            return _several(buffer, frames, index) if usual else None
    return _lone(buffer, frame, index)


def _several(buffer: bytes, frames: list[Frame], index: int) -> SendRun:
    start, middle, _ = frames[index]
    first = read_send(buffer, start, middle)
    producer_id = first[0]
    result = SendRun(producer_id, index, [], [], [], 0, [0], b"")
    prefix = b"\x08" + varint(producer_id) + b"\x10"
    prefix_end = 4 + len(prefix)
    command_head = _COMMAND_HEAD.unpack_from
    entry_head = _ENTRY_HEAD.unpack_from
    starts_with = buffer.startswith
    sequence_ids: list[int] = []
    offsets: list[int] = [0]
    parts: list[bytes] = []
    # Exceptions from "one message, no chunk, highest is the id itself" are rare: stored by index and filled in at the
    # end.
    extras: list[tuple[int, int, int, bool]] = []
    position = 0
    total = len(frames)
    while index < total:
        start, middle, end = frames[index]
        size = middle - start
        cursor = start + prefix_end
        plain = False
        sequence = 0
        if (
            size < _PLAIN_BYTES_MAX
            and cursor < middle
            and middle + 10 <= end  # also keeps the reads below inside the buffer
            and command_head(buffer, start)[0] == _PLAIN_HEAD + size
            and starts_with(prefix, start + 4)
        ):
            sequence = buffer[cursor]
            cursor += 1
            if sequence >= 128:
                byte = buffer[cursor]
                cursor += 1
                sequence += (byte << 7) - 128
                if byte >= 128:
                    byte = buffer[cursor]
                    cursor += 1
                    sequence += (byte << 14) - (128 << 7)
                    if byte >= 128:
                        byte = buffer[cursor]
                        cursor += 1
                        sequence += (byte << 21) - (128 << 14)
                        if byte >= 128:
                            byte = buffer[cursor]
                            cursor += 1
                            sequence += (byte << 28) - (128 << 21)
                            if byte >= 128:
                                cursor = -1
            # One message, explicit or by default: some clients always write it.
            plain = cursor == middle or (cursor + 2 == middle and starts_with(b"\x18\x01", cursor))
        if not plain:
            later = index != result.stop and size < _PLAIN_BYTES_MAX
            if later and starts_with(SEND_OPENING, start) and not starts_with(prefix, start + 4):
                break  # usually of another producer; the next run reads any such frame
            send = first if index == result.stop else _next_send(buffer, start, middle)
            if send is None or send[0] != producer_id or send[5] or send[6] >= 0 or send[7] >= 0 or send[8] is not None:
                break
            sequence = send[1]
            count = send[2] if send[2] > 1 else 1
            highest = send[3] if send[3] >= sequence else sequence
            extras.append((len(sequence_ids), count, highest, send[4]))
        if end - middle < 10:
            result.bad = index
            break
        magic, checksum, metadata_size = entry_head(buffer, middle)
        if magic == _CHECKSUM_MAGIC:
            if metadata_size > end - middle - 10 or _crc32c(buffer[middle + 6 : end]) != checksum:
                result.bad = index
                break
        elif (
            magic << 16 | checksum >> 16 > end - middle - 4
        ):  # no checksum block: the entry starts with the metadata's size
            result.bad = index
            break
        sequence_ids.append(sequence)
        parts.append(buffer[middle:end])
        position += end - middle
        offsets.append(position)
        index += 1
        if position > _RUN_BYTES_MAX:
            break
    _finish(result, sequence_ids, parts, offsets, extras)
    result.stop = index
    if result.bad >= 0:
        result.bad_sequence_id = sequence
    return result


def _lone(buffer: bytes, frame: Frame, index: int) -> SendRun | None:
    """A run of one frame: clients with many producers send one entry for each. None: it has an unusual form, or its
    entry is damaged.
    """
    start, middle, end = frame
    size = middle - start
    if size >= _PLAIN_BYTES_MAX or middle + 10 > end:  # the reads below stay inside the buffer
        return None
    head, tag, producer_id, sequence_tag, sequence, second, third = _LONE_HEAD.unpack_from(buffer, start)
    if head != _PLAIN_HEAD + size or tag != 0x08:
        return None
    cursor = start + 8
    if producer_id >= 128:
        producer_id, cursor = read_varint(buffer, start + 5, middle)
        if not 0 <= cursor < middle:
            return None
        sequence_tag, sequence, second, third = buffer[cursor : cursor + 4]
        cursor += 2
    if sequence_tag != 0x10:
        return None
    if sequence >= 128:
        cursor += 1
        sequence += (second << 7) - 128
        if second >= 128:
            cursor += 1
            sequence += (third << 14) - (128 << 7)
            if third >= 128:
                sequence, cursor = read_varint(buffer, cursor - 3, middle)
    count = 1
    highest = sequence
    if 0 < cursor < middle:
        if buffer[cursor] == 0x18:
            count = buffer[cursor + 1]
            cursor += 2
            if count >= 128:
                count, cursor = read_varint(buffer, cursor - 1, middle)
        if 0 < cursor < middle and buffer[cursor] == 0x30:
            highest = buffer[cursor + 1]
            cursor += 2
            if highest >= 128:
                byte = buffer[cursor]
                cursor += 1
                highest += (byte << 7) - 128
                if byte >= 128:
                    byte = buffer[cursor]
                    cursor += 1
                    highest += (byte << 14) - (128 << 7)
                    if byte >= 128:
                        highest, cursor = read_varint(buffer, cursor - 3, middle)
    magic, checksum, metadata_size = _ENTRY_HEAD.unpack_from(buffer, middle)
    if (
        cursor != middle
        or magic != _CHECKSUM_MAGIC
        or metadata_size > end - middle - 10
        or _crc32c(buffer[middle + 6 : end]) != checksum
        or not 0 < count < _COUNT_LIMIT
    ):
        return None
    sequence_ids = [sequence]
    highest_ids = [highest] if highest > sequence else sequence_ids
    return SendRun(
        producer_id, index + 1, sequence_ids, highest_ids, [count], count, [0, end - middle], buffer[middle:end]
    )


def _odd(buffer: bytes, frame: Frame, index: int) -> SendRun:
    """A run of one frame whose command has an unusual form, or whose entry has a missing or wrong checksum."""
    start, middle, end = frame
    producer_id, sequence, count, highest, chunk, marker, txn_least, txn_most, message_id = read_send(
        buffer, start, middle
    )
    result = SendRun(producer_id, index, [], [], [], 0, [0], b"")
    if marker or txn_least >= 0 or txn_most >= 0 or message_id is not None:
        return result
    if not _intact(buffer, middle, end):
        result.bad = index
        result.bad_sequence_id = sequence
        return result
    extra = (0, count if count > 1 else 1, highest if highest >= sequence else sequence, chunk)
    _finish(result, [sequence], [buffer[middle:end]], [0, end - middle], [extra])
    result.stop = index + 1
    return result


def _intact(buffer: bytes, start: int, end: int) -> bool:
    if end - start < 10:
        return False
    magic, checksum, metadata_size = _ENTRY_HEAD.unpack_from(buffer, start)
    if magic == _CHECKSUM_MAGIC:
        return bool(metadata_size <= end - start - 10 and _crc32c(buffer[start + 6 : end]) == checksum)
    # No checksum block: the entry starts with the metadata's size.
    return bool(magic << 16 | checksum >> 16 <= end - start - 4)


def _finish(
    result: SendRun,
    sequence_ids: list[int],
    parts: list[bytes],
    offsets: list[int],
    extras: list[tuple[int, int, int, bool]],
) -> None:
    size = len(sequence_ids)
    counts = [1] * size
    highest_ids = sequence_ids
    messages = size
    for place, count, highest, chunk in extras:
        if place == size:  # read, then found damaged
            break
        if count > 1:
            counts[place] = count
            messages += count - 1
        if highest != sequence_ids[place]:
            if highest_ids is sequence_ids:
                highest_ids = list(sequence_ids)
            highest_ids[place] = highest
        if chunk:
            if result.chunks is None:
                result.chunks = [False] * size
            result.chunks[place] = True
    result.sequence_ids = sequence_ids
    result.highest_ids = highest_ids
    result.counts = counts
    result.messages = messages
    result.offsets = offsets
    result.body = parts[0] if size == 1 else b"".join(parts)


def _next_send(buffer: bytes, start: int, end: int) -> SendParts | None:
    """The SEND at this position, or None for any frame that ends a run, also an unreadable one: the caller handles it
    next.
    """
    try:
        return read_send(buffer, start, end) if command_type(buffer, start, end) == SEND else None
    except BadFrame:
        return None

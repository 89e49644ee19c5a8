"""A run of SENDs: consecutive frames of one producer, checked and joined into what one append takes.

Plain SENDs only: those of a transaction, markers and those that carry another cluster's message id end the run and
are read one by one by the caller. Checksums are verified here and nowhere else on the way in; the bytes after the
command are kept as they came. Hot: one call for all SENDs of a read. The frames are trusted to come from
`frames.split` over the same buffer.
"""

from __future__ import annotations

from struct import Struct

from google_crc32c import value as _crc32c

from magnetar.base.errors import BadFrame
from magnetar.wire.frames import SEND, Frame, SendParts, command_type, read_send
from magnetar.wire.templates import varint

_COMMAND_HEAD = Struct(">I")
_ENTRY_HEAD = Struct(">HII")
_CHECKSUM_MAGIC = 0x0E01
_PLAIN_HEAD = 0x08063200 - 4  # type SEND, then submessage 6 whose length is the command's size less these four bytes
_OPENING = b"\x08\x06\x32"  # type SEND, then the submessage
_RUN_BYTES_MAX = 64 * 1024  # a run this long is handed on: joining large entries only copies them once more
_PLAIN_BYTES_MAX = 132  # above it the submessage's length needs two bytes


class Sends:
    """Entry i is `body[offsets[i]:offsets[i + 1]]`, sent with `sequence_ids[i]` and reaching up to `highest_ids[i]`.

    `highest_ids` may be the same list as `sequence_ids`: both are for reading. `chunks` is None where no entry is a
    chunk. `stop` is the first frame not taken. If that one is refused because its entry is damaged, `bad` is its
    index (else -1) and `bad_sequence_id` its id: it alone is answered with a checksum error, and the next run
    starts after it.
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

    def __init__(self, producer_id: int, stop: int) -> None:
        self.producer_id = producer_id
        self.sequence_ids: list[int] = []
        self.highest_ids: list[int] = []
        self.counts: list[int] = []
        self.messages = 0
        self.chunks: list[bool] | None = None
        self.body = b""
        self.offsets: list[int] = [0]
        self.stop = stop
        self.bad = -1
        self.bad_sequence_id = -1

    def __len__(self) -> int:
        return len(self.sequence_ids)


def gather_sends(buffer: bytes, frames: list[Frame], index: int) -> Sends:
    """The longest run of plain SENDs of one producer from frame `index` on, which must be a SEND. Empty if that one
    is not plain.
    """
    start, middle, end = frames[index]
    first = read_send(buffer, start, middle)
    producer_id = first[0]
    result = Sends(producer_id, index)
    prefix = b"\x08" + varint(producer_id) + b"\x10"
    prefix_end = 4 + len(prefix)
    command_head = _COMMAND_HEAD.unpack_from
    entry_head = _ENTRY_HEAD.unpack_from
    starts_with = buffer.startswith
    sequence_ids: list[int] = []
    offsets: list[int] = [0]
    parts: list[bytes] = []
    # What differs from "one message, no chunk, highest is the id itself" is rare: remembered by place and filled in
    # at the end.
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
            # One message, said or not: some clients always say it.
            plain = cursor == middle or (cursor + 2 == middle and starts_with(b"\x18\x01", cursor))
        if not plain:
            later = index != result.stop and size < _PLAIN_BYTES_MAX
            if later and starts_with(_OPENING, start) and not starts_with(prefix, start + 4):
                break  # of another producer, most likely: whatever it is, the next run reads it
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


def _finish(
    result: Sends,
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
    """The SEND at hand, or None for whatever ends a run: also what cannot be read, which the caller meets when it
    gets there.
    """
    try:
        return read_send(buffer, start, end) if command_type(buffer, start, end) == SEND else None
    except BadFrame:
        return None

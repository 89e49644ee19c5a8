"""The metadata of one ledger, as BookKeeper stores them: quorums, the bookies of each segment, state, end.

A value opens with one line of text that names the format: 3 is protobuf, 2 is the same protobuf as text. A record is
written back in its own format, with the fields that this version does not know. Older formats are refused.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import pairwise

from google.protobuf import text_format
from google.protobuf.message import DecodeError, EncodeError

from magnetar.base.errors import Corrupt, Misuse, NotBuilt
from magnetar.ledger.bookkeeper.digest import NO_ENTRY, DigestType
from magnetar.ledger.bookkeeper.generated import bookkeeper_pb2 as pb
from magnetar.ledger.store import Quorum

_MAGIC = b"BookieMetadataFormatVersion\t"
TEXT, BINARY = 2, 3


class State(IntEnum):
    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


def positions(quorum: Quorum, entry: int) -> tuple[int, ...]:
    """The write set of an entry: positions in the ensemble, in the order of preference for reads."""
    return tuple((entry + step) % quorum.ensemble for step in range(quorum.write))


def contains(quorum: Quorum, entry: int, position: int) -> bool:
    """Whether the position is in the write set of the entry."""
    return (position - entry) % quorum.ensemble < quorum.write


@dataclass(frozen=True, slots=True)
class Segment:
    """Bookies of the entries from `first_entry` to the next segment."""

    first_entry: int
    bookies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    quorum: Quorum
    segments: tuple[Segment, ...]
    digest: DigestType = DigestType.CRC32C
    password: bytes = field(default=b"", repr=False)
    state: State = State.OPEN
    last_entry: int = NO_ENTRY  # of a closed ledger
    length: int = 0  # of a closed ledger
    custom: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    ctime_ms: int | None = None
    token: int | None = field(default=None, repr=False)  # a random number by which a creator recognizes its own record
    format: int = BINARY
    source: bytes = field(default=b"", repr=False, compare=False)  # the protobuf that was read, for unknown fields

    def __post_init__(self) -> None:
        if not self.segments or self.segments[0].first_entry != 0:
            raise Corrupt("the segments of a ledger must begin with entry 0", segments=len(self.segments))
        firsts = [segment.first_entry for segment in self.segments]
        if any(later <= earlier for earlier, later in pairwise(firsts)):
            raise Corrupt("the segments of a ledger are not in the order of their entries", firsts=firsts)
        if any(len(segment.bookies) != self.quorum.ensemble for segment in self.segments):
            raise Corrupt("a segment of a ledger has the wrong number of bookies", ensemble=self.quorum.ensemble)

    @property
    def last_segment(self) -> Segment:
        return self.segments[-1]

    @property
    def is_closed(self) -> bool:
        return self.state is State.CLOSED

    def segment(self, entry: int) -> Segment:
        """The segment in force for an entry."""
        index = bisect_right(self.segments, entry, key=lambda each: each.first_entry)
        return self.segments[max(index, 1) - 1]

    def write_set(self, entry: int) -> tuple[str, ...]:
        bookies = self.segment(entry).bookies
        return tuple(bookies[position] for position in positions(self.quorum, entry))

    def with_segments(self, segments: tuple[Segment, ...]) -> LedgerMetadata:
        return replace(self, segments=segments)

    def in_recovery(self) -> LedgerMetadata:
        return replace(self, state=State.IN_RECOVERY)

    def closed(self, last_entry: int, length: int) -> LedgerMetadata:
        """Sealed; a last segment that has no entry is dropped, because no bookie can prove to hold it."""
        kept = tuple(each for each in self.segments if each.first_entry <= max(last_entry, 0))
        return replace(self, state=State.CLOSED, last_entry=last_entry, length=length, segments=kept)


def encode(metadata: LedgerMetadata) -> bytes:
    message = pb.LedgerMetadataFormat.FromString(metadata.source) if metadata.source else pb.LedgerMetadataFormat()
    quorum = metadata.quorum
    message.quorumSize, message.ensembleSize, message.ackQuorumSize = quorum.write, quorum.ensemble, quorum.ack
    message.length, message.lastEntryId = metadata.length, metadata.last_entry
    _set(message, "state", metadata.state)
    _set(message, "digestType", metadata.digest)
    message.password = metadata.password
    del message.segment[:]
    for segment in metadata.segments:
        message.segment.add(ensembleMember=segment.bookies, firstEntryId=segment.first_entry)
    del message.customMetadata[:]
    for key in sorted(metadata.custom):
        message.customMetadata.add(key=key, value=metadata.custom[key])
    _set(message, "ctime", metadata.ctime_ms)
    _set(message, "cToken", metadata.token)
    header = _MAGIC + str(metadata.format).encode() + b"\n"
    if metadata.format == TEXT:
        return header + text_format.MessageToString(message).encode()
    try:
        body = message.SerializeToString()
    except EncodeError as error:
        raise Misuse("the metadata of a ledger cannot be stored", why=str(error)) from None
    return header + _varint(len(body)) + body


def decode(value: bytes) -> LedgerMetadata:
    line, _, body = value.partition(b"\n")
    if not line.startswith(_MAGIC) or not line[len(_MAGIC) :].isdigit():
        raise Corrupt("the metadata of a ledger do not begin with their format", bytes=len(value))
    version = int(line[len(_MAGIC) :])
    if version not in (TEXT, BINARY):
        raise NotBuilt("this format of ledger metadata is not supported: rewrite it with BookKeeper's tools", v=version)
    message = pb.LedgerMetadataFormat()
    try:
        if version == BINARY:
            message.ParseFromString(_delimited(body))
        else:
            text_format.Parse(body.decode(), message, allow_unknown_field=True)
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise Corrupt("the metadata of a ledger are damaged", why=str(error)) from None
    if not message.HasField("digestType"):
        raise NotBuilt("a ledger without a digest type is too old for this version")
    try:
        ack = message.ackQuorumSize if message.HasField("ackQuorumSize") else message.quorumSize
        quorum = Quorum(message.ensembleSize, message.quorumSize, ack)
    except Misuse as error:
        raise Corrupt(error.what, **error.facts) from None
    return LedgerMetadata(
        quorum=quorum,
        segments=tuple(Segment(each.firstEntryId, tuple(each.ensembleMember)) for each in message.segment),
        digest=DigestType(message.digestType),
        password=message.password,
        state=State(message.state),
        last_entry=message.lastEntryId if message.HasField("lastEntryId") else NO_ENTRY,
        length=message.length,
        custom={each.key: each.value for each in message.customMetadata},
        ctime_ms=message.ctime if message.HasField("ctime") else None,
        token=message.cToken if message.HasField("cToken") else None,
        format=version,
        source=message.SerializeToString(),
    )


def _set(message: pb.LedgerMetadataFormat, name: str, value: int | None) -> None:
    if value is None:
        message.ClearField(name)
    else:
        setattr(message, name, int(value))


def _varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def _delimited(data: bytes) -> bytes:
    """The message behind its length."""
    size = shift = 0
    for at, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            if len(data) - at - 1 < size:
                break
            return data[at + 1 : at + 1 + size]
    raise DecodeError("the length does not fit the record")

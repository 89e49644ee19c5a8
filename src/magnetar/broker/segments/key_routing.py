"""The key hash of the entries of a segment: deduplication uses it, because it works by ranges of hashes, and entries of
another segment are refused by it.

A batch hides its keys. An entry that cannot be decoded has no hash; storing it detects the fault. This module decides
only.
"""

from __future__ import annotations

from collections.abc import Callable

from magnetar.base.errors import Corrupt, InvalidRange, MagnetarError
from magnetar.base.names import SINK_PREFIX, TopicName
from magnetar.base.ranges import FULL
from magnetar.layout.routing import Routing, segment_hash
from magnetar.topic.producers.producer import base_name
from magnetar.wire import entry
from magnetar.wire.metadata import Metadata, key_of


def slots(name: TopicName, routing: Routing) -> Callable[[bytes, int, int], int | None]:
    """The hash slot of an entry. None: it has no key, a batch hides the keys, or it belongs to another segment.
    Messages of a sink without a key are spread by producer and number (H-E5): after a merge only that identifies the
    parent that may have them."""
    assert name.segment is not None
    range = name.segment.range

    def slot(buffer: bytes, start: int, end: int) -> int | None:
        try:
            metadata = entry.read(buffer, start, end)
            key = _key(metadata)
        except Corrupt:
            return None
        if key is None and metadata.messages < 0 and metadata.producer is not None:
            sender = base_name(name, metadata.producer.decode("utf-8", "replace"))
            key = f"{sender}-{metadata.sequence_id}".encode() if sender.startswith(SINK_PREFIX) else None
        hash = None if key is None else segment_hash(key, routing)
        return hash if hash is not None and hash in range else None

    return slot


def spreads(name: TopicName, routing: Routing) -> Callable[[str, int], int | None]:
    """The slot of a message without a key that its producer spreads by its number (H-E5); None: it belongs to another
    segment."""
    assert name.segment is not None
    range = name.segment.range

    def slot(producer: str, sequence: int) -> int | None:
        hash = segment_hash(f"{producer}-{sequence}".encode(), routing)
        return hash if hash in range else None

    return slot


def misrouted(
    name: TopicName, routing: Routing
) -> Callable[[bytes, list[int], list[int]], MagnetarError | None] | None:
    """The refusal of entries if one of them has a visible key of another segment: its order would be lost silently
    (H-E10). A batch has no own key and is not checked. None: all keys belong to this segment."""
    assert name.segment is not None
    range = name.segment.range

    def refusal(buffer: bytes, offsets: list[int], counts: list[int]) -> MagnetarError | None:
        if 1 not in counts:
            return None
        start = offsets[0]
        for count, end in zip(counts, offsets[1:], strict=True):
            if count == 1:
                hash = _hash(buffer, start, end, routing)
                if hash is not None and hash not in range:
                    what = f"the key has hash {hash:04x} ({routing}) and does not belong to segment {name.segment}"
                    return InvalidRange(what)
            start = end
        return None

    return None if range == FULL else refusal


def _hash(buffer: bytes, start: int, end: int, routing: Routing) -> int | None:
    try:
        key = _key(entry.read(buffer, start, end))
    except Corrupt:
        return None
    return None if key is None else segment_hash(key, routing)


def _key(metadata: Metadata) -> bytes | None:
    """The key of the entry; None: it has no visible key."""
    hidden = metadata.messages >= 0 or (metadata.key is None and metadata.ordering_key is None)
    return None if hidden else key_of(metadata)

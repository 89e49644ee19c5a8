"""Chooses the partition or segment of a message. Pure decisions.

Partitions: the hash of its key chooses the partition of a message, in every mode, so that messages of one key stay in
order. The hash is that of Java's client (`java`, also the default there) or Murmur3. Messages without a key go to the
partitions in turn, one batch each, or all to one partition. A function of the user replaces all of this.

Segments: a message gets a `KeyRoute` once and keeps it across splits and merges of its segment. The client hashes the
same bytes that the owner hashes in the entry (H-E12): the ordering key, else the key, else, if resends must be
recognised, the producer and sequence id (H-E5).
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable
from typing import Literal, NamedTuple

from magnetar.base.errors import Misuse
from magnetar.base.hashes import java_string_hash, masked, murmur3, utf8
from magnetar.base.limits import CACHED_KEY_CHARS_MAX, ROUTES_CACHED_MAX
from magnetar.client.producer.fields import MessageFields
from magnetar.layout import routing as generations
from magnetar.layout.layout import Layout

Hashing = Literal["java", "murmur3"]
Routing = Literal["round_robin", "single"]
Chooser = Callable[[str | None, int], int]  # (key, partitions) -> partition

_M1 = re.compile(r"Pulsar Server5\.0\.0-M1\b")  # the version string of a broker of that release


class Router:
    """`key` is text, or the base64 of a key of bytes, as Java hashes it. `advance` is called when a batch was closed:
    the next messages without a key go to the next partition. `start` is the random first partition: with a fixed one,
    many producers would all begin with the same partition.
    """

    def __init__(self, routing: Routing | Chooser, hashing: Hashing, start: int) -> None:
        if isinstance(routing, str) and routing not in ("round_robin", "single"):
            raise Misuse("routing must be round_robin, single or a function", routing=routing)
        if hashing not in ("java", "murmur3"):
            raise Misuse("hashing must be java or murmur3", hashing=hashing)
        self._chooser = None if isinstance(routing, str) else routing
        self._round = routing == "round_robin"
        self._murmur = hashing == "murmur3"
        self._at = start

    def choose(self, key: str | None, partitions: int) -> int:
        if self._chooser is not None:
            chosen = self._chooser(key, partitions)
            if not 0 <= chosen < partitions:
                raise Misuse(
                    "the routing function must return an existing partition", chosen=chosen, partitions=partitions
                )
            return chosen
        if key is None:
            return self._at % partitions
        return masked(murmur3(utf8(key)) if self._murmur else java_string_hash(key)) % partitions

    def advance(self) -> None:
        if self._round:
            self._at += 1


class KeyRoute(NamedTuple):
    """The permanent route of a message: `slot` places it in the ranges of segments, `hash` (32 bits) in the partitions
    of a plain topic.
    """

    slot: int
    hash: int


class SegmentRouter:
    """Routes the messages of one producer. `pinned` is the topic's generation of routing. With `deduplicated`, messages
    without a key are distributed by producer and sequence id, so that a resend reaches the same segment. Otherwise they
    go to the active segments in turn, one batch each: `advance` is called when a batch was closed.
    """

    def __init__(
        self,
        pinned: generations.Routing,
        *,
        producer: str = "",
        deduplicated: bool = False,
        hashing: Hashing = "murmur3",
        start: int = 0,
    ) -> None:
        if hashing not in ("java", "murmur3"):
            raise Misuse("hashing must be java or murmur3", hashing=hashing)
        if deduplicated and not producer:
            raise Misuse("deduplication requires a producer name: attach the producer first")
        self.pinned = pinned
        self._known: dict[str, KeyRoute] = {}  # by text key
        self._producer = utf8(producer)
        self._deduplicated = deduplicated
        self._java = hashing == "java"
        self._at = start
        self._spread = start

    def repin(self, pinned: generations.Routing) -> None:
        """Set the topic's current routing. The first producer of the topic, possibly another client, pinned it."""
        if pinned is not self.pinned:
            self.pinned = pinned
            self._known.clear()

    def route(self, fields: MessageFields | None, sequence: int, layout: Layout) -> KeyRoute:
        """`layout` matters only for messages without a key. `sequence` is the one that the message will be sent
        with."""
        if fields is not None and fields.key is not None and fields.ordering_key is None and not fields.key_base64:
            route = self._known.get(fields.key)
            return route if route is not None else self._first(fields.key)
        key = None if fields is None else routing_key(fields)
        if key is None and self._deduplicated:
            key = b"%b-%d" % (self._producer, sequence)
            return KeyRoute(generations.segment_hash(key, self.pinned), murmur3(key))
        if key is None:
            return self._round(layout)
        text = None if fields is None else fields.key
        return KeyRoute(generations.segment_hash(key, self.pinned), self._at if text is None else self._hash(text))

    def advance(self) -> None:
        self._at += 1

    def _first(self, text: str) -> KeyRoute:
        """The route of a text key that is new, or that the bounded cache dropped."""
        route = KeyRoute(generations.segment_hash(text, self.pinned), self._hash(text))
        if len(text) <= CACHED_KEY_CHARS_MAX:
            if len(self._known) >= ROUTES_CACHED_MAX:
                self._known.clear()
            self._known[text] = route
        return route

    def _hash(self, text: str) -> int:
        """Hashes as partition routers do: the key as the wire carries it, and never the ordering key."""
        return java_string_hash(text) if self._java else murmur3(utf8(text))

    def _round(self, layout: Layout) -> KeyRoute:
        active = layout.active
        if not active:
            raise Misuse("the topic was deleted: it has no segments")
        chosen = active[self._at % len(active)].range
        self._spread = self._spread * 31 + 17 & 0xFFFF  # over the whole segment: a split divides pending messages
        return KeyRoute(chosen.start + self._spread % len(chosen), self._at)


def routing_key(fields: MessageFields) -> bytes | None:
    """The bytes to hash: the same that `wire.entry` finds in the entry."""
    if fields.ordering_key is not None:
        return fields.ordering_key
    if fields.key is None:
        return None
    return b64decode(fields.key) if fields.key_base64 else utf8(fields.key)


def partitions_of(layout: Layout) -> int:
    """The number of plain topics of the layout; 0 if it has segments of its own, which take keys by range."""
    return len(layout.active) if layout.active and all(one.legacy_topic for one in layout.active) else 0


def learned(extension: str | None, server_version: str) -> generations.Routing:
    """The topic's routing: as Magnetar's brokers declare it, else as clients of that server's release do it (H-E12)."""
    if extension is not None:
        try:
            return generations.Routing(extension)
        except ValueError:
            raise Misuse("the broker uses a routing that this client does not support", routing=extension) from None
    return generations.Routing.LOW16 if _M1.match(server_version) else generations.DEFAULT

"""Where a key goes: the one function that router, owner, histogram and tools share (H-E10, H-E12).

Two generations of clients take different halves of the same Murmur3 hash and nothing on the wire says which, so a
topic's record pins one of them. Text is hashed as UTF-8, bytes as they are.
"""

from __future__ import annotations

import re
from enum import StrEnum

from magnetar.base.hashes import high16, low16, masked, murmur3, utf8

_M1 = re.compile(r"Pulsar-Java-v5\.0\.0-M1\b")
_V5 = re.compile(r"Pulsar-Java-v([5-9]|\d\d)\.")


class Routing(StrEnum):
    LOW16 = "low16"  # the Java client 5.0.0-M1
    HIGH16 = "high16"  # newer clients, and ours


DEFAULT = Routing.HIGH16


def segment_hash(key: str | bytes, routing: Routing) -> int:
    """The place of a key among a topic's segments, 0..65535."""
    value = murmur3(utf8(key) if isinstance(key, str) else key)
    return low16(value) if routing is Routing.LOW16 else high16(value)


def legacy_partition(key: str | bytes, partitions: int) -> int:
    """The partition of a key where every active segment is a plain topic: as routers of partitioned topics do."""
    return masked(murmur3(utf8(key) if isinstance(key, str) else key)) % partitions


def routing_of(client_version: str) -> Routing:
    """The routing of a client, from the `client_version` of its CONNECT."""
    return Routing.LOW16 if _M1.match(client_version) else DEFAULT


def shares_by_buckets(client_version: str) -> bool:
    """True for clients of Pulsar that support entry buckets, which are those after 5.0.0-M1, and report when they
    leave. An older client ignores the buckets and would read a shared segment alone."""
    return bool(_V5.match(client_version)) and not _M1.match(client_version)

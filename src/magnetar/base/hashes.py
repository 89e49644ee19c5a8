"""The hashes of the protocol. All peers must compute the same values, because they decide the destination of a key.

Java's string hash uses UTF-16 units, Murmur3 (x86, 32 bits, seed 0) uses UTF-8 bytes. A lone surrogate becomes "?" in
UTF-8, as in Java. Pure functions; every text and byte string is valid input.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from sys import byteorder
from zlib import crc32

import google_crc32c
import mmh3
from google_crc32c import value as _crc32c

SLOTS = 65536  # of Key_Shared, and of the hash ranges of segments

_UNITS = "utf-16-le" if byteorder == "little" else "utf-16-be"


def has_fast_crc(implementation: str = google_crc32c.implementation) -> bool:
    """Whether checksums are computed by machine code; the fallback in Python takes 0.2 s for each megabyte."""
    return implementation == "c"


def utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def java_string_hash(text: str) -> int:
    """Java's String.hashCode: signed, 32 bits."""
    value = 0
    for unit in array("H", text.encode(_UNITS, "surrogatepass")):
        value = value * 31 + unit & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def murmur3(data: bytes) -> int:
    """Unsigned, 32 bits."""
    value: int = mmh3.hash(data, 0, False)
    return value


def masked(value: int) -> int:
    """Clears the sign bit: the basis of partition routers and rings. Accepts signed and unsigned hashes."""
    return value & 0x7FFFFFFF


def low16(murmur: int) -> int:
    """The slot of a key among a topic's segments, by the rule of Pulsar 5.0.0-M1."""
    return murmur & 0xFFFF


def high16(murmur: int) -> int:
    """The slot of a key among a topic's segments, by the rule after 5.0.0-M1, which is ours for new topics."""
    return murmur >> 16 & 0xFFFF


def key_shared_slot(murmur: int) -> int:
    """For hash ranges (auto-split without consistent hashing, sticky): 1..65535, slot 0 becomes 1."""
    return murmur & 0xFFFF or 1


def key_shared_slot_consistent(murmur: int) -> int:
    """For the ring of consistent hashing: 1..65535."""
    return (murmur & 0x7FFFFFFF) % (SLOTS - 1) + 1


def bundle_hash(topic: str) -> int:
    """The position of a full topic name (partition included) in the bundle range of a namespace."""
    return crc32(utf8(topic))


def topic_bucket(local_name: str, buckets: int) -> int:
    """PIP-157: the bucket of a decoded local name."""
    return abs(java_string_hash(local_name)) % buckets


def topics_hash(topics: Iterable[str]) -> str:
    """Client and broker compare this hash instead of complete topic lists; the order of topics does not matter."""
    ordered = sorted(topics, key=lambda topic: topic.encode("utf-16-be", "surrogatepass"))
    value: int = _crc32c(utf8(",".join(ordered)))
    return value.to_bytes(4, "little").hex()

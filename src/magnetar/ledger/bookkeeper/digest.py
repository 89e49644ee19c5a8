"""The body of an entry as bookies store it: four numbers, a digest, the payload.

`ledger entry lac length digest payload`: `lac` is the last entry that its writer knew as acknowledged, `length` the sum
of the payloads up to this entry. The digest covers the numbers and the payload. A bookie checks none of it, so every
reader does. Passwords are of the ledger, not of a user.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
import zlib
from enum import IntEnum
from typing import NamedTuple

from google_crc32c import extend, value

from magnetar.base.errors import Corrupt

HEAD = struct.Struct(">qqqq")  # ledger, entry, lac, length
_LAC = struct.Struct(">qq")
NO_ENTRY = -1


class DigestType(IntEnum):
    """As the metadata of a ledger number them."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


_SIZES = {DigestType.CRC32: 8, DigestType.HMAC: 20, DigestType.CRC32C: 4, DigestType.DUMMY: 0}


class Entry(NamedTuple):
    entry: int
    lac: int
    length: int
    payload: bytes

    def __repr__(self) -> str:
        return f"Entry({self.entry}, lac={self.lac}, length={self.length}, {len(self.payload)} bytes)"


def master_key(password: bytes) -> bytes:
    """The key that a bookie pins to a ledger at its first use."""
    return hashlib.sha1(b"ledger" + password, usedforsecurity=False).digest()


class Digest:
    """Makes and checks the bodies of one ledger."""

    __slots__ = ("_ledger", "_secret", "overhead", "type")

    def __init__(self, ledger: int, kind: DigestType, password: bytes) -> None:
        self.type = kind
        self.overhead = HEAD.size + _SIZES[kind]  # bytes before the payload
        self._ledger = ledger
        self._secret = hashlib.sha1(b"mac" + password, usedforsecurity=False).digest()

    def head(self, entry: int, lac: int, length: int, payload: bytes) -> bytes:
        """The bytes before the payload."""
        numbers = HEAD.pack(self._ledger, entry, lac, length)
        return numbers + self._sum(numbers, payload)

    def body(self, entry: int, lac: int, length: int, payload: bytes) -> bytes:
        return self.head(entry, lac, length, payload) + payload

    def check(self, body: bytes, entry: int | None = None) -> Entry:
        """Corrupt: the body is damaged, or it is of another entry. `entry` None: any entry of the ledger."""
        if len(body) < self.overhead:
            raise Corrupt("the body of an entry is too short", ledger=self._ledger, entry=entry, bytes=len(body))
        ledger, number, lac, length = HEAD.unpack_from(body)
        payload = body[self.overhead :]
        if ledger != self._ledger or number < 0 or (entry is not None and number != entry):
            raise Corrupt("a bookie sent another entry", ledger=self._ledger, entry=entry, found=f"{ledger}:{number}")
        if body[HEAD.size : self.overhead] != self._sum(body[: HEAD.size], payload):
            raise Corrupt("the digest of an entry does not match", ledger=ledger, entry=number, digest=self.type.name)
        if lac >= number or lac < NO_ENTRY or length < len(payload):
            raise Corrupt("the numbers of an entry contradict each other", ledger=ledger, entry=number, lac=lac)
        return Entry(number, lac, length, payload)

    def lac_packet(self, lac: int) -> bytes:
        """An explicit last acknowledged entry, as bookies keep it."""
        numbers = _LAC.pack(self._ledger, lac)
        return numbers + self._sum(numbers, b"")

    def _sum(self, numbers: bytes, payload: bytes) -> bytes:
        if self.type is DigestType.CRC32C:
            return int(extend(value(numbers), payload)).to_bytes(4, "big")
        if self.type is DigestType.CRC32:
            return zlib.crc32(payload, zlib.crc32(numbers)).to_bytes(8, "big")
        if self.type is DigestType.HMAC:
            mac = hmac.new(self._secret, numbers, hashlib.sha1)
            mac.update(payload)
            return mac.digest()
        return b""

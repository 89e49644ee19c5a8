"""Bodies of entries: golden bytes of the Java client, every digest, and every damage refused."""

from __future__ import annotations

import hashlib
import hmac
import zlib

import pytest

from magnetar.base.errors import Corrupt
from magnetar.ledger.bookkeeper.digest import HEAD, Digest, DigestType, Entry, master_key

# Recorded from BookKeeper 4.18.0: entry 0 of ledger 0, empty password.
RECORDED = bytes.fromhex("0000000000000000" * 2 + "ffffffffffffffff" + "0000000000000007" + "c964d9db") + b"hello-0"


def test_recorded_body_is_reproduced_byte_for_byte() -> None:
    digest = Digest(0, DigestType.CRC32C, b"")
    assert digest.body(0, -1, 7, b"hello-0") == RECORDED
    assert digest.check(RECORDED, 0) == Entry(0, -1, 7, b"hello-0")


def test_master_key_of_empty_password_is_recorded_one() -> None:
    assert master_key(b"").hex() == "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"
    assert master_key(b"secret") == hashlib.sha1(b"ledgersecret").digest()


@pytest.mark.parametrize("kind", list(DigestType))
def test_body_of_every_digest_is_read_back(kind: DigestType) -> None:
    digest = Digest(7, kind, b"password")
    body = digest.body(3, 1, 100, b"payload")
    assert len(body) == digest.overhead + 7
    assert digest.check(body) == Entry(3, 1, 100, b"payload")


def test_digests_are_those_of_their_definitions() -> None:
    numbers = HEAD.pack(7, 3, 1, 100)
    crc = Digest(7, DigestType.CRC32, b"p").head(3, 1, 100, b"payload")
    assert crc == numbers + zlib.crc32(numbers + b"payload").to_bytes(8, "big")
    key = hashlib.sha1(b"macp").digest()
    mac = Digest(7, DigestType.HMAC, b"p").head(3, 1, 100, b"payload")
    assert mac == numbers + hmac.new(key, numbers + b"payload", hashlib.sha1).digest()
    assert Digest(7, DigestType.DUMMY, b"p").head(3, 1, 100, b"payload") == numbers


def test_lac_packet_has_ledger_lac_and_digest() -> None:
    packet = Digest(7, DigestType.CRC32, b"").lac_packet(41)
    numbers = (7).to_bytes(8, "big") + (41).to_bytes(8, "big")
    assert packet == numbers + zlib.crc32(numbers).to_bytes(8, "big")


@pytest.mark.parametrize("kind", [DigestType.CRC32C, DigestType.CRC32, DigestType.HMAC])
def test_every_flipped_bit_is_refused(kind: DigestType) -> None:
    digest = Digest(7, kind, b"")
    body = digest.body(3, 1, 100, b"payload")
    for bit in range(len(body) * 8):
        damaged = bytearray(body)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Corrupt):
            digest.check(bytes(damaged), 3)


def test_body_of_another_entry_or_ledger_is_refused() -> None:
    body = Digest(7, DigestType.CRC32C, b"").body(3, 1, 100, b"payload")
    with pytest.raises(Corrupt, match="another entry"):
        Digest(7, DigestType.CRC32C, b"").check(body, 4)
    with pytest.raises(Corrupt, match="another entry"):
        Digest(8, DigestType.CRC32C, b"").check(body, 3)


@pytest.mark.parametrize(("lac", "length"), [(3, 100), (4, 100), (-2, 100), (1, 6)])
def test_numbers_that_contradict_are_refused(lac: int, length: int) -> None:
    digest = Digest(7, DigestType.CRC32C, b"")
    with pytest.raises(Corrupt, match="contradict"):
        digest.check(digest.body(3, lac, length, b"payload"))


def test_short_body_is_refused() -> None:
    digest = Digest(7, DigestType.HMAC, b"")
    with pytest.raises(Corrupt, match="too short"):
        digest.check(bytes(digest.overhead - 1))

"""Names, headers and sidecars of segments."""

from __future__ import annotations

import pytest
from google_crc32c import value

from magnetar.base.errors import Corrupt, Refused
from magnetar.ledger.local.segment import (
    START,
    Segment,
    SegmentRecords,
    decode_header,
    decode_sidecar,
    encode_header,
    encode_sidecar,
    log_name,
    sequence_of,
    sidecar_name,
    spare_name,
    stamp_of,
)


def some_records() -> SegmentRecords:
    records = SegmentRecords()
    records.add(1, 0, 5, 2, 100, 64)
    records.add(2**40, 2**50, 7, 3, 200, 300)
    return records


def test_only_segments_have_sequence() -> None:
    assert sequence_of(log_name(12)) == 12
    assert log_name(12) < log_name(100)
    for name in (sidecar_name(12), spare_name(12), "lock", "x.log", "12.log.tmp", "12"):
        assert sequence_of(name) is None


def test_stamp_carries_its_sequence_and_chance() -> None:
    assert stamp_of(5, 9) >> 32 == 5
    assert len({stamp_of(5, 9), stamp_of(6, 9), stamp_of(5, 10)}) == 3


def test_header_comes_back_and_any_damage_to_it_is_seen() -> None:
    header = encode_header(3, stamp_of(3, 8), 1_750_000_000_000)
    assert len(header) == START
    assert decode_header(header, "f") == (3, stamp_of(3, 8))
    for at in range(44):
        bad = bytearray(header)
        bad[at] ^= 1
        assert decode_header(bytes(bad), "f") is None
    assert decode_header(header[:20], "f") is None
    assert decode_header(b"", "f") is None


def test_newer_format_is_told_from_damage() -> None:
    for magic, read in ((b"MGNTRJNL", decode_header), (b"MGNTRIDX", decode_sidecar)):
        prefix = magic + (9).to_bytes(4, "little")
        with pytest.raises(Refused, match="format 9, this Magnetar reads formats up to 1: start the newer Magnetar"):
            read(prefix + value(prefix).to_bytes(4, "little") + b"whatever", "f")


def test_sidecar_comes_back_and_any_damage_to_it_is_corrupt() -> None:
    segment = Segment(3, stamp_of(3, 8), 564)
    data = encode_sidecar(segment, some_records())
    found, records = decode_sidecar(data, "f")
    assert (found.sequence, found.stamp, found.end, found.full) == (3, stamp_of(3, 8), 564, True)
    assert list(records) == [(1, 0, 5, 2, 100, 64), (2**40, 2**50, 7, 3, 200, 300)]
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 0x10
        with pytest.raises(Corrupt):
            decode_sidecar(bytes(bad), "f")
        with pytest.raises(Corrupt):
            decode_sidecar(data[:at], "f")


def test_cutting_forgets_what_starts_later() -> None:
    records = some_records()
    records.cut(300)
    assert list(records) == [(1, 0, 5, 2, 100, 64)]
    records.cut(0)
    assert len(records) == 0

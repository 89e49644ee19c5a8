"""The record of a ledger: bytes as BookKeeper writes them, both formats, unknown fields, and damaged records."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from magnetar.base.errors import Corrupt, Misuse, NotBuilt
from magnetar.ledger.bookkeeper.digest import DigestType
from magnetar.ledger.bookkeeper.ledger_metadata import (
    TEXT,
    LedgerMetadata,
    Segment,
    State,
    contains,
    decode,
    encode,
    positions,
)
from magnetar.ledger.store import Quorum

ROOT = Path(__file__).parents[4]
HEADER = b"BookieMetadataFormatVersion\t3\n"
A, B, C, D = "127.0.0.1:3181", "127.0.0.1:3182", "127.0.0.1:3183", "127.0.0.1:3184"
OPEN = LedgerMetadata(
    quorum=Quorum(3, 3, 2),
    segments=(Segment(0, (A, B, C)), Segment(10, (A, D, C))),
    custom={"component": b"managed-ledger", "application": b"pulsar"},
    ctime_ms=1_700_000_000_000,
    token=5,
)


def test_open_ledger_has_bytes_of_java_layout() -> None:
    """Field by field as recorded from BookKeeper 4.18.0."""
    one = LedgerMetadata(Quorum(3, 3, 2), (Segment(0, (A, B, C)),), custom={"k": b"v"}, ctime_ms=1, token=0)
    members = b"".join(b"\x0a\x0e" + bookie.encode() for bookie in (A, B, C))
    segment = b"\x32" + bytes([len(members) + 2]) + members + b"\x10\x00"
    body = bytes.fromhex("080310031800" + "20ffffffffffffffffff01" + "2801") + segment + bytes.fromhex("3803" + "4200")
    body += bytes.fromhex("4802" + "5001") + b"\x5a\x06\x0a\x01k\x12\x01v" + bytes.fromhex("6000")
    assert encode(one) == HEADER + bytes([len(body)]) + body


@pytest.mark.parametrize("format", [2, 3])
@pytest.mark.parametrize("state", list(State))
def test_record_is_read_back_in_its_format(format: int, state: State) -> None:
    metadata = replace(OPEN, format=format, state=state, last_entry=12, length=345)
    assert decode(encode(metadata)) == metadata


def test_record_without_optional_fields_is_read() -> None:
    metadata = replace(OPEN, ctime_ms=None, token=None, custom={})
    assert decode(encode(metadata)) == metadata


def test_missing_ack_quorum_equals_write_quorum() -> None:
    text = f'quorumSize: 2 ensembleSize: 2 length: 0 state: OPEN digestType: CRC32 segment {{ ensembleMember: "{A}" '
    text += f'ensembleMember: "{B}" firstEntryId: 0 }}'
    metadata = decode(b"BookieMetadataFormatVersion\t2\n" + text.encode())
    assert metadata.quorum == Quorum(2, 2, 2)
    assert (metadata.digest, metadata.format, metadata.last_entry) == (DigestType.CRC32, TEXT, -1)


def test_unknown_field_survives_change() -> None:
    unknown = b"\xaa\x06\x03new"  # field 101
    body = encode(OPEN)[len(HEADER) :]
    body = body[2:] + unknown if body[0] & 0x80 else body[1:] + unknown
    size = bytes([len(body) & 0x7F | 0x80, len(body) >> 7])
    metadata = decode(HEADER + size + body)
    assert metadata == OPEN
    assert unknown in encode(metadata.closed(12, 345))


def test_segment_in_force_is_last_one_that_began() -> None:
    assert [OPEN.segment(entry).first_entry for entry in (0, 9, 10, 1000)] == [0, 0, 10, 10]
    assert OPEN.write_set(9) == (A, B, C)
    assert OPEN.write_set(10) == (D, C, A)


def test_write_set_follows_absolute_entry() -> None:
    quorum = Quorum(5, 3, 2)
    assert positions(quorum, 4) == (4, 0, 1)
    for entry in range(11):
        inside = [position for position in range(5) if contains(quorum, entry, position)]
        assert inside == sorted(positions(quorum, entry))


def test_close_drops_segment_without_entry() -> None:
    assert OPEN.closed(9, 100).segments == OPEN.segments[:1]
    assert OPEN.closed(10, 100).segments == OPEN.segments
    assert OPEN.closed(-1, 0).segments == OPEN.segments[:1]


@pytest.mark.parametrize("numbers", [(2, 3, 2), (3, 2, 3), (3, 3, 0), (0, 0, 0)])
def test_impossible_quorum_is_refused(numbers: tuple[int, int, int]) -> None:
    with pytest.raises(Misuse):
        Quorum(*numbers)


@pytest.mark.parametrize(
    "segments", [(), (Segment(1, (A, B, C)),), (Segment(0, (A, B)),), (Segment(0, (A, B, C)), Segment(0, (A, B, D)))]
)
def test_impossible_segments_are_refused(segments: tuple[Segment, ...]) -> None:
    with pytest.raises(Corrupt):
        replace(OPEN, segments=segments)


def test_cut_record_is_refused_at_every_byte() -> None:
    value = encode(OPEN)
    for size in range(len(value)):
        with pytest.raises(Corrupt):
            decode(value[:size])


@pytest.mark.parametrize("version", [b"1", b"4", b"99"])
def test_other_format_is_refused(version: bytes) -> None:
    with pytest.raises(NotBuilt):
        decode(b"BookieMetadataFormatVersion\t" + version + b"\n")


def test_record_without_digest_is_refused() -> None:
    text = f'quorumSize: 1 ensembleSize: 1 length: 0 state: OPEN segment {{ ensembleMember: "{A}" firstEntryId: 0 }}'
    with pytest.raises(NotBuilt, match="digest"):
        decode(b"BookieMetadataFormatVersion\t2\n" + text.encode())


def test_password_is_not_shown() -> None:
    assert "hidden" not in repr(replace(OPEN, password=b"hidden"))


@pytest.mark.parametrize("suffix", ["py", "pyi"])
def test_generated_code_is_fresh(tmp_path: Path, suffix: str) -> None:
    """If this fails: `make proto`."""
    folder = "magnetar/ledger/bookkeeper/generated"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}={ROOT}/src/magnetar/ledger/bookkeeper"]
    outputs = [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run([*command, *outputs, f"{folder}/bookkeeper.proto"], check=True)
    name = f"{folder}/bookkeeper_pb2.{suffix}"
    assert (ROOT / "src" / name).read_text() == (tmp_path / name).read_text()

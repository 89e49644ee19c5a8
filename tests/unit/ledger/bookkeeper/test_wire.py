"""Frames of the second protocol of bookies: golden bytes, partial reads, and lengths that lie."""

from __future__ import annotations

import struct

import pytest

from magnetar.base.errors import Corrupt
from magnetar.ledger.bookkeeper import wire
from magnetar.ledger.bookkeeper.digest import Digest, DigestType, master_key
from magnetar.ledger.bookkeeper.wire import Code, Operation, Response

KEY = master_key(b"")
LIMIT = 1 << 20
HEAD = Digest(0, DigestType.CRC32C, b"").head(0, -1, 7, b"hello-0")


def answer(operation: int, *numbers: int, body: bytes = b"", form: str = ">iqq") -> bytes:
    return struct.pack(">BBH", 2, operation, 0) + struct.pack(form, *numbers) + body


def test_recorded_add_is_reproduced_byte_for_byte() -> None:
    frame = wire.add(KEY, HEAD, b"hello-0")
    expected = "00000043" + "02010000" + KEY.hex() + "00" * 16 + "ff" * 8 + "0000000000000007" + "c964d9db"
    assert frame.hex() == expected + b"hello-0".hex()


def test_recovery_add_differs_by_its_flag_only() -> None:
    plain, again = (wire.add(KEY, HEAD, b"hello-0", recovery=recovery) for recovery in (False, True))
    assert plain[4:8].hex() == "02010000"
    assert again[4:8].hex() == "02010002"
    assert (plain[:4], plain[8:]) == (again[:4], again[8:])


def test_reads_have_their_recorded_form() -> None:
    assert wire.read(5, 9).hex() == "00000014" + "02020000" + "0000000000000005" + "0000000000000009"
    assert wire.read(5, -1, KEY).hex() == "00000028" + "02020001" + "0000000000000005" + "ff" * 8 + KEY.hex()


def test_batch_read_has_its_recorded_form() -> None:
    frame = wire.batch_read(5, 9, 77, entries_max=3, bytes_max=4096)
    numbers = "0000000000000005" + "0000000000000009" + "000000000000004d" + "00000003" + "0000000000001000"
    assert frame.hex() == "00000028" + "02070000" + numbers


def test_authentication_names_plugin_of_bookie_without_any() -> None:
    assert wire.authenticate().hex() == "0000001a" + "02030000" + "0a12" + b"AuthDisabledPlugin".hex() + "1200"
    recorded = bytes.fromhex("02030000" + "0a12") + b"AuthDisabledPlugin" + bytes.fromhex("1200")
    response = wire.response(recorded)
    assert response.operation == Operation.AUTH
    assert wire.authentication(response.body) == ("AuthDisabledPlugin", b"")


def test_damaged_authentication_is_refused() -> None:
    with pytest.raises(Corrupt, match="authentication"):
        wire.authentication(b"\x0a\xff")


def test_answers_are_read() -> None:
    assert wire.response(answer(1, 104, 5, 9)) == Response(Operation.ADD, Code.FENCED, 5, 9, 0, b"")
    assert wire.response(answer(2, 0, 5, -1, body=b"xy")) == Response(Operation.READ, Code.OK, 5, -1, 0, b"xy")
    batch = answer(7, 0, 5, 9, 77, body=b"z", form=">iqqq")
    assert wire.response(batch) == Response(Operation.BATCH_READ, Code.OK, 5, 9, 77, b"z")


@pytest.mark.parametrize("operation", [1, 2, 7])
def test_answer_that_ends_too_early_is_refused(operation: int) -> None:
    form = ">iqqq" if operation == 7 else ">iqq"
    frame = answer(operation, 0, 5, 9, *([77] if operation == 7 else []), form=form)
    for size in range(4, len(frame)):
        with pytest.raises(Corrupt, match="too short"):
            wire.response(frame[:size])


def test_other_version_and_unknown_operation_are_refused() -> None:
    with pytest.raises(Corrupt, match="version"):
        wire.response(b"\x03\x01\0\0" + bytes(20))
    with pytest.raises(Corrupt, match="unknown operation"):
        wire.response(b"\x02\x09\0\0" + bytes(20))


def test_frames_of_one_read_are_split_and_partial_waits() -> None:
    frame = answer(1, 0, 5, 9)
    framed = struct.pack(">I", len(frame)) + frame
    for cut in range(len(framed)):
        frames, size = wire.split(bytearray(framed * 2 + framed[:cut]), LIMIT)
        assert (frames, size) == ([frame, frame], 2 * len(framed))


@pytest.mark.parametrize("length", [0, 3, LIMIT + 1, 2**32 - 1])
def test_impossible_frame_length_is_refused(length: int) -> None:
    with pytest.raises(Corrupt, match="impossible length"):
        wire.split(struct.pack(">I", length), LIMIT)


def test_entries_of_batch_are_cut() -> None:
    bodies = [bytes(40), bytes(100)]
    data = b"".join(struct.pack(">I", len(body)) + body for body in bodies)
    assert wire.batch(data) == bodies
    assert wire.batch(b"") == []


@pytest.mark.parametrize("cut", [1, 3, 4, 43, 45])
def test_cut_batch_is_refused(cut: int) -> None:
    data = struct.pack(">I", 40) + bytes(40) + struct.pack(">I", 40) + bytes(40)
    with pytest.raises(Corrupt):
        wire.batch(data[:cut])


def test_absence_is_only_what_says_so() -> None:
    assert set(wire.ABSENT) == {Code.NO_LEDGER, Code.NO_ENTRY}
    assert Code.UNKNOWN_LEDGER_STATE not in wire.ABSENT

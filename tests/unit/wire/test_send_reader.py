"""A run is as long as plain SENDs of one producer follow each other, and a damaged entry costs only itself."""

from __future__ import annotations

import struct

import google_crc32c
import pytest

from magnetar.base.errors import BadFrame
from magnetar.wire.frames import read_send, split
from magnetar.wire.proto import pb
from magnetar.wire.send_reader import gather_next, gather_sends
from tests.support.golden_vectors import sent_frames


def an_entry(payload: bytes = b"payload", *, checksum: bool = True, damage: int = 0) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1).SerializeToString()
    covered = struct.pack(">I", len(metadata)) + metadata + payload
    if not checksum:
        return covered
    return b"\x0e\x01" + struct.pack(">I", google_crc32c.value(covered) ^ damage) + covered


def a_send(producer: int = 1, sequence: int = 0, entry: bytes | None = None, **fields: object) -> bytes:
    send = pb.CommandSend(producer_id=producer, sequence_id=sequence, **fields)
    return framed(pb.BaseCommand(type=pb.BaseCommand.SEND, send=send).SerializeToString(), entry)


def framed(command: bytes, entry: bytes | None = None) -> bytes:
    entry = an_entry() if entry is None else entry
    return struct.pack(">II", 4 + len(command) + len(entry), len(command)) + command + entry


def gathered(*parts: bytes, index: int = 0):
    buffer = b"".join(parts)
    frames, consumed = split(buffer, 0, 1 << 23)
    assert consumed == len(buffer)
    return gather_sends(buffer, frames, index)


WIDTHS = [0, 1, 127, 128, 16383, 16384, 2**21 - 1, 2**21, 2**28 - 1, 2**28, 2**35, 2**63, 2**64 - 1]


@pytest.mark.parametrize("producer", WIDTHS)
def test_ids_of_every_width_are_read(producer):
    run = gathered(*[a_send(producer, sequence) for sequence in WIDTHS])
    assert (run.producer_id, run.sequence_ids, run.highest_ids) == (producer, WIDTHS, WIDTHS)
    assert (run.stop, run.bad, run.chunks) == (len(WIDTHS), -1, None)
    assert run.counts == [1] * len(WIDTHS)


def test_bodies_are_what_followed_commands():
    entries = [an_entry(b"a" * size, checksum=size % 2 == 0) for size in range(20)]
    run = gathered(*[a_send(1, place, entry) for place, entry in enumerate(entries)])
    assert [run.body[run.offsets[place] : run.offsets[place + 1]] for place in range(20)] == entries
    assert run.offsets[-1] == len(run.body)


def test_counts_highest_ids_and_chunks_are_kept_by_place():
    run = gathered(
        a_send(1, 10),
        a_send(1, 11, num_messages=5, highest_sequence_id=15),
        a_send(1, 16, is_chunk=True),
        a_send(1, 17, num_messages=-3, highest_sequence_id=2),
    )
    assert run.counts == [1, 5, 1, 1]
    assert run.messages == 8
    assert run.highest_ids == [10, 15, 16, 17]  # one below its own sequence id is none
    assert run.sequence_ids == [10, 11, 16, 17]
    assert run.chunks == [False, False, True, False]


PING = framed(pb.BaseCommand(type=pb.BaseCommand.PING, ping=pb.CommandPing()).SerializeToString(), b"")


@pytest.mark.parametrize(
    "other",
    [
        a_send(2, 5),
        a_send(1, 5, txnid_least_bits=0),
        a_send(1, 5, txnid_most_bits=3),
        a_send(1, 5, marker=True),
        a_send(1, 5, message_id=pb.MessageIdData(ledgerId=1, entryId=1)),
        PING,
        framed(b"\x08\x06\x32\x02\x08\x01"),  # unreadable: the caller meets it next
        framed(b"", b""),
        framed(b"\x08\x06", b""),
    ],
)
def test_run_ends_before_any_other_command(other):
    run = gathered(a_send(1, 3), a_send(1, 4), other, a_send(1, 6))
    assert (run.sequence_ids, run.stop, run.bad) == ([3, 4], 2, -1)


@pytest.mark.parametrize("sequence", WIDTHS)
@pytest.mark.parametrize("producer", WIDTHS)
def test_next_run_of_another_producer_is_read_like_first(producer, sequence):
    buffer = a_send(3, 4) + a_send(producer, sequence, num_messages=300, highest_sequence_id=sequence)
    frames, _ = split(buffer, 0, 1 << 23)
    run = gather_next(buffer, frames, 1)
    if run is None:  # a number that takes another reader
        run = gather_sends(buffer, frames, 1)
    assert (run.producer_id, run.sequence_ids, run.highest_ids, run.counts) == (producer, [sequence], [sequence], [300])
    assert (run.stop, run.body) == (2, an_entry())


@pytest.mark.parametrize("width", [1, 2, 3])
def test_next_run_of_usual_numbers_takes_no_other_reader(width):
    number = (1 << 7 * width) - 1
    buffer = a_send(3, 4) + a_send(number, number, num_messages=5, highest_sequence_id=number) + PING
    frames, _ = split(buffer, 0, 1 << 23)
    run = gather_next(buffer, frames, 1)
    assert run is not None
    assert (run.producer_id, run.sequence_ids, run.counts, run.stop) == (number, [number], [5], 2)


@pytest.mark.parametrize(
    "other",
    [
        PING,
        a_send(2, 5, marker=True),
        a_send(2, 5, an_entry(damage=1)),
        framed(b"\x08\x06\x32\x02\x08\x01"),
        framed(b"", b""),
        framed(b"\x08\x06", b""),
    ],
)
@pytest.mark.parametrize("last", [True, False])
def test_next_frame_of_unusual_form_starts_no_run(other, last):
    buffer = a_send(1, 3) + other + (b"" if last else a_send(3, 1))
    frames, _ = split(buffer, 0, 1 << 23)
    assert gather_next(buffer, frames, 1) is None


def test_send_that_is_not_plain_starts_no_run():
    run = gathered(a_send(1, 5, marker=True), a_send(1, 6))
    assert (len(run), run.stop, run.bad, run.offsets) == (0, 0, -1, [0])


def test_unreadable_first_frame_is_refused():
    with pytest.raises(BadFrame):
        gathered(framed(b"\x08\x06\x32\x02\x08\x01"))


@pytest.mark.parametrize(
    "entry",
    [
        an_entry(damage=1),
        an_entry()[:-1],
        b"",
        b"\x0e\x01",
        b"\x0e\x01\0\0\0\0\0\0\0",
        b"\x0e\x01" + struct.pack(">I", google_crc32c.value(b"\0\0\0\5ab")) + b"\0\0\0\5ab",  # metadata too long
        b"\x0e\x02\0\0\0\0" + an_entry(),  # a broker block is not a client's to send
        struct.pack(">I", 100) + b"no checksum, and too short",
    ],
)
@pytest.mark.parametrize("fields", [{}, {"num_messages": 4}, {"is_chunk": True, "highest_sequence_id": 9}])
def test_damaged_entry_costs_only_itself(entry, fields):
    damaged = a_send(1, 5, entry, **fields)
    run = gathered(a_send(1, 3), a_send(1, 4), damaged, a_send(1, 6))
    assert (run.sequence_ids, run.stop, run.bad, run.bad_sequence_id) == ([3, 4], 2, 2, 5)
    assert (run.counts, run.chunks) == ([1, 1], None)
    after = gathered(a_send(1, 3), a_send(1, 4), damaged, a_send(1, 6), index=3)
    assert (after.sequence_ids, after.stop, after.bad) == ([6], 4, -1)


def test_damaged_first_entry_gives_empty_run():
    run = gathered(a_send(1, 5, an_entry(damage=1)), a_send(1, 6))
    assert (len(run), run.body, run.stop, run.bad, run.bad_sequence_id) == (0, b"", 0, 0, 5)


def test_command_cut_inside_number_is_not_read_past_its_end():
    cut = framed(b"\x08\x06\x32\x04\x08\x01\x10\x80")
    run = gathered(a_send(1, 3), cut)
    assert (run.sequence_ids, run.stop) == ([3], 1)


def test_recorded_frames_of_one_producer_are_one_run():
    frames = [frame for frame in sent_frames() if "txnid_most_bits" not in frame["send"]]
    index = 0
    while index < len(frames):
        run = gathered(*[frame["bytes"] for frame in frames[index:]])
        taken = frames[index : index + run.stop]
        assert run.bad == -1
        assert taken
        assert {frame["send"]["producer_id"] for frame in taken} == {run.producer_id}
        assert run.sequence_ids == [frame["send"]["sequence_id"] for frame in taken]
        assert run.counts == [frame["send"].get("num_messages", 1) for frame in taken]
        assert run.body == b"".join(frame["bytes"][8 + frame["command_size"] :] for frame in taken)
        index += run.stop


@pytest.mark.parametrize("sequence", WIDTHS)
@pytest.mark.parametrize("producer", WIDTHS)
def test_lone_send_between_other_producers_is_read_whole(producer, sequence):
    other = a_send(producer + 1 if producer < 2**64 - 1 else 0, 7)
    highest = min(sequence + 3, 2**64 - 1)
    run = gathered(other, a_send(producer, sequence, num_messages=4, highest_sequence_id=highest), other, index=1)
    assert (run.producer_id, run.sequence_ids, run.highest_ids) == (producer, [sequence], [highest])
    assert (run.counts, run.messages, run.stop, run.bad, run.chunks) == ([4], 4, 2, -1, None)
    assert (run.body, run.offsets) == (an_entry(), [0, len(an_entry())])


@pytest.mark.parametrize("value", [0, 1, 0x08, 0x10, 0x18, 0x30, 0x38, 0x7F, 0x80, 0xFF])
@pytest.mark.parametrize("entry", [an_entry(), an_entry(checksum=False), b"\x0e\x01", b"", bytes(10)])
def test_changed_bytes_of_lone_send_keep_general_meaning(value, entry):
    whole = pb.CommandSend(producer_id=300, sequence_id=70_000, num_messages=4, highest_sequence_id=70_003)
    command = pb.BaseCommand(type=pb.BaseCommand.SEND, send=whole).SerializeToString()
    for place in range(len(command)):
        changed = command[:place] + bytes([value]) + command[place + 1 :]
        try:
            expected = read_send(changed, 0, len(changed))
        except BadFrame:
            with pytest.raises(BadFrame):
                gathered(framed(changed, entry))
            continue
        run = gathered(framed(changed, entry))
        assert run.producer_id == expected[0]
        plain = not expected[5] and expected[6] < 0 and expected[7] < 0 and expected[8] is None
        if run.bad >= 0:
            assert plain
            assert run.bad_sequence_id == expected[1]
        elif len(run):
            assert plain
            assert (run.sequence_ids, run.counts) == ([expected[1]], [max(expected[2], 1)])
            assert run.highest_ids == [max(expected[1], expected[3])]
            assert run.chunks == ([True] if expected[4] else None)
        else:
            assert not plain

"""Checkpoints as bytes: those of Pulsar's V5 client byte by byte, ours with more behind, which it ignores."""

from __future__ import annotations

from struct import pack

import pytest
from google_crc32c import value as crc32c
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import Corrupt, MagnetarError, Misuse
from magnetar.base.ids import Epoch, SegmentId
from magnetar.layout.checkpoint import DONE, START, Kind, SegmentPosition
from magnetar.wire import ids
from magnetar.wire.scalable.checkpoint import Checkpoint, message_id, place_of
from tests.support.golden_vectors import load

VECTORS = load("message-ids.json")
OURS = Checkpoint(
    {
        SegmentId(0): DONE,
        SegmentId(1): START,
        SegmentId(2): SegmentPosition(12, 34),
        SegmentId(7): SegmentPosition(12, 34, 3, 5),
    },
    Epoch(6),
    "topic://public/default/größe",
    11,
)


@pytest.mark.parametrize("case", VECTORS["checkpoints"], ids=lambda case: case["bytes"][:24])
def test_checkpoint_of_java_client_is_read(case):
    found = Checkpoint.from_bytes(bytes.fromhex(case["bytes"]))
    if case["kind"] != "regular":
        assert found == {"earliest": Checkpoint.EARLIEST, "latest": Checkpoint.LATEST}[case["kind"]]
        assert found.to_bytes() == bytes.fromhex(case["bytes"])
        return
    expected = {one["segment"]: place_of(ids.from_bytes(bytes.fromhex(one["v4_bytes"]))) for one in case["positions"]}
    assert dict(found.places) == expected
    assert (found.epoch, found.topic, found.incarnation) == (-1, "", 0)


@pytest.mark.parametrize("case", VECTORS["checkpoints"], ids=lambda case: case["bytes"][:24])
def test_what_is_written_begins_as_java_client_writes_it(case):
    """In our order of segments; it reads any. First chunks and partitions are left out: a segment is one topic, and
    reading goes on behind the last chunk."""
    theirs = bytes.fromhex(case["bytes"])
    found = Checkpoint.from_bytes(theirs)
    written = found.to_bytes()
    numbers = [one["segment"] for one in case.get("positions", [])]
    full = [ids.from_bytes(bytes.fromhex(one["v4_bytes"])) for one in case.get("positions", [])]
    if numbers == list(range(len(numbers))) and all(id.partition < 0 and id.first_chunk is None for id in full):
        assert written.startswith(theirs)
    assert Checkpoint.from_bytes(written) == found


@pytest.mark.parametrize("case", VECTORS["checkpoints_malformed"], ids=lambda case: case["bytes"][:40])
def test_properties_are_accepted_exactly_as_by_java_client(case):
    data = bytes.fromhex(case["bytes"])
    if "error" in case:
        with pytest.raises(Corrupt):
            Checkpoint.from_bytes(data)
        return
    found = Checkpoint.from_bytes(data)
    assert found.kind is (Kind(case["kind"]) if "kind" in case else Kind.PLACES)
    assert sorted(found.places) == [one["segment"] for one in case.get("positions", [])]


def test_ours_keeps_topic_life_and_epoch():
    assert Checkpoint.from_bytes(OURS.to_bytes()) == OURS
    assert str(OURS) == "0/DONE 1/-1:-1 2/12:34 7/12:34:3"


def test_any_bit_that_is_wrong_is_noticed():
    """But in the type and the count, which Java reads as well: they say where the rest begins."""
    data = OURS.to_bytes()
    for at in range(5, len(data)):
        for bit in (0x01, 0x80):
            damaged = data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]
            try:
                found = Checkpoint.from_bytes(damaged)
            except (Corrupt, Misuse):
                continue
            assert found.epoch == -1  # the magic was hit, or a length before it: nothing of ours is left to believe


def test_one_that_was_cut_short_behind_our_mark_is_refused():
    data = OURS.to_bytes()
    mark = data.index(b"MgCp")
    for length in range(mark + 4, len(data)):
        with pytest.raises(Corrupt):
            Checkpoint.from_bytes(data[:length])


def test_surrounding_chunks_follow_readable_bytes_and_round_trip():
    places = {**OURS.places, SegmentId(2): SegmentPosition(12, 34, around=(11, 7))}
    around = Checkpoint(places, OURS.epoch, OURS.topic, OURS.incarnation)
    data = around.to_bytes()
    assert Checkpoint.from_bytes(data) == around
    assert {id: place.around for id, place in Checkpoint.from_bytes(data).places.items() if place.around} == {
        2: (11, 7)
    }
    theirs = OURS.to_bytes().index(b"MgCp")
    assert data[:theirs] == OURS.to_bytes()[:theirs]
    assert (OURS.to_bytes()[theirs + 4], data[theirs + 4]) == (1, 2)  # older readers take all that says nothing new


@pytest.mark.parametrize("said", [(9, 1, 1), (2, -1, 1), (2, 1, -1)])
def test_what_lies_around_place_that_is_none_is_refused(said):
    data = bytearray(OURS.to_bytes()[:-4])
    data[data.index(b"MgCp") + 4] = 2
    data += pack(">qqq", *said)
    with pytest.raises(Corrupt, match="chunk data"):
        Checkpoint.from_bytes(bytes(data) + pack(">I", crc32c(bytes(data))))


def test_one_of_newer_version_says_so():
    data = bytearray(OURS.to_bytes())
    data[data.index(b"MgCp") + 4] = 3
    with pytest.raises(Misuse, match="newer version"):
        Checkpoint.from_bytes(bytes(data))


def test_done_is_latest_for_those_who_do_not_know_it():
    assert message_id(DONE) == ids.MessageId.LATEST
    assert place_of(ids.MessageId.LATEST) == DONE
    assert place_of(message_id(START)) == START


@given(st.binary(max_size=200))
def test_no_bytes_do_more_harm_than_error(data):
    for prefix in (b"", b"\x00", b"\x00\x00\x00\x00\x01"):
        try:
            Checkpoint.from_bytes(prefix + data)
        except MagnetarError:
            pass

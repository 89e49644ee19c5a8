"""Chunks make their message again, however they are mixed, repeated or delivered anew, within bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import Corrupt
from magnetar.client.consumer.receive.chunks import ChunkAssembler
from magnetar.wire.proto import pb


def metadata(uuid: str, place: int, chunks: int, total: int) -> pb.MessageMetadata:
    return pb.MessageMetadata(
        producer_name="p",
        sequence_id=1,
        publish_time=1,
        uuid=uuid,
        chunk_id=place,
        num_chunks_from_msg=chunks,
        total_chunk_msg_size=total,
    )


def feed(chunks: ChunkAssembler, uuid: str, place: int, entry: int, *, of: int = 3, now: float = 0.0):
    return chunks.add(metadata(uuid, place, of, of * 2), f"{uuid}{place}".encode(), (1, entry), now)


def test_chunks_in_order_make_message():
    chunks = ChunkAssembler()
    assert feed(chunks, "a", 0, 10) is None
    assert feed(chunks, "a", 1, 11) is None
    whole = feed(chunks, "a", 2, 12)
    assert whole.payload == b"a0a1a2"
    assert whole.positions == [(1, 10), (1, 11), (1, 12)]
    assert whole.strays == []
    assert len(chunks) == 0
    assert chunks.held_bytes == 0


def test_redelivery_from_first_chunk_starts_anew():
    chunks = ChunkAssembler()
    feed(chunks, "a", 0, 10)
    feed(chunks, "a", 1, 11)
    feed(chunks, "a", 0, 10)
    feed(chunks, "a", 1, 11)
    whole = feed(chunks, "a", 2, 12)
    assert (whole.payload, whole.positions, whole.strays) == (b"a0a1a2", [(1, 10), (1, 11), (1, 12)], [])
    assert chunks.given_up == []


def test_chunk_delivered_twice_is_counted_once():
    chunks = ChunkAssembler()
    feed(chunks, "a", 0, 10)
    feed(chunks, "a", 1, 11)
    feed(chunks, "a", 1, 11)
    assert feed(chunks, "a", 2, 12).strays == []


def test_message_sent_again_by_its_producer_owns_chunks_of_both():
    chunks = ChunkAssembler()
    feed(chunks, "a", 0, 10)
    feed(chunks, "a", 1, 11)
    feed(chunks, "a", 0, 20)
    feed(chunks, "a", 1, 21)
    whole = feed(chunks, "a", 2, 22)
    assert whole.positions == [(1, 20), (1, 21), (1, 22)]
    assert whole.strays == [(1, 10), (1, 11)]


def test_gap_gives_message_up_with_all_its_positions():
    chunks = ChunkAssembler()
    feed(chunks, "a", 0, 10)
    assert feed(chunks, "a", 2, 12) is None
    assert chunks.given_up == [(1, 10), (1, 12)]
    assert len(chunks) == 0


def test_chunk_without_beginning_is_given_up():
    chunks = ChunkAssembler()
    assert feed(chunks, "a", 1, 11) is None
    assert chunks.given_up == [(1, 11)]


def test_message_beyond_count_is_deferred_until_its_last_chunk():
    chunks = ChunkAssembler(pending_max=2)
    for entry, uuid in enumerate("abc"):
        feed(chunks, uuid, 0, entry, of=2)
    assert (chunks.given_up, chunks.defers("c"), chunks.oldest) == ([], True, (1, 0))
    assert chunks.claim("c") == []
    assert feed(chunks, "a", 1, 4, of=2) is not None
    assert feed(chunks, "c", 1, 5, of=2) is None
    assert chunks.claim("c") == [(1, 2), (1, 5)]
    feed(chunks, "c", 0, 2, of=2)
    assert feed(chunks, "c", 1, 5, of=2).positions == [(1, 2), (1, 5)]
    assert feed(chunks, "b", 1, 6, of=2) is not None
    assert (len(chunks), chunks.held_bytes) == (0, 0)


def test_deferred_message_that_is_complete_takes_room_of_newest():
    chunks = ChunkAssembler(pending_max=2)
    for entry, uuid in enumerate("abc"):
        feed(chunks, uuid, 0, entry, of=2)
    feed(chunks, "c", 1, 3, of=2)
    assert chunks.claim("c") == [(1, 2), (1, 3)]
    assert (chunks.knows("a"), chunks.defers("b"), chunks.held_bytes) == (True, True, 2)
    feed(chunks, "c", 0, 2, of=2)
    assert feed(chunks, "c", 1, 3, of=2) is not None
    feed(chunks, "b", 1, 4, of=2)
    assert chunks.claim("b") == [(1, 1), (1, 4)]


def test_deferred_message_keeps_its_place_as_oldest():
    chunks = ChunkAssembler(pending_max=1)
    feed(chunks, "a", 0, 0, of=2)
    feed(chunks, "b", 0, 1, of=2)
    feed(chunks, "a", 1, 2, of=2)
    assert (chunks.oldest, len(chunks)) == ((1, 1), 1)


def test_deferred_message_that_is_never_complete_expires():
    chunks = ChunkAssembler(pending_max=1, expire_s=10)
    feed(chunks, "a", 0, 0, of=2)
    feed(chunks, "b", 0, 1, of=2)
    chunks.expire(100)
    assert (chunks.take_given_up(), chunks.held_bytes) == ([(1, 0), (1, 1)], 0)


def test_one_whose_next_chunk_is_overdue_gives_way():
    chunks = ChunkAssembler(pending_max=1, expire_s=10)
    feed(chunks, "a", 0, 0)
    later = metadata("b", 0, 3, 6)
    later.publish_time = 10_001
    chunks.add(later, b"b0", (1, 1), 0.0)
    assert (chunks.take_given_up(), chunks.knows("b")) == ([(1, 0)], True)


def test_message_waiting_too_long_for_chunk_is_dropped():
    chunks = ChunkAssembler(expire_s=60)
    feed(chunks, "a", 0, 10, now=0)
    feed(chunks, "b", 0, 20, now=30)
    feed(chunks, "a", 1, 11, now=50)
    chunks.expire(95)
    assert chunks.given_up == [(1, 20)]
    chunks.expire(110)
    assert chunks.given_up == [(1, 20), (1, 10), (1, 11)]
    assert chunks.held_bytes == 0


def test_incomplete_chunks_are_bounded_by_claimed_bytes():
    chunks = ChunkAssembler(bytes_max=16)
    for entry, uuid in enumerate("abcdef"):
        feed(chunks, uuid, 0, entry, of=4)
    assert chunks.held_bytes == 4
    assert [uuid for uuid in "abcdef" if chunks.defers(uuid)] == list("cdef")
    assert chunks.given_up == []


def test_message_larger_than_all_room_is_put_together_alone():
    chunks = ChunkAssembler(bytes_max=5)
    feed(chunks, "a", 0, 0)
    feed(chunks, "a", 1, 1)
    assert feed(chunks, "a", 2, 2).payload == b"a0a1a2"


@pytest.mark.parametrize(("count", "total"), [(0, 5), (7, 6), (-1, 5)])
def test_claims_that_cannot_be_are_refused_before_anything_is_kept(count, total):
    chunks = ChunkAssembler(bytes_max=50)
    with pytest.raises(Corrupt):
        chunks.add(metadata("a", 0, count, total), b"xx", (1, 1), 0.0)
    assert (len(chunks), chunks.held_bytes) == (0, 0)


def test_more_bytes_than_claimed_are_refused():
    chunks = ChunkAssembler()
    chunks.add(metadata("a", 0, 2, 5), b"xxx", (1, 1), 0.0)
    with pytest.raises(Corrupt):
        chunks.add(metadata("a", 1, 2, 5), b"xxx", (1, 2), 0.0)
    assert chunks.held_bytes == 0


def test_fewer_bytes_than_claimed_are_refused():
    chunks = ChunkAssembler()
    chunks.add(metadata("a", 0, 2, 5), b"x", (1, 1), 0.0)
    with pytest.raises(Corrupt):
        chunks.add(metadata("a", 1, 2, 5), b"x", (1, 2), 0.0)
    assert (len(chunks), chunks.held_bytes) == (0, 0)


@given(
    st.lists(st.integers(2, 5), min_size=1, max_size=4).flatmap(
        lambda sizes: st.tuples(
            st.just(sizes),
            st.permutations([which for which, size in enumerate(sizes) for _ in range(size)]),
            st.lists(st.integers(0, 20), max_size=6),
        )
    )
)
def test_any_mixture_with_deliveries_anew_gives_every_message_once(world):
    """Chunks of several messages interleaved; at some points the broker delivers everything unfinished again."""
    sizes, order, restarts = world
    stream: list[tuple[int, int, int]] = []  # message, place, entry
    places = [0] * len(sizes)
    for entry, which in enumerate(order):
        stream.append((which, places[which], entry))
        places[which] += 1
    chunks = ChunkAssembler()
    done: dict[int, bytes] = {}
    steps = list(stream)
    for restart in sorted(restarts, reverse=True):
        cut = restart % len(stream)
        steps = stream[: cut + 1] + steps  # the prefix, then from the beginning: as after a redelivery
    for which, place, entry in steps:
        if which in done:
            continue  # acknowledged
        whole = feed(chunks, f"{which}", place, entry, of=sizes[which])
        if whole is not None:
            assert whole.payload == b"".join(f"{which}{place}".encode() for place in range(sizes[which]))
            assert set(whole.positions) | set(whole.strays) == {(1, at) for one, _, at in stream if one == which}
            done[which] = whole.payload
    assert len(done) == len(sizes)
    assert (len(chunks), chunks.held_bytes) == (0, 0)


def test_oldest_incomplete_message_starts_at_first_chunk():
    chunks = ChunkAssembler()
    assert chunks.oldest is None
    feed(chunks, "a", 0, 10)
    feed(chunks, "b", 0, 11)
    feed(chunks, "a", 1, 12)
    assert (chunks.oldest, chunks.knows("a")) == ((1, 10), True)
    feed(chunks, "a", 2, 13)
    assert (chunks.oldest, chunks.knows("a")) == ((1, 11), False)


def test_late_own_chunk_does_not_expire_message():
    chunks = ChunkAssembler(expire_s=10)
    feed(chunks, "a", 0, 10, now=0)
    feed(chunks, "a", 1, 11, now=100)
    assert feed(chunks, "a", 2, 12, now=200) is not None


def test_idle_receiver_drops_no_chunks_published_together():
    chunks = ChunkAssembler(expire_s=10)
    feed(chunks, "a", 0, 10, now=0)
    chunks.expire(100, 10_000)
    assert chunks.knows("a")
    chunks.expire(5, 10_001)
    assert chunks.knows("a")
    chunks.expire(100, 10_001)
    assert chunks.take_given_up() == [(1, 10)]

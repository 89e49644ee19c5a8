"""Chunks make their message again, however they are mixed, repeated or delivered anew, within bounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import Corrupt
from magnetar.client.chunks import Chunks
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


def feed(chunks: Chunks, uuid: str, place: int, entry: int, *, of: int = 3, now: float = 0.0):
    return chunks.add(metadata(uuid, place, of, of * 2), f"{uuid}{place}".encode(), (1, entry), now)


def test_chunks_in_order_make_the_message():
    chunks = Chunks()
    assert feed(chunks, "a", 0, 10) is None
    assert feed(chunks, "a", 1, 11) is None
    whole = feed(chunks, "a", 2, 12)
    assert whole.payload == b"a0a1a2"
    assert whole.positions == [(1, 10), (1, 11), (1, 12)]
    assert whole.strays == []
    assert len(chunks) == 0
    assert chunks.held_bytes == 0


def test_a_redelivery_from_the_first_chunk_starts_anew():
    chunks = Chunks()
    feed(chunks, "a", 0, 10)
    feed(chunks, "a", 1, 11)
    feed(chunks, "a", 0, 10)
    feed(chunks, "a", 1, 11)
    whole = feed(chunks, "a", 2, 12)
    assert (whole.payload, whole.positions, whole.strays) == (b"a0a1a2", [(1, 10), (1, 11), (1, 12)], [])
    assert chunks.given_up == []


def test_a_chunk_delivered_twice_is_counted_once():
    chunks = Chunks()
    feed(chunks, "a", 0, 10)
    feed(chunks, "a", 1, 11)
    feed(chunks, "a", 1, 11)
    assert feed(chunks, "a", 2, 12).strays == []


def test_a_message_sent_again_by_its_producer_owns_the_chunks_of_both():
    chunks = Chunks()
    feed(chunks, "a", 0, 10)
    feed(chunks, "a", 1, 11)
    feed(chunks, "a", 0, 20)
    feed(chunks, "a", 1, 21)
    whole = feed(chunks, "a", 2, 22)
    assert whole.positions == [(1, 20), (1, 21), (1, 22)]
    assert whole.strays == [(1, 10), (1, 11)]


def test_a_gap_gives_the_message_up_with_all_its_positions():
    chunks = Chunks()
    feed(chunks, "a", 0, 10)
    assert feed(chunks, "a", 2, 12) is None
    assert chunks.given_up == [(1, 10), (1, 12)]
    assert len(chunks) == 0


def test_a_chunk_without_a_beginning_is_given_up():
    chunks = Chunks()
    assert feed(chunks, "a", 1, 11) is None
    assert chunks.given_up == [(1, 11)]


def test_the_oldest_gives_way_to_one_too_many():
    chunks = Chunks(pending_max=2)
    for entry, uuid in enumerate("abc"):
        feed(chunks, uuid, 0, entry)
    assert chunks.given_up == [(1, 0)]
    assert len(chunks) == 2


def test_what_waits_too_long_for_its_next_chunk_is_given_up():
    chunks = Chunks(expire_s=60)
    feed(chunks, "a", 0, 10, now=0)
    feed(chunks, "b", 0, 20, now=30)
    feed(chunks, "a", 1, 11, now=50)
    chunks.expire(95)
    assert chunks.given_up == [(1, 20)]
    chunks.expire(110)
    assert chunks.given_up == [(1, 20), (1, 10), (1, 11)]
    assert chunks.held_bytes == 0


def test_the_bytes_of_all_of_them_are_bounded():
    chunks = Chunks(bytes_max=10)
    for entry, uuid in enumerate("abcdef"):
        feed(chunks, uuid, 0, entry, of=4)
    assert chunks.held_bytes <= 10
    assert chunks.given_up == [(1, 0)]


@pytest.mark.parametrize(("count", "total"), [(0, 5), (3, 100), (7, 6), (-1, 5)])
def test_claims_that_cannot_be_are_refused_before_anything_is_kept(count, total):
    chunks = Chunks(bytes_max=50)
    with pytest.raises(Corrupt):
        chunks.add(metadata("a", 0, count, total), b"xx", (1, 1), 0.0)
    assert (len(chunks), chunks.held_bytes) == (0, 0)


def test_more_bytes_than_claimed_are_refused():
    chunks = Chunks()
    chunks.add(metadata("a", 0, 2, 5), b"xxx", (1, 1), 0.0)
    with pytest.raises(Corrupt):
        chunks.add(metadata("a", 1, 2, 5), b"xxx", (1, 2), 0.0)
    assert chunks.held_bytes == 0


def test_fewer_bytes_than_claimed_are_refused():
    chunks = Chunks()
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
    chunks = Chunks()
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


def test_the_oldest_of_those_that_are_half_there_is_where_the_first_of_them_begins():
    chunks = Chunks()
    assert chunks.oldest is None
    feed(chunks, "a", 0, 10)
    feed(chunks, "b", 0, 11)
    feed(chunks, "a", 1, 12)
    assert (chunks.oldest, chunks.knows("a")) == ((1, 10), True)
    feed(chunks, "a", 2, 13)
    assert (chunks.oldest, chunks.knows("a")) == ((1, 11), False)


def test_a_message_is_not_too_old_when_its_own_next_chunk_comes_however_late():
    chunks = Chunks(expire_s=10)
    feed(chunks, "a", 0, 10, now=0)
    feed(chunks, "a", 1, 11, now=100)
    assert feed(chunks, "a", 2, 12, now=200) is not None


def test_who_asked_for_nothing_for_long_gives_up_nothing_that_was_published_together():
    chunks = Chunks(expire_s=10)
    feed(chunks, "a", 0, 10, now=0)
    chunks.expire(100, 10_000)
    assert chunks.knows("a")
    chunks.expire(5, 10_001)
    assert chunks.knows("a")
    chunks.expire(100, 10_001)
    assert chunks.take_given_up() == [(1, 10)]

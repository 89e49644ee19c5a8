"""Turns among Shared consumers: by priority, in shares, within permits and caps, chunks together."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.ids import Position
from magnetar.topic.dispatch.permits import Chunk, SharedChooser
from magnetar.topic.dispatch.redelivery import UnackedMessages


@dataclass(eq=False)
class Consumer:
    name: str
    permits: int
    priority: int = 0
    unacked_max: int = 0
    pending: UnackedMessages = field(default_factory=UnackedMessages)

    @property
    def ready(self) -> bool:
        return self.permits > 0 and (self.unacked_max == 0 or self.pending.messages < self.unacked_max)

    def __repr__(self) -> str:
        return self.name


def chooser_of(*consumers: Consumer, share: int = 20) -> SharedChooser[Consumer]:
    chooser = SharedChooser[Consumer](share)
    for consumer in consumers:
        chooser.add(consumer)
    return chooser


def names(slices: list[tuple[Consumer | None, int, int]]) -> list[tuple[str | None, int, int]]:
    return [(consumer.name if consumer else None, start, stop) for consumer, start, stop in slices]


def test_consumers_rotate_every_twenty_entries_across_runs() -> None:
    chooser = chooser_of(Consumer("a", 1000), Consumer("b", 1000))
    assert names(chooser.assign([1] * 50)) == [("a", 0, 20), ("b", 20, 40), ("a", 40, 50)]
    assert names(chooser.assign([1] * 10)) == [("b", 0, 10)]
    assert names(chooser.assign([1] * 10)) == [("a", 0, 10)]


def test_consumer_alone_gets_one_slice() -> None:
    chooser = chooser_of(Consumer("a", 1000), Consumer("broke", 0))
    assert names(chooser.assign([1] * 500)) == [("a", 0, 500)]
    assert names(chooser.assign([1] * 500, 490)) == [("a", 490, 500)]
    assert chooser.assign([], 0) == []


def test_entries_beyond_all_permits_are_left() -> None:
    chooser = chooser_of(Consumer("a", 3), Consumer("b", 2))
    assert names(chooser.assign([1] * 50)) == [("a", 0, 3), ("b", 3, 5)]


def test_batch_leaves_whole_on_one_permit() -> None:
    chooser = chooser_of(Consumer("a", 1))
    assert names(chooser.assign([100, 1])) == [("a", 0, 1)]


def test_lower_level_gets_only_what_better_one_cannot_take() -> None:
    best, worse = Consumer("best", 5, priority=0), Consumer("worse", 100, priority=1)
    chooser = chooser_of(worse, best)
    assert names(chooser.assign([1] * 10)) == [("best", 0, 5), ("worse", 5, 10)]
    best.permits = 0
    assert names(chooser.assign([1] * 10)) == [("worse", 0, 10)]
    best.permits = 100
    assert names(chooser.assign([1] * 10)) == [("best", 0, 10)]


def test_cap_on_unacked_messages_ends_turn_like_permits_do() -> None:
    capped = Consumer("capped", 1000, unacked_max=10)
    capped.pending.add(Position(1, 0), 7)
    chooser = chooser_of(capped, Consumer("free", 1000))
    assert names(chooser.assign([1] * 10)) == [("capped", 0, 3), ("free", 3, 10)]
    capped.pending.add(Position(1, 1), 3)
    assert names(chooser.assign([1] * 10)) == [("free", 0, 10)]


def test_leaver_gets_nothing_and_costs_nobody_turn() -> None:
    a, b, c = Consumer("a", 100), Consumer("b", 100), Consumer("c", 100)
    chooser = chooser_of(a, b, c)
    chooser.assign([1])
    chooser.remove([a])
    assert names(chooser.assign([1])) == [("b", 0, 1)]
    assert names(chooser.assign([1])) == [("c", 0, 1)]
    chooser.remove([b])
    chooser.remove([c])
    chooser.remove([c])
    assert chooser.assign([1]) == []


def test_last_consumer_leaving_on_its_turn_passes_to_first() -> None:
    a, b = Consumer("a", 100), Consumer("b", 100)
    chooser = chooser_of(a, b)
    chooser.assign([1])
    chooser.remove([b])
    assert names(chooser.assign([1])) == [("a", 0, 1)]


def test_chunks_of_message_stay_with_first_consumer() -> None:
    a, b = Consumer("a", 100), Consumer("b", 100)
    chooser = chooser_of(a, b)
    assert names(chooser.assign([1, 1], 0, [Chunk("m", False), Chunk("m", False)])) == [("a", 0, 2)]
    assert names(chooser.assign([1])) == [("b", 0, 1)]
    runs = [Chunk("m", False), None, Chunk("m", True), None, Chunk("m", True)]
    assert names(chooser.assign([1] * 5, 0, runs)) == [("a", 0, 5)]
    assert names(chooser.assign([1], 0, [Chunk("m", False)])) == [("b", 0, 1)], "the last chunk ended the first message"


def test_chunk_without_permits_waits_while_others_continue() -> None:
    a, b = Consumer("a", 1), Consumer("b", 100)
    chooser = chooser_of(a, b)
    chunks = [Chunk("m", False), Chunk("m", False), None, Chunk("m", True), None]
    assert names(chooser.assign([1] * 5, 0, chunks)) == [
        ("a", 0, 1),
        (None, 1, 2),
        ("b", 2, 3),
        (None, 3, 4),
        ("b", 4, 5),
    ]
    a.permits = 2
    assert names(chooser.assign([1, 1], 0, [Chunk("m", False), Chunk("m", True)])) == [("a", 0, 2)]


def test_chunks_of_leaver_start_over_with_another() -> None:
    a, b = Consumer("a", 1), Consumer("b", 100)
    chooser = chooser_of(a, b)
    chooser.assign([1], 0, [Chunk("m", False)])
    chooser.remove([a])
    assert names(chooser.assign([1], 0, [Chunk("m", True)])) == [("b", 0, 1)]


def test_messages_whose_last_chunk_never_comes_do_not_pile_up() -> None:
    chooser = SharedChooser[Consumer](chunk_owners_max=10)
    chooser.add(Consumer("a", 10_000))
    chooser.assign([1] * 1000, 0, [Chunk(str(i), False) for i in range(1000)])
    assert len(chooser._chunk_owners) == 10


CONSUMERS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 2), st.integers(0, 20), st.integers(0, 12)), min_size=1, max_size=6
)


@given(
    consumers=CONSUMERS,
    counts=st.lists(st.integers(1, 4), max_size=60),
    start=st.integers(0, 5),
    chunked=st.booleans(),
    share=st.integers(1, 5),
)
def test_slices_are_ordered_complete_and_within_permits(
    consumers: list[tuple[int, int, int, int]], counts: list[int], start: int, chunked: bool, share: int
) -> None:
    all_of_them = []
    for i, (permits, priority, cap, unacked) in enumerate(consumers):
        consumer = Consumer(str(i), permits, priority, cap)
        consumer.pending.add(Position(0, 0), unacked)
        all_of_them.append(consumer)
    chooser = chooser_of(*all_of_them, share=share)
    start = min(start, len(counts))
    slices = chooser.assign(counts, start, [None] * len(counts) if chunked else None)
    room = {
        c: min(c.permits, c.unacked_max - c.pending.messages if c.unacked_max else c.permits) if c.ready else 0
        for c in all_of_them
    }
    at = start
    streak: dict[Consumer, int] = {}
    for consumer, first, stop in slices:
        assert consumer is not None
        assert first == at < stop
        at = stop
        for i in range(first, stop):
            assert room[consumer] > 0
            better = [c for c in all_of_them if c.priority < consumer.priority and room[c] > 0]
            assert not better, "a better level still had room"
            room[consumer] -= counts[i]
            streak = {consumer: streak.get(consumer, 0) + 1}
            others = [c for c in all_of_them if c is not consumer and c.priority == consumer.priority and room[c] > 0]
            assert not others or streak[consumer] <= share
    assert at == len(counts) or all(left <= 0 for left in room.values()), "entries were left although somebody had room"

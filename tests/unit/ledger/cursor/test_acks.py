"""Acknowledgements against a model that remembers every message by itself."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from magnetar.base.errors import Corrupt, Refused
from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position
from magnetar.base.limits import CURSOR_HOLES_WARN
from magnetar.ledger.chain import Chain, LedgerSpan
from magnetar.ledger.cursor.acks import VERSION, AckBounds, Acks
from magnetar.ledger.snapshot_codec import sections, varint
from tests.support.search_effort import examples

PLACES = st.builds(Position, st.integers(1, 11), st.integers(-1, 7))


def a_chain(*sizes: int) -> Chain:
    return Chain([LedgerSpan(2 * index + 2, size) for index, size in enumerate(sizes)])


class AgainstTheModel(RuleBasedStateMachine):
    """`open` holds, for every entry after the last reset, the set of message indexes still open."""

    @initialize(sizes=st.lists(st.integers(0, 6), min_size=1, max_size=3))
    def start(self, sizes):
        self.chain = a_chain(*sizes)
        self.acks = Acks(self.chain, BEFORE_ALL)
        self.open = {position: set(range(self.batch(position))) for position in self.every()}
        self.counts: dict[Position, int] = {}

    def batch(self, position: Position) -> int:
        return (1, 3, 70)[(position.ledger + position.entry) % 3]

    def every(self) -> list[Position]:
        return [Position(link.ledger, entry) for link in self.chain.links for entry in range(link.entries)]

    def close_entry(self, position: Position) -> None:
        if position in self.open:
            del self.open[position]
            self.counts.pop(position, None)

    @rule(position=PLACES)
    def ack(self, position):
        assert self.acks.ack(position) == (position in self.open)
        self.close_entry(position)

    @rule()
    def ack_next_in_line(self):
        if self.open:
            position = min(self.open)
            assert self.acks.ack(position)
            self.close_entry(position)

    @rule(position=st.one_of(PLACES, st.just(AFTER_ALL)))
    def ack_to(self, position):
        hit = [other for other in self.open if other <= position]
        assert self.acks.ack_to(position) == bool(hit)
        for other in hit:
            self.close_entry(other)

    @rule(position=PLACES, left=st.sets(st.integers(0, 69)), cumulative=st.booleans(), signed=st.booleans())
    def ack_bits(self, position, left, cumulative, signed):
        size = self.batch(position)
        raw = sum(1 << index for index in left if index < size).to_bytes((size + 63) // 64 * 8, "little")
        words = [int.from_bytes(raw[at : at + 8], "little", signed=signed) for at in range(0, len(raw), 8)]
        if cumulative:
            self.acks.ack_to_bits(position, words, size)
            for other in [other for other in self.open if other < position]:
                self.close_entry(other)
        else:
            self.acks.ack_bits(position, words, size)
        if position in self.open:
            self.open[position] &= left
            if not self.open[position]:
                self.close_entry(position)

    @rule(positions=st.lists(PLACES, max_size=4))
    def deliver_again(self, positions):
        self.acks.redelivered(positions)
        for position in positions:
            if position in self.open:
                self.counts[position] = self.counts.get(position, 0) + 1

    @rule(place=st.one_of(PLACES, st.just(BEFORE_ALL), st.just(AFTER_ALL)))
    def reset(self, place):
        self.acks.reset(place)
        self.open = {position: set(range(self.batch(position))) for position in self.every() if position > place}
        self.counts = {}

    @rule(entries=st.integers(1, 3))
    def publish(self, entries):
        before = self.chain.end
        self.chain.grow(entries, 0, entries)
        for index in range(entries):
            position = Position(before.ledger, before.entry + index)
            self.open[position] = set(range(self.batch(position)))

    @rule(drop_empty=st.booleans())
    def roll(self, drop_empty):
        links = [link for link in self.chain.links if link.entries or not drop_empty]
        self.chain.install([*links, LedgerSpan(self.chain.links[-1].ledger + 2)], self.chain.floor)

    @rule()
    def trim(self):
        links = self.chain.links
        keep = [link for link in links[:-1] if Position(link.ledger, link.entries - 1) > self.acks.mark] + links[-1:]
        if len(keep) < len(links):
            gone = links[len(links) - len(keep) - 1]
            self.chain.install(keep, Position(gone.ledger, gone.entries - 1))

    @rule()
    def write_and_read_back(self):
        again = Acks.decode(self.acks.encode(), self.chain)
        assert again.encode() == Acks.decode(again.encode(), self.chain).encode()
        self.acks = again

    @invariant()
    def agrees(self):
        acks, entries = self.acks, self.every()
        assert [position for position in entries if not acks.is_acked(position)] == sorted(self.open)
        assert all(
            acks.next_unacked(place) == min([one for one in self.open if one >= place], default=self.chain.end)
            for place in [BEFORE_ALL, *entries]
        )
        assert self.chain.after(acks.mark) == min(self.open, default=self.chain.end)
        assert acks.backlog == len(self.open)
        assert acks.acked == sum(position > acks.mark for position in entries if position not in self.open)
        acked = [position for position in entries if position > acks.mark and position not in self.open]
        assert acks.holes == sum(self.chain.before(position) not in acked or position.entry == 0 for position in acked)
        for position in entries:
            words = acks.unacked_bits(position)
            left = self.open.get(position)
            if words is None:
                assert left is None or left == set(range(self.batch(position)))
            else:
                assert len(words) == (self.batch(position) + 63) // 64
                assert {index for index in range(64 * len(words)) if words[index // 64] >> index % 64 & 1} == left
            assert acks.redelivery(position) == self.counts.get(position, 0)


AgainstTheModel.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=30)
TestAgainstTheModel = AgainstTheModel.TestCase


def test_acknowledgement_bit_sets_are_combined_by_and():
    acks = Acks(a_chain(3), BEFORE_ALL)
    acks.ack_bits(Position(2, 1), [0b11101], 5)
    acks.ack_bits(Position(2, 1), [0b11110], 5)
    acks.ack_bits(Position(2, 1), [0b10110], 5)
    assert acks.unacked_bits(Position(2, 1)) == [0b10100]
    acks.ack_bits(Position(2, 1), [0], 5)
    assert acks.is_acked(Position(2, 1))


def test_empty_set_of_bits_is_whole_entry():
    acks = Acks(a_chain(3), BEFORE_ALL)
    assert acks.ack_bits(Position(2, 0), [], 5)
    assert acks.mark == Position(2, 0)


def test_batch_of_unknown_size_has_size_of_its_words():
    acks = Acks(a_chain(1), BEFORE_ALL)
    acks.ack_bits(Position(2, 0), [0b11101, 1])
    acks.ack_bits(Position(2, 0), [0b01111])  # trailing words of zeros are left out on the wire
    assert acks.unacked_bits(Position(2, 0)) == [0b01101, 0]
    acks.ack_bits(Position(2, 0), [])
    assert acks.is_acked(Position(2, 0))


def test_words_come_out_signed_as_wire_has_them():
    acks = Acks(a_chain(1), BEFORE_ALL)
    acks.ack_bits(Position(2, 0), [-1, 0b01], 66)
    assert acks.unacked_bits(Position(2, 0)) == [-1, 1]


def test_more_words_than_batch_has_messages_are_cut_off():
    acks = Acks(a_chain(1), BEFORE_ALL)
    acks.ack_bits(Position(2, 0), [0b10, *[-1] * 10_000], 2)
    assert acks.unacked_bits(Position(2, 0)) == [0b10]


def test_acknowledgement_of_unconfirmed_entry_keeps_later_delivery():
    chain = a_chain(2)
    acks = Acks(chain, BEFORE_ALL)
    assert not acks.ack(Position(2, 2))
    assert not acks.ack_bits(Position(2, 2), [0], 4)
    acks.ack_to(AFTER_ALL)
    chain.grow(1, 1, 1)
    assert acks.next_unacked(BEFORE_ALL) == Position(2, 2)


def test_cumulative_acknowledgement_before_first_entry_ends_with_previous_ledger():
    acks = Acks(a_chain(2, 2), BEFORE_ALL)
    acks.ack_to(Position(4, -1))
    assert acks.mark == Position(2, 1)


def test_mark_advances_over_ledgers_acknowledged_ahead():
    acks = Acks(a_chain(2, 1, 3), BEFORE_ALL)
    for position in (Position(6, 0), Position(4, 0), Position(2, 1)):
        acks.ack(position)
    assert acks.mark == BEFORE_ALL
    acks.ack(Position(2, 0))
    assert acks.mark == Position(6, 0)


def test_many_holes_are_all_kept_and_told_once():
    told: list[int] = []
    chain = a_chain(4 * CURSOR_HOLES_WARN)
    acks = Acks(chain, BEFORE_ALL, told.append)
    for entry in range(1, 4 * CURSOR_HOLES_WARN, 2):
        acks.ack(Position(2, entry))
    assert told == [CURSOR_HOLES_WARN + 1]
    again = Acks.decode(acks.encode(), chain)
    assert again.holes == 2 * CURSOR_HOLES_WARN
    assert all(again.is_acked(Position(2, entry)) == bool(entry % 2) for entry in range(4 * CURSOR_HOLES_WARN))


def test_gap_beyond_bound_is_not_kept_and_others_stay():
    acks = Acks(a_chain(100), BEFORE_ALL, bounds=AckBounds(gaps=3))
    assert all(acks.ack(Position(2, entry)) for entry in (10, 20, 30))
    assert not acks.ack(Position(2, 40))
    assert not acks.ack_bits(Position(2, 50), [0], 2)
    assert (acks.holes, acks.acked, acks.refused) == (3, 3, 2)
    assert not acks.is_acked(Position(2, 40))
    assert all(acks.ack(Position(2, entry)) for entry in (11, 9, 29, 0))  # they lengthen what is there
    assert (acks.refused, acks.mark) == (2, Position(2, 0))
    assert acks.ack_to(Position(2, 20))
    assert acks.ack(Position(2, 40))
    assert (acks.holes, acks.refused) == (2, 2)


def test_stored_gaps_above_bound_load_and_new_are_refused():
    chain = a_chain(100)
    acks = Acks(chain, BEFORE_ALL)
    for entry in range(10, 60, 2):
        acks.ack(Position(2, entry))
    again = Acks.decode(acks.encode(), chain, bounds=AckBounds(gaps=3))
    assert again.holes == 25
    assert not again.ack(Position(2, 80))
    assert again.ack(Position(2, 11))
    assert all(again.is_acked(Position(2, entry)) for entry in range(10, 60, 2))


def test_partial_batches_and_counts_are_bounded_and_released():
    acks = Acks(a_chain(100), BEFORE_ALL, bounds=AckBounds(batches_bytes=500, counts=2))
    assert acks.ack_bits(Position(2, 10), [1], 64)
    assert acks.ack_bits(Position(2, 11), [1], 64)
    assert not acks.ack_bits(Position(2, 12), [1], 64)
    assert acks.refused == 1
    assert acks.unacked_bits(Position(2, 12)) is None
    assert acks.redelivered([Position(2, entry) for entry in (10, 11, 12)])
    assert [acks.redelivery(Position(2, entry)) for entry in (10, 11, 12)] == [1, 1, 0]
    assert acks.redelivered([Position(2, 10)])
    assert acks.redelivery(Position(2, 10)) == 2
    acks.ack(Position(2, 10))
    assert acks.ack_bits(Position(2, 12), [1], 64)
    assert acks.redelivered([Position(2, 12)])
    acks.ack_to(Position(2, 50))
    assert acks.ack_bits(Position(2, 60), [1], 64)
    assert acks.ack_bits(Position(2, 61), [1], 64)
    again = Acks.decode(acks.encode(), a_chain(100), bounds=AckBounds(batches_bytes=500))
    assert not again.ack_bits(Position(2, 62), [1], 64)
    again.reset(BEFORE_ALL)
    assert again.ack_bits(Position(2, 62), [1], 64)


def test_hundred_thousand_holes_take_less_than_three_bytes_each():
    acks = Acks(a_chain(200_002), BEFORE_ALL)
    for entry in range(1, 200_001, 2):
        acks.ack(Position(2, entry))
    assert len(acks.encode()) < 300_000


def test_sections_of_later_version_survive_rewrite():
    chain = a_chain(9)
    data = Acks(chain, Position(2, 3)).encode() + sections([(77, b"hash ranges of tomorrow")])
    acks = Acks.decode(data, chain)
    acks.ack(Position(2, 4))
    assert not acks.plain
    assert b"hash ranges of tomorrow" in acks.encode()


def test_newer_version_is_refused_with_what_to_do():
    chain = a_chain(1)
    data = Acks(chain, BEFORE_ALL).encode()
    with pytest.raises(Refused, match="start a node of the version that wrote"):
        Acks.decode(bytes([VERSION + 1]) + data[1:], chain)


def test_what_chain_lost_or_never_had_is_forgotten_on_loading():
    acks = Acks(a_chain(5, 5), BEFORE_ALL)
    for ledger, entry in [(2, 1), (2, 2), (2, 3), (4, 2), (4, 3), (4, 4)]:
        acks.ack(Position(ledger, entry))
    acks.redelivered([Position(2, 4), Position(4, 0)])
    again = Acks.decode(acks.encode(), Chain([LedgerSpan(4, 4)]))
    assert again.mark == Position(4, -1)
    assert (again.acked, again.backlog) == (2, 2)
    assert again.redelivery(Position(4, 0)) == 1
    beyond = Acks.decode(acks.encode(), Chain([LedgerSpan(2, 3)]))
    assert (beyond.mark, beyond.backlog) == (Position(2, -1), 1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\x01",
        b"\x01" + varint(2) + varint(0),
        b"\x01" + varint(1) + varint(3) + b"abc",
        b"\x01" + sections([(1, bytes(16)), (2, varint(4) + varint(2**40))]),
        b"\x01" + sections([(1, bytes(16)), (3, varint(4) + varint(1) + b"\x01\x00\x01\x03\xff")]),
    ],
)
def test_bytes_that_lie_are_corrupt(data):
    with pytest.raises(Corrupt):
        Acks.decode(data, a_chain(3))

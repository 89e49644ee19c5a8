"""Every small chain against a list of its entries written down one by one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position
from magnetar.ledger.chain import Chain, LedgerSpan

LEDGERS = (3, 5, 6)
PLACES = [BEFORE_ALL, AFTER_ALL, *(Position(ledger, entry) for ledger in range(2, 9) for entry in range(-1, 4))]


def every_chain() -> Iterator[tuple[Chain, list[Position]]]:
    for held in range(len(LEDGERS) + 1):
        for sizes in product(range(3), repeat=held):
            for floor in (None, Position(2, 1)):
                links = [
                    LedgerSpan(ledger, size, 10 * size, 2 * size) for ledger, size in zip(LEDGERS, sizes, strict=False)
                ]
                entries = [Position(link.ledger, entry) for link in links for entry in range(link.entries)]
                yield Chain(links, floor), entries


CHAINS = list(every_chain())


def test_clamp_finds_first_entry_at_or_after_any_place():
    for chain, entries in CHAINS:
        for place in PLACES:
            later = [entry for entry in entries if entry >= place]
            assert chain.clamp(place) == (later[0] if later else chain.end)


def test_after_is_next_entry_whether_or_not_place_exists():
    for chain, entries in CHAINS:
        for place in PLACES:
            later = [entry for entry in entries if entry > place]
            assert chain.after(place) == (later[0] if later else chain.end)


def test_before_is_previous_entry_or_place_before_first():
    for chain, entries in CHAINS:
        for place in PLACES:
            earlier = [entry for entry in entries if entry < place]
            if earlier:
                assert chain.before(place) == earlier[-1]
            else:
                assert chain.after(chain.before(place)) == chain.first
                assert not chain.has(chain.before(place))


def test_rank_counts_and_nth_finds():
    for chain, entries in CHAINS:
        for place in PLACES:
            assert chain.rank(place) == sum(entry <= place for entry in entries)
        assert [chain.nth(index) for index in range(len(entries))] == entries
        assert chain.nth(len(entries)) == chain.end


def test_entries_between_counts_what_lies_in_half_open_interval():
    for chain, entries in CHAINS:
        for start, end in product(PLACES, PLACES):
            assert chain.entries_between(start, end) == sum(start < entry <= end for entry in entries)


def test_totals_last_and_membership():
    for chain, entries in CHAINS:
        assert chain.entries == len(entries)
        assert (chain.bytes, chain.messages) == (10 * len(entries), 2 * len(entries))
        assert all(chain.has(place) == (place in entries) for place in PLACES)
        assert chain.end > chain.last or not entries
        if entries:
            assert chain.last == entries[-1]
            assert chain.first == entries[0]


def test_empty_chain_precedes_all_and_ledger_its_first_entry():
    assert Chain().last == BEFORE_ALL
    assert Chain().before(Chain().first) == BEFORE_ALL
    assert Chain([LedgerSpan(4)]).last == Position(4, -1)
    assert Chain([LedgerSpan(4)]).first == Position(4, 0)


def test_dropping_everything_keeps_last_position():
    chain = Chain([LedgerSpan(4, 7)])
    last = chain.last
    chain.install([], floor=last)
    assert chain.last == last
    assert not chain.has(last)
    chain.install([LedgerSpan(9)], floor=last)
    assert chain.last == last
    assert chain.after(last) == Position(9, 0)


def test_place_at_end_of_closed_ledger_leads_into_next_one():
    chain = Chain([LedgerSpan(4, 2)])
    end = chain.end
    chain.install([*chain.links, LedgerSpan(8)])
    assert chain.clamp(end) == Position(8, 0)
    chain.grow(3, 30, 3)
    assert chain.clamp(end) == Position(8, 0)
    assert chain.last == Position(8, 2)
    assert (chain.entries, chain.bytes, chain.messages) == (5, 30, 3)


def test_ledgers_out_of_order_are_bug():
    with pytest.raises(AssertionError):
        Chain([LedgerSpan(5), LedgerSpan(4)])


def test_reader_may_stand_at_any_edge_of_ledgers():
    for chain, entries in CHAINS:
        sizes = {link.ledger: link.entries for link in chain.links}
        for place in PLACES:
            if chain.floor is not None and place <= Position(2, 2):  # just past the floor, too
                expected = True
            elif place.ledger in sizes:
                expected = place in entries or place.entry <= sizes[place.ledger]
            else:  # the beginning of a ledger that may have been there; the last one is still written
                expected = place.entry <= 0 and (not sizes or place.ledger < max(sizes))
            assert chain.can_be_next(place) == expected, (chain.links, chain.floor, place)


def test_behind_closed_ledger_empty_one_may_have_been():
    chain = Chain([LedgerSpan(3, 2, closed_ms=5)])
    assert chain.can_be_next(Position(4, 0))
    assert not chain.can_be_next(Position(4, 1))
    assert not chain.can_be_next(Position(3, 3))

"""Where entries lie and how many they are."""

from __future__ import annotations

import random
from itertools import product

from magnetar.ledger.cut_points import chosen
from magnetar.ledger.local.index import LedgerIndex


def an_index() -> LedgerIndex:
    index = LedgerIndex()
    index.add(3, 10, 300, 1, 64)
    index.add(1, 1, 0, 1, 900)
    index.add(5, 5, 50, 2, 64)
    return index


def test_entry_is_found_in_its_record() -> None:
    index = an_index()
    assert [index.find(entry) for entry in range(9)] == [0, 0, 0, 1, 2, 2, 2, 2, 2]
    assert [(index.entries(n), index.messages(n), index.body(n)) for n in range(3)] == [
        (3, 10, 300),
        (1, 1, 0),
        (5, 5, 50),
    ]
    assert (index.entries_total, index.messages_total, index.bytes_total) == (9, 16, 350)


def test_whole_records_are_counted_by_subtraction() -> None:
    index = an_index()
    assert index.whole(0, 3) == (16, 350)
    assert index.whole(1, 3) == (6, 50)
    assert index.whole(0, 1) == (10, 300)
    assert index.whole(2, 2) == (0, 0)


def test_moving_changes_place_alone() -> None:
    index = an_index()
    index.move(1, 9, 128)
    assert index.place(1) == (9, 128)
    assert (index.find(3), index.whole(0, 3)) == (1, (16, 350))


def test_measured_range_equals_sums_of_its_records() -> None:
    chance = random.Random(5)
    for records in (1, 2, 9, 40):
        index = LedgerIndex()
        for _ in range(records):
            index.add(chance.randrange(1, 4), chance.choice([1, 500]), chance.choice([0, 1 << 33]), 1, 64)
        edges = [index.first(item) for item in range(records + 1)]
        for first, last, most in product(
            range(index.entries_total + 2), range(index.entries_total + 1), (1, 4, 8, 128)
        ):
            found = index.between(first, last, most)
            if first > last or first not in edges or last + 1 not in edges:
                assert found is None
                continue
            assert found is not None
            start, stop = edges.index(first), edges.index(last + 1)
            before, cuts = found
            assert before == index.whole(0, start)
            assert cuts.entries == [edges[start + place] for place in (*chosen(stop - start - 1, most), stop - start)]
            places = [edges.index(entry) for entry in cuts.entries]
            assert list(zip(cuts.messages, cuts.bytes, strict=True)) == [index.whole(0, place) for place in places]

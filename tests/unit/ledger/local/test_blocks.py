"""An index whose older items are packed answers as one of plain rows does, and costs a few bytes an item."""

from __future__ import annotations

import random
import sys
from array import array
from bisect import bisect_left
from itertools import accumulate
from typing import Any

import pytest

from magnetar.base.limits import INDEX_PLAIN_ITEMS_MAX
from magnetar.ledger.local.blocks import ITEMS, IndexBlock, Item
from magnetar.ledger.local.index import LOST, LedgerIndex
from magnetar.ledger.local.records import size_of

Row = tuple[int, int, int, int, int]  # entries, messages, body, segment, offset


def uniform(count: int) -> list[Row]:
    """Messages of one size, arriving one by one in a journal of their own."""
    return [(1, 1, 100, 1 + n // 900, 64 + (n % 900) * size_of(1, 100)) for n in range(count)]


def mixed(count: int, chance: random.Random) -> list[Row]:
    """Batches and single messages of any size, records of other ledgers between them, entries lost to damage."""
    rows: list[Row] = []
    segment, offset = 1, 64
    for _ in range(count):
        if chance.random() < 0.01:
            rows.append((chance.randrange(1, 50), 0, 0, LOST, 0))
            continue
        entries = chance.choice([1, 1, 1, 7, 300])
        body = chance.choice([0, 17, 250, 70_000, 5_000_000]) * entries
        rows.append((entries, entries * chance.choice([1, 1, 1000]), body, segment, offset))
        offset += size_of(entries, body) + chance.choice([0, 0, 200, 100_000])
        if offset > 60_000_000:
            segment, offset = segment + chance.randrange(1, 3), 64
    return rows


def index_of(rows: list[Row]) -> LedgerIndex:
    index = LedgerIndex()
    for row in rows:
        index.add(*row)
    return index


SIZES = [1, ITEMS, INDEX_PLAIN_ITEMS_MAX, INDEX_PLAIN_ITEMS_MAX + 1, 2 * INDEX_PLAIN_ITEMS_MAX + 3 * ITEMS + 5]


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("kind", ["uniform", "mixed"])
def test_packed_index_answers_as_plain_rows(kind: str, count: int, sealed: bool) -> None:
    chance = random.Random(count)
    rows = uniform(count) if kind == "uniform" else mixed(count, chance)
    index = index_of(rows)
    if sealed:
        index.pack()
    befores = list(zip(*(accumulate([row[at] for row in rows], initial=0) for at in range(3)), strict=True))
    assert len(index) == count
    assert list(index.items()) == [
        Item(before[0], row[0], row[2], row[3], row[4]) for before, row in zip(befores, rows, strict=False)
    ]
    firsts = [before[0] for before in befores]
    for item in sorted(chance.sample(range(count), min(count, 200))):
        entries = rows[item][0]
        assert index.before(item) == befores[item]
        assert index.first(item) == firsts[item]
        assert (index.entries(item), index.messages(item), index.body(item)) == rows[item][:3]
        assert index.place(item) == rows[item][3:]
        assert index.find(firsts[item]) == index.find(firsts[item] + entries - 1) == item
    assert index.before(count) == befores[count]
    for _ in range(300):
        start, stop = sorted((chance.randrange(count), chance.randrange(count)))
        assert index.whole(start, stop) == (befores[stop][1] - befores[start][1], befores[stop][2] - befores[start][2])
        for column, kinds in ((1, "messages"), (2, "size")):
            wanted = chance.choice(befores)[column] + chance.choice([-1, 0, 1])
            values = [before[column] for before in befores]
            asked: dict[str, Any] = {"messages": None, "size": None, kinds: wanted}
            assert index.reaching(start, stop, **asked) == bisect_left(values, wanted, start + 1, stop + 1)
        between = index.between(firsts[start], firsts[stop + 1] - 1, 8)
        assert between is not None
        assert between[0] == befores[start][1:]
        assert list(zip(*between[1], strict=True))[-1] == befores[stop + 1]
        assert all(cut in befores for cut in zip(*between[1], strict=True))
        if rows[start][0] > 1:
            assert index.between(firsts[start] + 1, firsts[stop + 1] - 1, 8) is None


def test_moved_items_of_packed_blocks_lie_where_they_were_moved() -> None:
    chance = random.Random(3)
    rows = mixed(3 * INDEX_PLAIN_ITEMS_MAX, chance)
    index = index_of(rows)
    places = [row[3:] for row in rows]
    for item in [*chance.sample(range(len(rows)), 700), *range(ITEMS, 3 * ITEMS)]:  # some, then two blocks whole
        places[item] = (90 + item // 1000, 64 + item * 10)
        index.move(item, *places[item])
    assert [(item.segment, item.offset) for item in index.items()] == places
    assert [index.place(item) for item in range(0, len(rows), 7)] == places[::7]


def held(thing: object) -> int:
    """Bytes of an index or block with all it refers to."""
    if isinstance(thing, list | dict):
        values = thing.values() if isinstance(thing, dict) else thing
        return sys.getsizeof(thing) + sum(held(value) for value in values)
    if isinstance(thing, LedgerIndex | IndexBlock):
        return sys.getsizeof(thing) + sum(held(getattr(thing, name)) for name in type(thing).__slots__)
    return sys.getsizeof(thing) if isinstance(thing, array) else 0


@pytest.mark.parametrize(("kind", "bytes_max"), [("uniform", 1), ("varied", 6)])
def test_index_of_single_messages_costs_few_bytes_each(kind: str, bytes_max: float) -> None:
    chance = random.Random(1)
    count = 200_000
    index = LedgerIndex()
    offset = 64
    for _ in range(count):
        body = 100 if kind == "uniform" else chance.randrange(80, 1500)
        index.add(1, 1, body, 1, offset)
        offset += size_of(1, body) + (0 if kind == "uniform" else chance.randrange(0, 30_000))
        offset %= 60_000_000
    index.pack()
    assert held(index) / count < bytes_max

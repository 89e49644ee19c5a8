"""A stretch over many ledgers is counted exactly, whatever the limits and wherever it starts."""

from __future__ import annotations

import asyncio
import random

import pytest

from magnetar.base.ids import Position
from magnetar.ledger.managed import ManagedLedger
from magnetar.ledger.measure import Limits, Measurement, measured
from magnetar.ledger.run import Run, run_of
from tests.unit.ledger.world import World, a_config

pytestmark = pytest.mark.real_clock


async def filled(entries: int, *, per_ledger: int = 7) -> tuple[ManagedLedger, list[tuple[Position, int, int]]]:
    """With every entry's place, messages and bytes."""
    chance = random.Random(entries)
    managed = await World(config=a_config(entries_max=per_ledger)).open()
    facts: list[tuple[Position, int, int]] = []
    while len(facts) < entries:
        some = [f"{len(facts) + index}:{'x' * chance.randrange(9)}".encode() for index in range(chance.randrange(1, 4))]
        counts = [chance.randrange(1, 5) for _ in some]
        run = run_of(some, counts)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def told(run: Run, error: object, done: asyncio.Future[None] = done) -> None:
            done.set_result(None)

        managed.append(run, told)
        await done
        facts += [(run.position(index), counts[index], len(some[index])) for index in range(len(some))]
    return managed, facts


def truth(facts: list[tuple[Position, int, int]], first: int, last: int) -> dict[Position, tuple[int, int]]:
    """What lies before every place where a batch may end."""
    messages = size = 0
    found = {}
    for place, count, body in facts[first : last + 1]:
        messages, size = messages + count, size + body
        found[Position(place.ledger, place.entry + 1)] = messages, size
    return found


def check(found: Measurement, want: dict[Position, tuple[int, int]]) -> None:
    places = [Position(ledger, entry) for ledger, entry in zip(found.ledgers, found.entries, strict=True)]
    assert places == sorted(set(places))
    assert [want[place] for place in places] == list(zip(found.before, found.sizes, strict=True))
    assert (found.messages, found.bytes) == max(want.values())


async def test_marks_and_totals_are_exact_between_any_positions() -> None:
    managed, facts = await filled(60)
    chance = random.Random(1)
    for _ in range(150):
        first = chance.randrange(len(facts))
        last = chance.randrange(first, len(facts))
        limits = Limits(chance.choice([None, 3, 20]), chance.choice([None, 10, 100]), chance.choice([1, 3, 8, 64]))
        found = await measured(managed, facts[first][0], facts[last][0], limits)
        want = truth(facts, first, last)
        check(found, want)
        end_messages, end_bytes = (found.before[-1], found.sizes[-1])
        if limits.messages is None and limits.bytes is None:
            assert (found.before[-1], found.sizes[-1]) == max(want.values())
        elif (found.before[-1], found.sizes[-1]) != max(want.values()):
            messages, size = limits.messages or 10**9, limits.bytes or 10**9
            assert end_messages >= messages or end_bytes >= size


async def test_small_limit_can_be_kept_to_entry() -> None:
    managed, facts = await filled(60, per_ledger=1000)
    found = await measured(managed, facts[0][0], facts[-1][0], Limits(5, None, 64))
    want = [messages for messages, _ in truth(facts, 0, 59).values()]
    assert found.before == [one for one in want if one < 5] + [min(one for one in want if one >= 5)]


async def test_whole_ledgers_are_counted_without_reading_anything() -> None:
    world = World(config=a_config(entries_max=5))
    managed = await world.open()
    await asyncio.gather(*[_published(managed, f"{index}:x") for index in range(50)])
    assert len(managed.chain.links) == 10
    world.ledgers.reads = 0
    found = await measured(managed, managed.first, managed.last, Limits(marks_max=10))
    assert (found.messages, len(found.ledgers), world.ledgers.reads) == (50, 10, 0)


async def _published(managed: ManagedLedger, text: str) -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    managed.append(run_of([text.encode()]), lambda run, error: done.set_result(None))
    await done

"""Who owns a Key_Shared slot: Pulsar's own answers step by step, and what every selector promises."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base import limits
from magnetar.base.errors import ConsumerAssignError
from magnetar.base.hashes import SLOTS
from magnetar.topic.dispatch.key_selectors import AutoSplit, ConsistentRing, Sticky

VECTORS = json.loads((Path(__file__).parents[3] / "vectors" / "key-shared.json").read_text())
OPS = st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.sampled_from(["", "a", "b", "a1"])), max_size=30)


def raw_hash(key: str) -> int:
    return int(mmh3.hash(key.encode(), 0, signed=False))


def selector_of(kind: str) -> AutoSplit[str] | ConsistentRing[str] | Sticky[str]:
    if kind == "auto-split":
        return AutoSplit()
    if kind == "sticky-exclusive":
        return Sticky()
    return ConsistentRing(int(kind.removeprefix("consistent-hashing-")))


def apply(selector: AutoSplit[str] | ConsistentRing[str] | Sticky[str], step: dict[str, Any]) -> None:
    if step["op"] == "remove":
        selector.remove(step["consumer"])
    elif not isinstance(selector, Sticky):
        selector.add(step["consumer"], step["name"])
    elif step["accepted"]:
        selector.add(step["consumer"], [tuple(asked) for asked in step["asked"]])
    else:
        with pytest.raises(ConsumerAssignError):
            selector.add(step["consumer"], [tuple(asked) for asked in step["asked"]])


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: f"{case['scenario']}-{case['selector']}")
def test_ranges_keys_and_slots_are_pulsars_after_every_step(case: dict[str, Any]) -> None:
    selector = selector_of(case["selector"])
    for step in case["steps"]:
        apply(selector, step)
        assert [list(r) for r in selector.ranges()] == step["ranges"]
        for key, consumer in step["selected"].items():
            assert selector.select(selector.slot(raw_hash(key))) == consumer, key
        slots = [slot for slot, _ in step["slots"]]
        assert [[slot, selector.select(slot)] for slot in slots] == step["slots"]
        assert [selector.select(slot) for slot in slots] == [consumer for _, consumer in step["slots"]]


@pytest.mark.parametrize(
    ("key", "split", "ring"),
    [("a", 27058, 42456), ("b", 32259, 37858), ("key-0", 63679, 23544), ("key-1", 5536, 11858), ("hello", 64071, 7892)],
)
def test_slots_of_keys_are_known_ones(key: str, split: int, ring: int) -> None:
    assert AutoSplit[str]().slot(raw_hash(key)) == Sticky[str]().slot(raw_hash(key)) == split
    assert ConsistentRing[str]().slot(raw_hash(key)) == ring


@given(key_hash=st.integers(0, 2**32 - 1))
def test_slot_is_never_zero_and_never_past_end(key_hash: int) -> None:
    assert 1 <= AutoSplit[str]().slot(key_hash) < SLOTS
    assert 1 <= Sticky[str]().slot(key_hash) < SLOTS
    assert 1 <= ConsistentRing[str]().slot(key_hash) < SLOTS


@given(ops=OPS, ring=st.booleans())
def test_every_slot_has_one_present_owner_after_any_history(ops: list[tuple[bool, int, str]], ring: bool) -> None:
    selector: AutoSplit[int] | ConsistentRing[int] = ConsistentRing(5) if ring else AutoSplit()
    present: set[int] = set()
    for join, consumer, name in ops:
        if join and consumer not in present:
            selector.add(consumer, name)
            present.add(consumer)
        elif not join:
            selector.remove(consumer)
            present.discard(consumer)
    edges = [0, 1, 2, 16384, 32767, 32768, 32769, 65534, 65535]
    if not present:
        assert selector.ranges() == []
        assert [selector.select(slot) for slot in edges] == [None] * len(edges)
        return
    ranges = selector.ranges()
    assert [start for start, _, _ in ranges[1:]] == [end + 1 for _, end, _ in ranges[:-1]]
    assert {consumer for _, _, consumer in ranges} <= present
    for start, end, consumer in ranges:
        assert selector.select(start) == selector.select(min(end, SLOTS - 1)) == consumer
    if not ring:
        assert {consumer for _, _, consumer in ranges} == present


@given(names=st.lists(st.text(max_size=3), min_size=2, max_size=6), leave=st.integers(0, 5))
def test_leaver_of_ring_moves_only_its_own_slots(names: list[str], leave: int) -> None:
    selector = ConsistentRing[int](20)
    for consumer, name in enumerate(names):
        selector.add(consumer, name)
    slots = range(1, SLOTS, 97)
    before = [selector.select(slot) for slot in slots]
    leaver = leave % len(names)
    selector.remove(leaver)
    for old, new in zip(before, map(selector.select, slots), strict=True):
        assert new is not None
        assert new != leaver
        assert old == leaver or new == old


def test_repeated_join_is_refused_and_unjoined_leaves_nothing() -> None:
    for selector in (AutoSplit[str](), ConsistentRing[str]()):
        selector.add("a", "a")
        with pytest.raises(ConsumerAssignError):
            selector.add("a", "a")
        before = selector.ranges()
        selector.remove("ghost")
        assert selector.ranges() == before


def test_when_every_slot_is_alone_further_consumer_is_refused() -> None:
    selector = AutoSplit[int](slots=4)
    for consumer in range(4):
        selector.add(consumer)
    with pytest.raises(ConsumerAssignError):
        selector.add(4)
    assert len(selector.ranges()) == 4


def test_more_sticky_ranges_than_slots_are_refused_whole() -> None:
    selector = Sticky[str]()
    with pytest.raises(ConsumerAssignError):
        selector.add("a", [(2 * i, 2 * i) for i in range(limits.STICKY_RANGES_MAX + 1)])
    assert selector.ranges() == []


def test_own_sticky_ranges_that_share_one_slot_are_refused() -> None:
    selector = Sticky[str]()
    with pytest.raises(ConsumerAssignError):
        selector.add("a", [(5, 10), (0, 5)])
    selector.add("a", [(6, 10), (0, 5)])
    assert selector.ranges() == [(0, 10, "a")]


@given(
    asked=st.lists(
        st.tuples(
            st.integers(0, 3), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), min_size=1, max_size=3)
        ),
        max_size=8,
    )
)
def test_sticky_ranges_are_taken_exactly_when_nothing_overlaps(asked: list[tuple[int, list[tuple[int, int]]]]) -> None:
    selector = Sticky[int]()
    owner: dict[int, int] = {}
    for consumer, ranges in asked:
        slots = [slot for start, end in ranges for slot in range(start, end + 1)]
        good = all(s <= e for s, e in ranges) and len(slots) == len(set(slots)) and not owner.keys() & set(slots)
        if good:
            selector.add(consumer, ranges)
            owner.update(dict.fromkeys(slots, consumer))
        else:
            with pytest.raises(ConsumerAssignError):
                selector.add(consumer, ranges)
    assert [selector.select(slot) for slot in range(62)] == [owner.get(slot) for slot in range(62)]

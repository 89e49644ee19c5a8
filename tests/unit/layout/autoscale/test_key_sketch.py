"""The histogram and the heavy hitters of sampled keys, and the places where they divide a range."""

from __future__ import annotations

import itertools
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.limits import SKETCH_CELLS_MAX, SKETCH_SLOTS_MAX
from magnetar.base.ranges import FULL, HashRange
from magnetar.layout.autoscale.key_density import KeyDensity
from magnetar.layout.autoscale.key_sketch import KeySketch
from magnetar.layout.autoscale.load import HotKey, SegmentLoad, key_share
from magnetar.layout.autoscale.weighted_split import isolation_cuts, weighted_cuts


def test_hot_slot_is_found_among_many_keys() -> None:
    sketch, random = KeySketch(FULL), Random(1)
    for _ in range(5_000):
        hot = random.random() < 0.4
        sketch.add(0x1234 if hot else random.randrange(65_536), 1.0, b"busy" if hot else b"other")
    [first, *others] = sketch.hot()
    assert (first.slot, first.key) == (0x1234, "busy")
    assert first.share == pytest.approx(0.4, abs=0.03)
    assert others == []


def test_memory_is_bounded() -> None:
    sketch = KeySketch(FULL)
    for slot in range(65_536):
        sketch.add(slot, 1.0, b"x" * 100)
    assert len(sketch.cells) == SKETCH_CELLS_MAX
    assert len(sketch._counts) == len(sketch._errors) == len(sketch._keys) == SKETCH_SLOTS_MAX


def test_slot_of_another_segment_is_ignored() -> None:
    sketch = KeySketch(HashRange(100, 199))
    for slot in (99, 200, 65_535):
        sketch.add(slot, 1.0, b"")
    assert (sketch.sampled, sum(sketch.cells)) == (0, 0)
    sketch.add(199, 2.0, b"last")
    assert (sketch.cells[-1], sketch.total) == (2.0, 2.0)


def test_decay_forgets_load_that_ended() -> None:
    sketch = KeySketch(HashRange(0, 255))
    for _ in range(100):
        sketch.add(7, 1.0, b"old")
    for _ in range(10):
        sketch.decay()
    for _ in range(100):
        sketch.add(9, 1.0, b"new")
    assert [one.slot for one in sketch.hot()] == [9]


@given(
    st.integers(0, 65_535).flatmap(lambda start: st.tuples(st.just(start), st.integers(start, 65_535))),
    st.integers(2, 8),
    st.lists(st.integers(0, 65_535), max_size=300),
    st.integers(1, 16),
)
def test_weighted_parts_cover_range_and_keep_their_width(
    bounds: tuple[int, int], parts: int, slots: list[int], width_min: int
) -> None:
    whole = HashRange(*bounds)
    if len(whole) < parts * width_min:
        return
    sketch = KeySketch(whole)
    for slot in slots:
        sketch.add(whole.start + slot % len(whole), 1.0, b"")
    load = SegmentLoad(cells=tuple(sketch.cells), hot=sketch.hot(), sampled=sketch.sampled)
    cuts = weighted_cuts(whole, load, parts, width_min=width_min)
    edges = [whole.start, *cuts, whole.end + 1]
    assert len(cuts) == parts - 1
    assert all(upper - lower >= width_min for lower, upper in itertools.pairwise(edges))


@given(st.lists(st.integers(0, 4_095), min_size=50, max_size=500))
def test_weighted_median_halves_sampled_load(slots: list[int]) -> None:
    """Up to the load of one part of the histogram, and of the slots of the sketch."""
    whole = HashRange(0, 4_095)
    sketch = KeySketch(whole)
    for slot in slots:
        sketch.add(slot, 1.0, b"")
    load = SegmentLoad(cells=tuple(sketch.cells), hot=sketch.hot(), sampled=sketch.sampled)
    [at] = weighted_cuts(whole, load, 2, width_min=1)
    lower = sum(slot < at for slot in slots) / len(slots)
    assert abs(lower - 0.5) <= key_share(load) + 0.02


def test_density_has_steps_at_hot_slots() -> None:
    load = SegmentLoad(cells=(1.0, 3.0), hot=(HotKey(75, 0.5),))
    density = KeyDensity(HashRange(0, 99), load)
    assert density.below(0) == 0
    assert density.below(50) == pytest.approx(0.25)
    assert density.below(76) - density.below(75) > 0.5
    assert density.below(100) == pytest.approx(1)


@pytest.mark.parametrize(("whole", "cuts"), [((0, 9), (5, 6)), ((5, 9), (6,)), ((0, 5), (5,)), ((5, 5), ())], ids=str)
def test_hot_slot_is_cut_out(whole: tuple[int, int], cuts: tuple[int, ...]) -> None:
    assert isolation_cuts(HashRange(*whole), 5) == cuts

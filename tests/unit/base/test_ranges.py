"""Hash ranges split, merge and print as the released Java code does."""

from __future__ import annotations

import pytest

from magnetar.base.errors import InvalidRange
from magnetar.base.ranges import FULL, HashRange, slot_from_hex
from tests.support.golden_vectors import load

VECTORS = load("names.json")


@pytest.mark.parametrize("case", VECTORS["hash_ranges"], ids=lambda case: case["hex"])
def test_ranges(case):
    range = HashRange(case["start"], case["end"])
    assert (len(range), range.hex, str(range)) == (case["size"], case["hex"], case["text"])
    if "split_error" in case:
        with pytest.raises(InvalidRange):
            range.split()
    else:
        assert [[half.start, half.end] for half in range.split()] == case["split"]
        assert range.split()[0].merge(range.split()[1]) == range


@pytest.mark.parametrize("case", VECTORS["hash_range_merges"], ids=lambda case: str((case["a"], case["b"])))
def test_merges(case):
    one, other = HashRange(*case["a"]), HashRange(*case["b"])
    assert one.adjacent(other) == case["adjacent"]
    assert (one > other) - (one < other) == case["compare"]
    if "error" in case:
        with pytest.raises(InvalidRange):
            one.merge(other)
    else:
        assert one.merge(other) == HashRange(*case["merged"])


def parsed(text: str) -> HashRange:
    """As a segment's name contains it."""
    start, dash, end = text.partition("-")
    if not dash:
        raise InvalidRange("no dash", text=text)
    return HashRange(slot_from_hex(start), slot_from_hex(end))


@pytest.mark.parametrize("case", VECTORS["hash_range_from_hex"], ids=lambda case: case["input"])
def test_ranges_from_hex(case):
    if "error" in case:
        with pytest.raises(InvalidRange):
            parsed(case["input"])
    else:
        assert parsed(case["input"]) == HashRange(case["start"], case["end"])


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (0, 65536), (5, 4), (65536, 65536)])
def test_what_is_no_range_is_refused(start, end):
    with pytest.raises(InvalidRange):
        HashRange(start, end)


def test_both_ends_belong_to_range():
    lower, upper = FULL.split()
    assert 0 in lower
    assert 0x7FFF in lower
    assert 0x8000 not in lower
    assert not lower.overlaps(upper)
    assert lower.overlaps(HashRange(0x7FFF, 0x8000))

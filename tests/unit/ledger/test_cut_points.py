"""Where a batch may end: few places, the last always among them, and close together where small batches end."""

from __future__ import annotations

from itertools import pairwise

import pytest

from magnetar.ledger.cut_points import CutPoints, CutRequest, chosen, of_run, reached, within
from magnetar.ledger.run import run_of


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 100, 10_000])
@pytest.mark.parametrize("most", [1, 2, 4, 8, 128])
def test_few_are_chosen_and_last_is_always_among_them(count: int, most: int) -> None:
    found = chosen(count, most)
    assert found == tuple(sorted(set(found)))
    assert found[0] >= 1
    assert found[-1] == count
    assert len(found) <= max(2, most)


def test_many_cut_points_are_told_with_growing_distance() -> None:
    found = chosen(10_000, 64)
    assert found[:4] == (1, 2, 3, 4)
    assert max(after - before for before, after in pairwise(found)) <= 10_000 // 32 + 1


def test_cuts_end_with_first_that_reaches_limit() -> None:
    counts, sizes = [1, 2, 3, 4], [10, 10, 10, 10]
    assert within(counts, sizes, 5, (100, 1000), CutRequest(None, None, 9)) == CutPoints(
        [6, 7, 8, 9], [101, 103, 106, 110], [1010, 1020, 1030, 1040]
    )
    assert within(counts, sizes, 5, (100, 1000), CutRequest(103, None, 9)) == CutPoints(
        [6, 7], [101, 103], [1010, 1020]
    )
    assert within(counts, sizes, 5, (100, 1000), CutRequest(None, 1021, 9)).entries == [6, 7, 8]
    assert within([], [], 5, (0, 0), CutRequest(1, None, 9)) == CutPoints([], [], [])
    assert reached(CutPoints([1], [5], [0]), CutRequest(5, None, 1))
    assert not reached(CutPoints([1], [5], [10**9]), CutRequest(6, None, 1))


def test_run_is_cut_between_its_entries() -> None:
    run = run_of([b"a", b"bb", b"ccc"], [1, 5, 1])
    run.ledger, run.first = 3, 40
    assert of_run(run, (7, 70), CutRequest(None, None, 9)) == CutPoints([41, 42, 43], [8, 13, 14], [71, 73, 76])

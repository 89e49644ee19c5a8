"""Places with counts: exact always, thin where there are many, never without the first and the last."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from magnetar.base.limits import COUNT_PLACES_MAX
from magnetar.ledger.bookkeeper.engine.count_index import CountIndex
from magnetar.ledger.cut_points import CutRequest


def messages_at(place: int) -> int:
    return place * 2


def bytes_at(place: int) -> int:
    return place * 100


def an_index(*places: int) -> CountIndex:
    index = CountIndex()
    for place in places:
        index.learn(place, messages_at(place), bytes_at(place))
    return index


def known(index: CountIndex, end: int) -> list[int]:
    return [place for place in range(end + 1) if index.find(place) is not None]


def test_empty_index_knows_its_beginning() -> None:
    index = CountIndex()
    assert index.find(0) == (0, 0)
    assert index.find(1) is None
    assert index.cuts(0, 5, CutRequest(None, None, 8)) == ([], [], [])


def test_places_are_found_in_any_order_of_learning() -> None:
    index = an_index(9, 3, 6, 3)
    assert known(index, 12) == [0, 3, 6, 9]
    assert index.find(6) == (12, 600)
    assert index.below(8) == (6, 12, 600)
    assert index.below(9) == (9, 18, 900)


def test_place_with_other_counts_is_bug() -> None:
    with pytest.raises(AssertionError, match="counts in one way"):
        an_index(4).learn(4, 9, 9)


@pytest.mark.parametrize("run", [1, 3, 700])
def test_many_runs_keep_bounded_number_of_exact_places(run: int) -> None:
    index = CountIndex()
    for number in range(1, 5_001):
        place = number * run
        index.append(place, messages_at(place), bytes_at(place))
        assert index.find(place) == (messages_at(place), bytes_at(place))
    assert COUNT_PLACES_MAX // 4 < len(index) <= COUNT_PLACES_MAX
    places = [place for place in range(0, 5_000 * run + 1, run) if index.find(place) is not None]
    assert all(index.find(place) == (messages_at(place), bytes_at(place)) for place in places)
    assert places[0] == 0
    assert places[-1] == 5_000 * run
    distances = [later - earlier for earlier, later in pairwise(places)]
    assert max(distances) <= 64 * run  # evenly spread


def test_learning_at_random_keeps_order_and_bound() -> None:
    rng, index = random.Random(3), CountIndex()
    for _ in range(5_000):
        place = rng.randrange(100_000)
        index.learn(place, messages_at(place), bytes_at(place))
        assert len(index) <= COUNT_PLACES_MAX
    cuts = index.cuts(0, 100_000, CutRequest(None, None, 10_000))
    assert cuts.entries == sorted(set(cuts.entries))
    assert cuts.messages == [messages_at(place) for place in cuts.entries]
    assert cuts.bytes == [bytes_at(place) for place in cuts.entries]


def test_cuts_end_with_first_place_that_reaches_limit() -> None:
    index = an_index(2, 4, 6, 8, 10)
    assert index.cuts(2, 10, CutRequest(None, None, 9)).entries == [4, 6, 8, 10]
    assert index.cuts(0, 10, CutRequest(11, None, 9)).entries == [2, 4, 6]
    assert index.cuts(0, 10, CutRequest(12, None, 9)).entries == [2, 4, 6]
    assert index.cuts(0, 10, CutRequest(None, 601, 9)).entries == [2, 4, 6, 8]
    assert index.cuts(0, 10, CutRequest(12, 300, 9)).entries == [2, 4]
    assert index.cuts(0, 9, CutRequest(99, None, 9)).entries == [2, 4, 6, 8]
    assert index.cuts(0, 10, CutRequest(None, None, 2)).entries[-1] == 10


def test_gap_surrounds_limit_with_known_places() -> None:
    index = an_index(10, 20, 30)
    assert index.gap(0, 30, CutRequest(25, None, 1)) == (10, 20, 1_000)
    assert index.gap(15, 30, CutRequest(35, None, 1)) == (15, 20, 1_000)
    assert index.gap(0, 30, CutRequest(None, 100, 1)) == (0, 10, 1_000)
    assert index.gap(0, 30, CutRequest(61, None, 1)) == (30, 30, 0)
    assert index.gap(0, 30, CutRequest(None, None, 1)) == (30, 30, 0)


def test_missing_places_are_spread_and_none_once_known() -> None:
    index = an_index(100)
    missing = index.missing(0, 100, 8)
    assert 3 <= len(missing) <= 8
    assert all(0 < place < 100 for place in missing)
    for place in missing:
        index.learn(place, messages_at(place), bytes_at(place))
    assert index.missing(0, 100, 8) == []
    assert index.missing(0, 100, 4) == []
    assert index.missing(99, 100, 8) == []

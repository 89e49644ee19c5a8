"""What is handed out and not acknowledged: the highest id up to a stamp, whatever was delivered again or taken away."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.consumer.scalable.stream.unacked import COMPACT_MIN, Outstanding


def filled(*ids: int) -> Outstanding[int]:
    made: Outstanding[int] = Outstanding()
    for stamp, id in enumerate(ids, 1):
        made.append(stamp, id)
    return made


def test_highest_id_up_to_stamp_is_not_of_later_ones():
    made = filled(3, 5, 9)
    assert [made.highest(stamp) for stamp in (0, 1, 2, 3, 4)] == [None, 3, 5, 9, 9]


def test_highest_id_taken_away_counts_no_more():
    made = filled(9, 4, 5, 6, 12)
    assert made.take_until(1) == [9]
    assert [made.highest(stamp) for stamp in (1, 2, 3, 4, 5)] == [None, 4, 5, 6, 12]
    assert len(made) == 4


def test_long_history_that_was_taken_away_is_not_kept():
    made: Outstanding[int] = Outstanding()
    for stamp in range(4 * COMPACT_MIN):
        made.append(stamp, stamp)
        made.take_until(stamp - 1)
    assert (len(made), made.highest(4 * COMPACT_MIN)) == (1, 4 * COMPACT_MIN - 1)
    assert len(made._stamps) <= COMPACT_MIN + 1


class Counted(int):
    """Counts how often it is compared, by whichever operator."""

    compared = 0

    def __lt__(self, other: Any) -> bool:
        Counted.compared += 1
        return int.__lt__(self, other)

    def __le__(self, other: Any) -> bool:
        Counted.compared += 1
        return int.__le__(self, other)

    def __gt__(self, other: Any) -> bool:
        Counted.compared += 1
        return int.__gt__(self, other)

    def __ge__(self, other: Any) -> bool:
        Counted.compared += 1
        return int.__ge__(self, other)


def test_highest_id_costs_same_however_much_is_out():
    """H-R5: the id of every message of a long backlog was read in quadratic time."""
    made: Outstanding[Counted] = Outstanding()
    for stamp in range(10_000):
        made.append(Counted(stamp), Counted(stamp))
    Counted.compared = 0
    assert [made.highest(Counted(stamp)) for stamp in (5, 5_000, 9_999)] == [5, 5_000, 9_999]
    assert Counted.compared <= 3 * 15, "a binary search of 10,000 compares 14 times"


@given(st.lists(st.one_of(st.integers(0, 30), st.tuples(st.just("until"), st.integers(0, 40)), st.just("newest"))))
def test_any_history_gives_what_plain_list_gives(steps):
    made: Outstanding[int] = Outstanding()
    plain: list[tuple[int, int]] = []
    stamp = 0
    for step in steps:
        if isinstance(step, int):
            stamp += 1
            made.append(stamp, step)
            plain.append((stamp, step))
        elif step == "newest":
            made.remove_newest(stamp)
            plain = [one for one in plain if one[0] != stamp]
        else:
            taken = [id for at, id in plain if at <= step[1]]
            assert made.take_until(step[1]) == taken
            plain = [one for one in plain if one[0] > step[1]]
        assert list(made) == plain
        assert made.newest == (plain[-1][1] if plain else None)
        for until in range(stamp + 2):
            assert made.highest(until) == max((id for at, id in plain if at <= until), default=None)
    made.remove([7, 8])
    plain = [one for one in plain if one[1] not in (7, 8)]
    assert list(made) == plain
    made.remove_up_to(15)
    assert list(made) == [one for one in plain if one[1] > 15]

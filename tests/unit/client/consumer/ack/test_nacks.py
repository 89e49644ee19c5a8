"""Negative acknowledgements come due in the order of their waits, once for each entry, never early."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import Misuse
from magnetar.base.limits import NACK_STEP_S
from magnetar.client.consumer.ack.nacks import NackBackoff, Nacks


def test_wait_doubles_up_to_its_bound():
    backoff = NackBackoff(first_s=1, max_s=10)
    assert [backoff.delay_s(count) for count in range(6)] == [1, 2, 4, 8, 10, 10]
    assert backoff.delay_s(1 << 40) == 10


@pytest.mark.parametrize("wrong", [{"first_s": -1}, {"first_s": 5, "max_s": 1}, {"factor": 0.5}])
def test_wait_that_shrinks_is_refused(wrong):
    with pytest.raises(Misuse):
        NackBackoff(**wrong)


def test_one_entry_is_asked_for_once_at_its_earliest_time():
    nacks = Nacks(NackBackoff(first_s=1, max_s=100))
    nacks.add((1, 1), 3, now=0)
    nacks.add((1, 1), 0, now=0)
    nacks.add((1, 1), 5, now=0)
    assert nacks.next_due() == 1
    assert nacks.take_due(1) == [(1, 1)]
    assert nacks.take_due(1000) == []
    assert nacks.next_due() is None


def test_acknowledgement_after_all_takes_it_back():
    nacks = Nacks(NackBackoff(first_s=1, max_s=1))
    nacks.add((1, 1), 0, now=0)
    nacks.remove((1, 1))
    assert nacks.next_due() is None
    assert nacks.take_due(100) == []


@given(
    st.lists(st.tuples(st.sampled_from(["add", "remove", "tick"]), st.integers(0, 9), st.integers(0, 4)), max_size=80)
)
def test_everything_comes_due_in_time_and_only_once(events):
    nacks = Nacks(NackBackoff(first_s=1, max_s=4))
    due: dict[tuple[int, int], float] = {}
    now = 0.0
    for kind, entry, count in events:
        position = (1, entry)
        if kind == "add":
            nacks.add(position, count, now)
            due[position] = min(due.get(position, 1e9), now + min(4, 2**count))
        elif kind == "remove":
            nacks.remove(position)
            due.pop(position, None)
        else:
            now += count
            found = nacks.take_due(now)
            assert found == sorted(position for position, at in due.items() if at <= now + NACK_STEP_S)
            for position in found:
                del due[position]
        assert len(nacks) == len(due)
        assert nacks.next_due() == (min(due.values()) if due else None)

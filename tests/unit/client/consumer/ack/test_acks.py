"""Acknowledgements in groups and in parts of batches: never more than was acknowledged, and all of it in the end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.client.consumer.ack.acks import AckTracker, all_bits, bits, words

P = (3, 7)


def taken(acks: AckTracker, ids_max: int = 1000) -> tuple[object, list[tuple[int, int, list[int]]]]:
    cumulative, groups = acks.take(ids_max)
    return cumulative, [item for group in groups for item in group]


def test_single_entry_is_sent_once():
    acks = AckTracker(batch_index=False)
    acks.whole(P)
    acks.whole(P)
    assert len(acks) == 1
    assert taken(acks) == (None, [(3, 7, [])])
    assert len(acks) == 0
    assert taken(acks) == (None, [])


def test_batch_is_acknowledged_when_last_of_it_is():
    acks = AckTracker(batch_index=False)
    for index in (2, 0):
        acks.individual(P, index, 3, all_bits(3))
        assert taken(acks) == (None, [])
    acks.individual(P, 1, 3, all_bits(3))
    assert taken(acks) == (None, [(3, 7, [])])


def test_with_batch_index_each_part_is_sent_and_then_whole():
    acks = AckTracker(batch_index=True)
    acks.individual(P, 0, 5, all_bits(5))
    assert taken(acks) == (None, [(3, 7, [0b11110])])
    acks.individual(P, 3, 5, all_bits(5))
    acks.individual(P, 1, 5, all_bits(5))
    assert taken(acks) == (None, [(3, 7, [0b10100])])
    acks.individual(P, 2, 5, all_bits(5))
    acks.individual(P, 4, 5, all_bits(5))
    assert taken(acks) == (None, [(3, 7, [])])


def test_what_was_acknowledged_before_redelivery_stays_acknowledged():
    acks = AckTracker(batch_index=False)
    acks.individual(P, 0, 4, all_bits(4))
    acks.individual(P, 2, 4, all_bits(4))
    assert acks.remaining(P, all_bits(4)) == 0b1010
    acks.individual(P, 1, 4, 0b1010)
    acks.individual(P, 3, 4, 0b1010)
    assert taken(acks) == (None, [(3, 7, [])])


def test_groups_are_cut_at_their_bound():
    acks = AckTracker(batch_index=False)
    for entry in range(25):
        acks.whole((1, entry))
    _, groups = acks.take(10)
    assert [len(group) for group in groups] == [10, 10, 5]


def test_cumulative_keeps_highest_and_covers_what_is_below():
    acks = AckTracker(batch_index=False)
    acks.whole((1, 4))
    acks.whole((1, 9))
    acks.cumulative((1, 6), -1, 0, 0)
    acks.cumulative((1, 5), -1, 0, 0)
    assert taken(acks) == ((1, 6, []), [(1, 9, [])])


def test_cumulative_inside_batch_acknowledges_what_stands_before_it():
    acks = AckTracker(batch_index=False)
    acks.cumulative((1, 6), 1, 4, all_bits(4))
    assert taken(acks) == ((1, 5, []), [])
    acks.cumulative((1, 6), 3, 4, all_bits(4))
    assert taken(acks) == ((1, 6, []), [])


def test_cumulative_inside_first_entry_of_ledger_says_nothing_wrong():
    acks = AckTracker(batch_index=False)
    acks.cumulative((8, 0), 1, 4, all_bits(4))
    assert taken(acks) == (None, [])


def test_cumulative_inside_batch_with_batch_index_sends_rest():
    acks = AckTracker(batch_index=True)
    acks.cumulative((1, 0), 1, 4, all_bits(4))
    assert taken(acks) == ((1, 0, [0b1100]), [])


def test_pending_acknowledgement_marks_entry_as_duplicate():
    acks = AckTracker(batch_index=False)
    acks.whole(P)
    acks.cumulative((2, 5), -1, 0, 0)
    assert acks.duplicate(P)
    assert acks.duplicate((2, 5))
    assert acks.duplicate((1, 9))
    assert not acks.duplicate((2, 6))
    acks.take(10)
    assert not acks.duplicate(P)
    assert not acks.duplicate((2, 5))


def test_receipt_that_failed_is_sent_again():
    acks = AckTracker(batch_index=True)
    acks.whole((1, 1))
    acks.individual((1, 2), 0, 3, all_bits(3))
    acks.cumulative((1, 0), -1, 0, 0)
    cumulative, groups = acks.take(10)
    acks.individual((1, 2), 1, 3, all_bits(3))
    acks.restore(cumulative, groups)
    assert taken(acks) == ((1, 0, []), [(1, 2, [0b100]), (1, 1, [])])


def test_restored_part_of_forgotten_batch_does_not_become_whole():
    acks = AckTracker(batch_index=True)
    acks.individual(P, 0, 3, all_bits(3))
    cumulative, groups = acks.take(10)
    acks.forget()
    acks.restore(cumulative, groups)
    assert taken(acks) == (None, [])


def test_hidden_messages_count_as_acknowledged():
    acks = AckTracker(batch_index=False)
    acks.hide(P, 0b1100)
    assert acks.remaining(P, all_bits(4)) == 0b1100
    acks.individual(P, 2, 4, 0b1100)
    acks.individual(P, 3, 4, 0b1100)
    assert taken(acks) == (None, [(3, 7, [])])


@given(st.integers(0, (1 << 200) - 1))
def test_words_carry_all_bits_both_ways(value):
    found = words(value, 4)
    assert len(found) == 4
    assert all(-(1 << 63) <= word < 1 << 63 for word in found)
    assert bits(found, 256) == value


def test_missing_words_are_acknowledged_and_spare_bits_do_not_count():
    assert bits([0b101], 130) == 0b101
    assert bits([-1, -1], 70) == all_bits(70)


@given(
    batch_index=st.booleans(),
    sizes=st.lists(st.integers(1, 130), min_size=1, max_size=4),
    events=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 129), st.booleans()), max_size=60),
)
def test_broker_knows_exactly_what_was_acknowledged(batch_index, sizes, events):
    """Bits as the broker keeps them (AND) against a plain set of what was acknowledged, over any order and flushing."""
    acks = AckTracker(batch_index=batch_index)
    truth = [all_bits(size) for size in sizes]
    broker = [all_bits(size) for size in sizes]

    def flush():
        for _, entry, set_words in taken(acks)[1]:
            broker[entry] &= bits(set_words, sizes[entry]) if set_words else 0
            assert broker[entry] & truth[entry] == truth[entry], "acknowledged what nobody acknowledged"

    for which, index, flush_now in events:
        entry = which % len(sizes)
        index %= sizes[entry]
        if truth[entry] >> index & 1:  # a message is acknowledged while its delivery is open
            acks.individual((1, entry), index, sizes[entry], all_bits(sizes[entry]))
            truth[entry] &= ~(1 << index)
        if flush_now:
            flush()
    flush()
    for entry in range(len(sizes)):
        if batch_index or not truth[entry]:
            assert broker[entry] == truth[entry]
        else:
            assert broker[entry] == all_bits(sizes[entry])

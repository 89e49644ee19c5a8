"""A sink's record, step by step: what each call changes, what it leaves alone, and what it refuses."""

from __future__ import annotations

import msgspec
import pytest

from magnetar.base.errors import Busy, LimitExceeded, Misuse, Refused, StageNotFound
from magnetar.base.limits import BATCHES_PUBLISHING_MAX, SINK_STAGES_MAX
from magnetar.txn import staged
from magnetar.txn.staged import Already, Begun, Committed, Sink

EMPTY = Sink(topic="persistent://t/n/x", name="s", life="00000000")


def begun(sink: Sink, batch: int = 0, run: str = "") -> tuple[Sink, int]:
    sink, outcome = staged.begin(sink, batch, run=run, now_ms=10, lease_ms=100)
    assert isinstance(outcome, Begun)
    return sink, outcome.number


def ready(sink: Sink, batch: int, *messages: int, run: str = "") -> tuple[Sink, tuple[int, ...]]:
    numbers = []
    for count in messages:
        sink, number = begun(sink, batch, run)
        sink = staged.seal(sink, number, count, now_ms=10)
        numbers.append(number)
    return sink, tuple(numbers)


def committed(sink: Sink, batch: int, *messages: int, run: str = "") -> Sink:
    sink, numbers = ready(sink, batch, *messages, run=run)
    sink, outcome = staged.commit(sink, batch, numbers, partitions=0, now_ms=10)
    assert outcome == Committed()
    return sink


def test_a_number_is_never_issued_twice() -> None:
    sink, first = begun(EMPTY)
    sink = staged.drop(sink, (first,), now_ms=10)
    sink, second = begun(sink)
    assert second != first


def test_a_commit_chooses_the_named_stages_and_drops_the_others() -> None:
    sink, (one, two) = ready(EMPTY, 3, 5, 7)
    sink, late = begun(sink, 3)
    sink, next_batch = begun(sink, 4)
    sink, _ = staged.commit(sink, 3, (two, one), partitions=2, now_ms=10)
    assert sink.last == 3
    assert [(one.number, one.lane, one.first, one.messages, one.partitions) for one in sink.chosen] == [
        (one, 0, 0, 5, 2),
        (two, 1, 0, 7, 2),
    ]
    assert sink.dropped == (late,)
    assert [stage.number for stage in sink.stages] == [next_batch]
    assert sink.lanes[:2] == (5, 7)


def test_sequence_ids_of_a_lane_go_on_over_batches() -> None:
    sink = committed(committed(EMPTY, 0, 5), 1, 3)
    assert [(one.first, one.messages) for one in sink.chosen] == [(0, 5), (5, 3)]


def test_a_batch_is_committed_once() -> None:
    sink = committed(EMPTY, 2, 1)
    same = staged.commit(sink, 2, (0,), partitions=0, now_ms=20)
    assert same == (sink, Already())
    after, others = staged.commit(sink, 2, (9,), partitions=0, now_ms=20)
    assert after == sink
    assert isinstance(others, Already)
    assert "sinkId" in others.warning
    assert staged.begin(sink, 2, run="", now_ms=20, lease_ms=1) == (sink, Already())


def test_a_batch_that_is_long_past_is_told_as_a_copied_checkpoint() -> None:
    _, outcome = staged.begin(committed(EMPTY, 7, 1), 3, run="", now_ms=20, lease_ms=1)
    assert isinstance(outcome, Already)
    assert "copied" in outcome.warning


def test_a_restart_that_repeats_the_last_batch_has_nothing_to_write() -> None:
    sink = committed(committed(EMPTY, 0, 1, run="query/first"), 1, 1, run="query/first")
    for run in ("query/first", "query/second", "second"):  # the twin of a task, a restart, one that says no query
        assert staged.begin(sink, 1, run=run, now_ms=20, lease_ms=1) == (sink, Already())


def test_a_new_checkpoint_with_an_old_sink_is_refused_where_its_rows_would_be_left_out() -> None:
    sink = committed(EMPTY, 0, 1, run="old/first")
    with pytest.raises(Refused, match=r"another checkpoint.*option sinkId.*option checkpointLocation"):
        staged.begin(sink, 0, run="new/first", now_ms=20, lease_ms=1)
    assert isinstance(staged.begin(sink, 1, run="new/first", now_ms=20, lease_ms=1)[1], Begun)


@pytest.mark.parametrize("run", ["query/second", "run"])
def test_a_query_that_asks_for_a_batch_before_the_last_is_refused(run: str) -> None:
    sink = committed(committed(EMPTY, 0, 1, run="query/first"), 1, 1, run="query/first")
    with pytest.raises(Refused, match=r"batch 0 .* the last one is 1.*option sinkId"):
        staged.begin(sink, 0, run=run, now_ms=20, lease_ms=1)


def test_a_batch_without_rows_changes_nobody_and_rows_that_come_after_it_are_told() -> None:
    sink = committed(EMPTY, 0, 1, run="query/first")
    sink, _ = staged.commit(sink, 1, (), partitions=0, now_ms=20)
    with pytest.raises(Refused):
        staged.begin(sink, 1, run="other/first", now_ms=20, lease_ms=1)
    _, outcome = staged.begin(sink, 1, run="query/second", now_ms=20, lease_ms=1)
    assert isinstance(outcome, Already)
    assert "without rows" in outcome.warning


def test_two_queries_that_take_turns_are_told_so() -> None:
    sink, _ = begun(EMPTY, run="a")
    sink, outcome = staged.begin(sink, 0, run="b", now_ms=10, lease_ms=1)
    assert outcome == Begun(1)
    _, outcome = staged.begin(sink, 0, run="a", now_ms=10, lease_ms=1)
    assert isinstance(outcome, Begun)
    assert "two queries" in outcome.warning


def test_what_is_not_sealed_or_of_another_batch_is_not_chosen() -> None:
    sink, number = begun(EMPTY, 1)
    with pytest.raises(Refused, match="not sealed"):
        staged.commit(sink, 1, (number,), partitions=0, now_ms=10)
    sink = staged.seal(sink, number, 1, now_ms=10)
    with pytest.raises(Refused, match="belongs to batch 1"):
        staged.commit(sink, 2, (number,), partitions=0, now_ms=10)
    with pytest.raises(StageNotFound):
        staged.commit(sink, 1, (number, 99), partitions=0, now_ms=10)
    with pytest.raises(Misuse):
        staged.commit(sink, -1, (), partitions=0, now_ms=10)


def test_an_abort_after_the_commit_changes_nothing() -> None:
    sink = committed(EMPTY, 0, 4)
    assert staged.drop(sink, (0,), now_ms=20) == sink
    assert staged.expire(sink, now_ms=1 << 60) == sink


def test_a_lease_ends_what_nobody_chose_and_a_renewal_keeps_the_whole_batch() -> None:
    sink, (waiting,) = ready(EMPTY, 0, 4)
    sink, writing = begun(sink, 0)
    sink, other = begun(sink, 1)
    sink = staged.renew(sink, writing, now_ms=100, lease_ms=100)
    assert staged.expire(sink, now_ms=110).dropped == (other,)
    assert staged.expire(sink, now_ms=200).dropped == (waiting, writing, other)
    with pytest.raises(StageNotFound):
        staged.seal(staged.expire(sink, now_ms=200), writing, 1, now_ms=200)


def test_progress_only_grows_and_the_last_message_ends_the_stage() -> None:
    sink = committed(EMPTY, 0, 4)
    sink = staged.published(sink, 0, 3, now_ms=10)
    assert staged.published(sink, 0, 2, now_ms=10) == sink
    sink = staged.published(sink, 0, 4, now_ms=10)
    assert (sink.chosen, sink.dropped) == ((), (0,))
    assert staged.works(sink, now_ms=10)
    assert not staged.works(staged.deleted(sink, (0,), now_ms=10), now_ms=10)


def test_a_batch_waits_for_the_one_before_it() -> None:
    sink = committed(committed(EMPTY, 0, *(1,) * 6), 1, 1)
    assert [one.number for one in staged.due(sink)] == [0, 1, 2, 3]
    for number in range(6):
        assert all(one.batch == 0 for one in staged.due(sink))
        sink = staged.published(sink, number, 1, now_ms=10)
    assert [one.batch for one in staged.due(sink)] == [1]


def test_a_commit_waits_while_too_many_batches_are_published() -> None:
    sink = EMPTY
    for batch in range(BATCHES_PUBLISHING_MAX):
        sink = committed(sink, batch, 1)
    sink, numbers = ready(sink, 99, 1)
    with pytest.raises(Busy):
        staged.commit(sink, 99, numbers, partitions=0, now_ms=10)
    sink = staged.published(sink, 0, 1, now_ms=10)
    assert staged.commit(sink, 99, numbers, partitions=0, now_ms=10)[1] == Committed()


def test_empty_stages_are_not_published() -> None:
    sink = committed(EMPTY, 0, 0, 2)
    assert ([one.number for one in sink.chosen], sink.dropped) == ([1], (0,))


def test_there_are_only_so_many_stages() -> None:
    stages = tuple(staged.Stage(number, 0, 1) for number in range(SINK_STAGES_MAX))
    full = msgspec.structs.replace(EMPTY, stages=stages, issued=SINK_STAGES_MAX)
    with pytest.raises(LimitExceeded):
        staged.begin(full, 0, run="", now_ms=1, lease_ms=1)


def test_topics_may_exist_for_what_is_listed_and_not_for_what_was_dropped() -> None:
    sink, (chosen, dropped) = ready(EMPTY, 0, 1, 1)
    sink, _ = staged.commit(sink, 0, (chosen,), partitions=0, now_ms=10)
    sink, written = begun(sink, 1)
    assert [staged.lists(sink, number) for number in (chosen, dropped, written, 99)] == [True, False, True, False]

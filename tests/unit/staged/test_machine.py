"""A sink's record, step by step: what each call changes, what it leaves alone, and what it refuses."""

from __future__ import annotations

import msgspec
import pytest

from magnetar.base.errors import Busy, LimitExceeded, Misuse, Refused, StageNotFound
from magnetar.base.limits import BATCHES_PUBLISHING_MAX, SINK_STAGES_MAX
from magnetar.staged import machine
from magnetar.staged.machine import AlreadyCommitted, Committed, Sink, StageBegun

EMPTY = Sink(topic="persistent://t/n/x", name="s", life="00000000")


def begun(sink: Sink, batch: int = 0, run: str = "") -> tuple[Sink, int]:
    sink, outcome = machine.begin(sink, batch, run=run, now_ms=10, lease_ms=100)
    assert isinstance(outcome, StageBegun)
    return sink, outcome.number


def ready(sink: Sink, batch: int, *messages: int, run: str = "") -> tuple[Sink, tuple[int, ...]]:
    numbers = []
    for count in messages:
        sink, number = begun(sink, batch, run)
        sink = machine.seal(sink, number, count, now_ms=10)
        numbers.append(number)
    return sink, tuple(numbers)


def committed(sink: Sink, batch: int, *messages: int, run: str = "") -> Sink:
    sink, numbers = ready(sink, batch, *messages, run=run)
    sink, outcome = machine.commit(sink, batch, numbers, partitions=0, now_ms=10)
    assert outcome == Committed()
    return sink


def test_number_is_never_issued_twice() -> None:
    sink, first = begun(EMPTY)
    sink = machine.drop(sink, (first,), now_ms=10)
    sink, second = begun(sink)
    assert second != first


def test_commit_chooses_named_stages_and_drops_others() -> None:
    sink, (one, two) = ready(EMPTY, 3, 5, 7)
    sink, late = begun(sink, 3)
    sink, next_batch = begun(sink, 4)
    sink, _ = machine.commit(sink, 3, (two, one), partitions=2, now_ms=10)
    assert sink.last == 3
    assert [(one.number, one.producer, one.first, one.messages, one.partitions) for one in sink.chosen] == [
        (one, 0, 0, 5, 2),
        (two, 1, 0, 7, 2),
    ]
    assert sink.dropped == (late,)
    assert [stage.number for stage in sink.stages] == [next_batch]
    assert sink.sequences[:2] == (5, 7)


def test_sequence_ids_of_lane_go_on_over_batches() -> None:
    sink = committed(committed(EMPTY, 0, 5), 1, 3)
    assert [(one.first, one.messages) for one in sink.chosen] == [(0, 5), (5, 3)]


def test_batch_is_committed_once() -> None:
    sink = committed(EMPTY, 2, 1)
    same = machine.commit(sink, 2, (0,), partitions=0, now_ms=20)
    assert same == (sink, AlreadyCommitted())
    after, others = machine.commit(sink, 2, (9,), partitions=0, now_ms=20)
    assert after == sink
    assert isinstance(others, AlreadyCommitted)
    assert "sinkId" in others.warning
    assert machine.begin(sink, 2, run="", now_ms=20, lease_ms=1) == (sink, AlreadyCommitted())


def test_batch_that_is_long_past_is_told_as_copied_checkpoint() -> None:
    _, outcome = machine.begin(committed(EMPTY, 7, 1), 3, run="", now_ms=20, lease_ms=1)
    assert isinstance(outcome, AlreadyCommitted)
    assert "copied" in outcome.warning


def test_restart_that_repeats_last_batch_has_nothing_to_write() -> None:
    sink = committed(committed(EMPTY, 0, 1, run="query/first"), 1, 1, run="query/first")
    for run in ("query/first", "query/second", "second"):  # the twin of a task, a restart, one that says no query
        assert machine.begin(sink, 1, run=run, now_ms=20, lease_ms=1) == (sink, AlreadyCommitted())


def test_new_checkpoint_with_old_sink_is_refused_before_loss() -> None:
    sink = committed(EMPTY, 0, 1, run="old/first")
    with pytest.raises(Refused, match=r"another checkpoint.*option sinkId.*option checkpointLocation"):
        machine.begin(sink, 0, run="new/first", now_ms=20, lease_ms=1)
    assert isinstance(machine.begin(sink, 1, run="new/first", now_ms=20, lease_ms=1)[1], StageBegun)


@pytest.mark.parametrize("run", ["query/second", "run"])
def test_query_that_asks_for_batch_before_last_is_refused(run: str) -> None:
    sink = committed(committed(EMPTY, 0, 1, run="query/first"), 1, 1, run="query/first")
    with pytest.raises(Refused, match=r"batch 0 .* the last one is 1.*option sinkId"):
        machine.begin(sink, 0, run=run, now_ms=20, lease_ms=1)


def test_empty_batch_changes_nothing_and_later_rows_are_reported() -> None:
    sink = committed(EMPTY, 0, 1, run="query/first")
    sink, _ = machine.commit(sink, 1, (), partitions=0, now_ms=20)
    with pytest.raises(Refused):
        machine.begin(sink, 1, run="other/first", now_ms=20, lease_ms=1)
    _, outcome = machine.begin(sink, 1, run="query/second", now_ms=20, lease_ms=1)
    assert isinstance(outcome, AlreadyCommitted)
    assert "without rows" in outcome.warning


def test_two_queries_that_take_turns_are_told_so() -> None:
    sink, _ = begun(EMPTY, run="a")
    sink, outcome = machine.begin(sink, 0, run="b", now_ms=10, lease_ms=1)
    assert outcome == StageBegun(1)
    _, outcome = machine.begin(sink, 0, run="a", now_ms=10, lease_ms=1)
    assert isinstance(outcome, StageBegun)
    assert "two queries" in outcome.warning


def test_unsealed_or_foreign_stage_is_not_chosen() -> None:
    sink, number = begun(EMPTY, 1)
    with pytest.raises(Refused, match="not sealed"):
        machine.commit(sink, 1, (number,), partitions=0, now_ms=10)
    sink = machine.seal(sink, number, 1, now_ms=10)
    with pytest.raises(Refused, match="belongs to batch 1"):
        machine.commit(sink, 2, (number,), partitions=0, now_ms=10)
    with pytest.raises(StageNotFound):
        machine.commit(sink, 1, (number, 99), partitions=0, now_ms=10)
    with pytest.raises(Misuse):
        machine.commit(sink, -1, (), partitions=0, now_ms=10)


def test_abort_after_commit_changes_nothing() -> None:
    sink = committed(EMPTY, 0, 4)
    assert machine.drop(sink, (0,), now_ms=20) == sink
    assert machine.expire(sink, now_ms=1 << 60) == sink


def test_lease_ends_what_nobody_chose_and_renewal_keeps_whole_batch() -> None:
    sink, (waiting,) = ready(EMPTY, 0, 4)
    sink, writing = begun(sink, 0)
    sink, other = begun(sink, 1)
    sink = machine.renew(sink, writing, now_ms=100, lease_ms=100)
    assert machine.expire(sink, now_ms=110).dropped == (other,)
    assert machine.expire(sink, now_ms=200).dropped == (waiting, writing, other)
    with pytest.raises(StageNotFound):
        machine.seal(machine.expire(sink, now_ms=200), writing, 1, now_ms=200)


def test_progress_only_grows_and_last_message_ends_stage() -> None:
    sink = committed(EMPTY, 0, 4)
    sink = machine.published(sink, 0, 3, now_ms=10)
    assert machine.published(sink, 0, 2, now_ms=10) == sink
    sink = machine.published(sink, 0, 4, now_ms=10)
    assert (sink.chosen, sink.dropped) == ((), (0,))
    assert machine.works(sink, now_ms=10)
    assert not machine.works(machine.deleted(sink, (0,), now_ms=10), now_ms=10)


def test_batch_waits_for_one_before_it() -> None:
    sink = committed(committed(EMPTY, 0, *(1,) * 6), 1, 1)
    assert [one.number for one in machine.due(sink)] == [0, 1, 2, 3]
    for number in range(6):
        assert all(one.batch == 0 for one in machine.due(sink))
        sink = machine.published(sink, number, 1, now_ms=10)
    assert [one.batch for one in machine.due(sink)] == [1]


def test_commit_waits_while_too_many_batches_are_published() -> None:
    sink = EMPTY
    for batch in range(BATCHES_PUBLISHING_MAX):
        sink = committed(sink, batch, 1)
    sink, numbers = ready(sink, 99, 1)
    with pytest.raises(Busy):
        machine.commit(sink, 99, numbers, partitions=0, now_ms=10)
    sink = machine.published(sink, 0, 1, now_ms=10)
    assert machine.commit(sink, 99, numbers, partitions=0, now_ms=10)[1] == Committed()


def test_empty_stages_are_not_published() -> None:
    sink = committed(EMPTY, 0, 0, 2)
    assert ([one.number for one in sink.chosen], sink.dropped) == ([1], (0,))


def test_there_are_only_so_many_stages() -> None:
    stages = tuple(machine.Stage(number, 0, 1) for number in range(SINK_STAGES_MAX))
    full = msgspec.structs.replace(EMPTY, stages=stages, issued=SINK_STAGES_MAX)
    with pytest.raises(LimitExceeded):
        machine.begin(full, 0, run="", now_ms=1, lease_ms=1)


def test_topics_may_exist_for_listed_and_not_dropped_stages() -> None:
    sink, (chosen, dropped) = ready(EMPTY, 0, 1, 1)
    sink, _ = machine.commit(sink, 0, (chosen,), partitions=0, now_ms=10)
    sink, written = begun(sink, 1)
    assert [machine.lists(sink, number) for number in (chosen, dropped, written, 99)] == [True, False, True, False]

"""The promises of a batch, over worlds that reshape between plan and read; and planners that break one are caught."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from magnetar.base.errors import MagnetarError, Misuse, NotReady
from magnetar.layout import layout as layouts
from magnetar.spark.frontier import DONE, START, Frontier, RowPosition, parse
from magnetar.spark.planner import Balance, DataLost, KeyOrder, Limits, Rules, initial, plan, snapshot
from magnetar.spark.stretch import Mark, Stretch
from magnetar.spark.tasks import Task, tasks
from tests.unit.spark.world import Query, a_script, a_topic, act, limits, ordered, scripts

balances = st.sampled_from(Balance)
orders = st.sampled_from(KeyOrder)
steps = st.integers(1, 4)


def promises(moves, segments, rules, limit, step) -> Query:
    query = Query(a_topic(segments, step), rules, limit)
    act(query, moves)
    query.drain()
    assert query.seen == {row.number for row in query.topic.published}, "a row was lost"
    query.replay()
    return query


@given(scripts, st.integers(1, 4), orders, balances, limits, steps)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
def test_every_row_once_in_order_and_again_the_same_whatever_is_reshaped(moves, segments, order, balance, limit, step):
    promises(moves, segments, Rules(order, balance), limit, step)


@pytest.mark.slow
@pytest.mark.parametrize("order", KeyOrder)
@pytest.mark.parametrize("balance", Balance)
def test_every_row_once_in_order_over_hundreds_of_long_worlds(order, balance):
    for seed in range(100):
        limit = Limits([None, 1, 3, 10, 30][seed % 5], [None, 10, 100, 300][seed % 4])
        promises(a_script(seed, moves=120), 1 + seed % 5, Rules(order, balance), limit, 1 + seed % 3)


# Broken planners


def without_filter(start, end, layout, *, rules):
    return tuple(
        Task(tuple(replace(piece, keys=None) for piece in task.pieces))
        for task in tasks(start, end, layout, rules=rules)
    )


def children_do_not_wait(start, layout, stretches, limit, *, rules):
    return plan(start, layout, stretches, limit, rules=replace(rules, key_order=KeyOrder.RELAXED))


def a_task_for_each_segment(start, end, layout, *, rules):
    return tasks(start, end, layout, rules=replace(rules, key_order=KeyOrder.RELAXED))


def youngest_first(start, end, layout, *, rules):
    return tuple(Task(task.pieces[::-1]) for task in tasks(start, end, layout, rules=rules))


def strays_for_nobody(start, end, layout, *, rules):
    return tuple(
        Task(tuple(replace(piece, strays=False) for piece in task.pieces))
        for task in tasks(start, end, layout, rules=rules)
    )


def strays_for_all(start, end, layout, *, rules):
    return tuple(
        Task(tuple(replace(piece, strays=True) for piece in task.pieces))
        for task in tasks(start, end, layout, rules=rules)
    )


def the_layout_says_sealed(start, layout, stretches, limit, *, rules):
    believed = {
        id: replace(one, sealed=one.sealed or (id in layout and not layout.segment(id).is_active))
        for id, one in stretches.items()
    }
    return plan(start, layout, believed, limit, rules=rules)


def done_is_forgotten(start, layout, stretches, limit, *, rules):
    end = plan(start, layout, stretches, limit, rules=rules)
    return replace(end, places={id: place for id, place in end.places.items() if place != DONE})


def limits_do_not_count(start, layout, stretches, limit, *, rules):
    return plan(start, layout, stretches, rules=rules)


def children_open_at_their_end(start, layout, stretches, limit, *, rules):
    end = plan(start, layout, stretches, limit, rules=rules)
    late = {id: stretches[id].end for id, place in end.places.items() if place == START and id in stretches}
    return replace(end, places={**end.places, **late})


@pytest.mark.parametrize(
    "broken",
    [
        {"tasks": without_filter},
        {"plan": children_do_not_wait},
        {"tasks": a_task_for_each_segment},
        {"tasks": youngest_first},
        {"tasks": strays_for_nobody},
        {"tasks": strays_for_all},
        {"plan": the_layout_says_sealed},
        {"plan": done_is_forgotten},
        {"plan": limits_do_not_count},
        {"plan": children_open_at_their_end},
        {},
    ],
    ids=lambda broken: next((made.__name__ for made in broken.values()), "the true one"),
)
def test_a_broken_planner_breaks_a_promise_that_is_seen(broken):
    caught = 0
    for seed in range(12):
        query = Query(a_topic(2, step=1 + seed % 3), Rules(), Limits(7), **broken)
        try:
            act(query, a_script(seed))
            query.drain()
            assert query.seen == {row.number for row in query.topic.published}
            query.replay()
        except (AssertionError, MagnetarError):
            caught += 1
            break
    assert caught == len(broken)


# Single promises


@given(scripts, st.integers(1, 3), limits)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_behind_a_barrier_no_segment_is_read_twice(moves, segments, limit):
    query = promises(moves, segments, Rules(KeyOrder.BARRIER), limit, 1)
    for _, _, planned, _ in query.batches:
        pieces = [piece for task in planned for piece in task.pieces if query.topic.read(piece)]
        assert len({piece.segment for piece in pieces}) == len(pieces)


@given(scripts, st.integers(1, 3), ordered, limits, steps)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_by_time_no_segment_runs_ahead_of_another(moves, segments, order, limit, step):
    query = Query(a_topic(segments, step), Rules(order, Balance.TIME), limit)
    act(query, moves)
    more = True
    while more:
        start, stretches = query.at, query.topic.stretches(query.at)
        more = query.batch()
        taken, waiting = [0], []
        for id in start.places.keys() & stretches.keys():
            marks, end = stretches[id].marks, query.at.places.get(id, DONE)
            ages = list(accumulate((mark.publish_ms for mark in marks), max))
            taken += [age for age, mark in zip(ages, marks, strict=True) if mark.place <= end]
            waiting += [age for age, mark in zip(ages, marks, strict=True) if mark.place > end]
        assert not waiting or max(taken) <= min(waiting)


@given(scripts, scripts, st.integers(1, 3), orders, balances, limits, steps)
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_available_now_reads_what_there_was_and_ends(moves, later, segments, order, balance, limit, step):
    query = Query(a_topic(segments, step), Rules(order, balance), limit)
    act(query, moves)
    before = {row.number for row in query.topic.published}
    frozen = snapshot(query.at, query.topic.layout, query.topic.stretches(query.at), rules=query.rules)

    def frozen_plan(start, layout, stretches, limit, *, rules):
        return frozen.plan(start, stretches, limit, rules=rules)

    query.plan = frozen_plan
    act(query, [move for move in later if move[0] != "prune"])
    query.drain()
    assert query.seen == before
    query.plan = plan
    query.drain()
    assert query.seen == {row.number for row in query.topic.published}


# Losses


@given(scripts, st.lists(st.integers(0, 10_000), max_size=4), st.integers(1, 3), orders, limits)
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_a_query_that_goes_on_writes_what_it_skipped_and_its_replay_does_not_ask_for_it(
    moves, trims, segments, order, limit
):
    query = Query(a_topic(segments), Rules(order, fail_on_data_loss=False), limit)
    act(query, moves)
    for number in trims:
        query.topic.trim(number)
        query.batch()
    done = len(query.batches)
    query.drain()
    query.batches = query.batches[done:]
    query.replay()
    gone = {row.number for log in query.topic.logs.values() for row in log.rows[: log.kept]}
    assert {row.number for row in query.topic.published} - query.seen <= gone


# By hand

ONE = layouts.initial(1, now_ms=0)
TWO = layouts.initial(2, now_ms=0)
SPLIT = ONE.split(0, now_ms=0)  # 0 -> 1, 2
MERGED = TWO.merge([0, 1], now_ms=0)  # 0, 1 -> 2


def at(entry: int, row: int = 0) -> RowPosition:
    return RowPosition(7, entry, row)


def stretch(first: int, last: int, *, weight: int = 1, ms: int = 100, **facts) -> Stretch:
    """Entries of `weight` messages, each of ten bytes."""
    marks = (
        Mark(at(entry + 1), (entry + 1 - first) * weight, (entry + 1 - first) * weight * 10, ms + entry)
        for entry in range(first, last)
    )
    return Stretch(at(first), tuple(marks), **facts)


def standing(places: dict, epoch: int = 0) -> Frontier:
    return Frontier(epoch, places)


def test_where_nothing_can_be_read_the_answer_is_the_start_itself():
    start = replace(standing({0: at(4)}), origin={0: START}, gaps={0: (at(1), at(2))})
    assert plan(start, ONE, {0: stretch(4, 4)}) is start
    assert plan(start, ONE, {}) is start


def test_an_epoch_that_rose_and_a_split_without_messages_make_no_batch():
    start = standing({0: at(4)})
    assert plan(start, SPLIT.raised(), {0: stretch(4, 4, sealed=True), 1: stretch(0, 0), 2: stretch(0, 0)}) is start


def test_messages_behind_empty_generations_are_found():
    deep = SPLIT.split(1, now_ms=0)  # 0 -> 1, 2; 1 -> 3, 4
    over = {0: stretch(4, 4, sealed=True), 1: Stretch(START, sealed=True)}
    for order in KeyOrder:
        end = plan(standing({0: at(4)}), deep, {**over, 4: stretch(0, 2)}, rules=Rules(order))
        assert end == Frontier(2, {2: START, 3: START, 4: at(2)})


def test_the_first_batch_says_where_it_started_even_if_it_is_empty():
    begun = initial(ONE, {0: at(4)}, topic="topic://a/b/c", life=3)
    assert begun.initial
    first = plan(begun, ONE, {0: stretch(4, 4)})
    assert first == Frontier(0, {0: at(4)}, origin={0: at(4)}, life=3, topic="topic://a/b/c")
    assert plan(first, ONE, {0: stretch(4, 4)}) is first
    more = plan(begun, ONE, {0: stretch(4, 6)})
    assert (more.origin, more.places, more.initial) == ({0: at(4)}, {0: at(6)}, False)
    assert plan(more, ONE, {0: stretch(6, 7)}) == Frontier(0, {0: at(7)}, life=3, topic="topic://a/b/c")


@pytest.mark.parametrize(
    ("layout", "found", "places"),
    [
        (MERGED, {}, {0: START, 1: START}),  # earliest
        (MERGED, {0: DONE, 1: DONE, 2: at(9)}, {2: at(9)}),  # latest
        (MERGED, {0: DONE, 1: at(5), 2: START}, {0: DONE, 1: at(5)}),  # a time
        (SPLIT, {0: DONE, 1: at(1), 2: START}, {1: at(1), 2: START}),
        (layouts.migrated(["a", "b"], now_ms=0), {0: at(3), 1: DONE}, {0: at(3), 1: DONE}),
    ],
)
def test_a_start_opens_nothing_behind_what_is_not_done(layout, found, places):
    assert initial(layout, found) == Frontier(layout.epoch, places, initial=True)


def test_a_start_behind_the_end_of_an_active_segment_is_refused():
    with pytest.raises(Misuse, match="no end yet"):
        initial(ONE, {0: DONE})


def test_a_merge_waits_for_its_other_parent():
    read = {0: stretch(4, 6, sealed=True), 1: stretch(0, 9), 2: stretch(0, 3)}
    waits = plan(standing({0: at(4), 1: at(0)}), MERGED, read, Limits(7))
    assert waits.places[0] == DONE
    assert 2 not in waits.places
    through = plan(standing({0: DONE, 1: at(0)}), MERGED, {**read, 1: stretch(0, 9, sealed=True)})
    assert through.places == {2: at(3)}


def test_shares_go_by_backlog():
    end = plan(standing({0: at(0), 1: at(0)}), TWO, {0: stretch(0, 90), 1: stretch(0, 10)}, Limits(50))
    assert end.places == {0: at(45), 1: at(5)}
    end = plan(standing({0: at(0), 1: at(0)}), TWO, {0: stretch(0, 90), 1: stretch(0, 10)}, Limits(None, 500))
    assert end.places == {0: at(45), 1: at(5)}


def test_an_entry_heavier_than_the_limit_moves_all_the_same():
    heavy = {0: stretch(0, 3, weight=1000)}
    for limit in (Limits(10), Limits(None, 10), Limits(1, 1)):
        for balance in Balance:
            end = plan(standing({0: at(0)}), ONE, heavy, limit, rules=Rules(balance=balance))
            assert end.places == {0: at(1)}


def test_a_small_old_backlog_of_heavy_entries_does_not_starve_beside_a_large_one():
    read = {0: stretch(0, 1, weight=50, ms=1), 1: stretch(0, 2_000)}
    assert plan(standing({0: at(0), 1: at(0)}), TWO, read, Limits(60)).places == {0: at(1), 1: at(10)}


def test_entries_without_messages_do_not_hold_the_rest_up():
    empty = Stretch(at(0), tuple(Mark(at(entry + 1), 0, 0, 1) for entry in range(5)), sealed=True)
    end = plan(standing({0: at(0)}), SPLIT, {0: empty, 1: stretch(0, 2, weight=9)}, Limits(5))
    assert end.places == {1: at(1), 2: START}


def test_with_too_few_messages_there_is_no_batch_yet():
    start = standing({0: at(0)})
    assert plan(start, ONE, {0: stretch(0, 9)}, Limits(messages_min=10)) is start
    assert plan(start, ONE, {0: stretch(0, 10)}, Limits(messages_min=10)).places == {0: at(10)}


def test_a_layout_older_than_the_offset_is_not_planned_on():
    with pytest.raises(NotReady, match="older than the offset"):
        plan(standing({1: at(0), 2: at(0)}, epoch=1), ONE, {0: stretch(0, 9)})


def test_an_offset_that_does_not_fit_the_topic_is_refused():
    with pytest.raises(Misuse, match="does not fit"):
        plan(standing({0: at(0)}), TWO, {})


def test_lost_messages_stop_the_query_and_the_error_says_what_to_do():
    for start, layout, read in (
        (standing({0: at(2)}), ONE, {0: stretch(5, 9, lost=True)}),
        (standing({0: at(2)}), SPLIT.removed(0), {1: stretch(0, 1)}),
        (standing({0: at(4)}), SPLIT, {0: stretch(4, 4, sealed=True), 1: stretch(5, 9, lost=True)}),
        (standing({0: at(4)}), SPLIT.pruning([0]), {0: stretch(4, 9)}),
    ):
        with pytest.raises(DataLost, match="failOnDataLoss"):
            plan(start, layout, read)


GO_ON = Rules(fail_on_data_loss=False)


def test_a_gap_is_written_into_the_offset_even_if_nothing_can_be_read():
    gap = plan(standing({0: at(2)}), ONE, {0: stretch(5, 5, lost=True)}, rules=GO_ON)
    assert gap == Frontier(0, {0: at(5)}, gaps={0: (at(2), at(5))})
    assert parse(gap.text) == gap
    assert plan(gap, ONE, {0: stretch(5, 5)}, rules=GO_ON) is gap
    assert plan(gap, ONE, {0: stretch(5, 6)}, rules=GO_ON) == Frontier(0, {0: at(6)})


def test_behind_a_segment_that_is_gone_its_children_are_read_from_their_start():
    gone = SPLIT.removed(0)
    end = plan(standing({0: at(2)}), gone, {1: stretch(0, 3), 2: stretch(0, 1)}, rules=GO_ON)
    assert end == Frontier(2, {1: at(3), 2: at(1)}, gaps={0: (at(2), DONE)})


def test_a_parent_that_is_done_and_gone_is_no_loss():
    removed = MERGED.removed(0)
    waits = standing({0: DONE, 1: at(0)}, epoch=1)
    end = plan(waits, removed, {1: stretch(0, 3)}, Limits(2))
    assert end == Frontier(2, {0: DONE, 1: at(2)})
    end = plan(end, removed, {1: stretch(2, 3, sealed=True), 2: stretch(0, 1)})
    assert end == Frontier(2, {2: at(1)})


def test_behind_a_barrier_children_wait_for_the_next_batch():
    read = {0: stretch(4, 6, sealed=True), 1: stretch(0, 3)}
    held = plan(standing({0: at(4)}), SPLIT, read, rules=Rules(KeyOrder.BARRIER))
    assert held == Frontier(1, {0: DONE})
    assert plan(held, SPLIT, read, rules=Rules(KeyOrder.BARRIER)) == Frontier(1, {1: at(3), 2: START})


def test_a_seal_that_the_layout_does_not_know_yet_is_remembered_until_the_children_are_there():
    ended = plan(standing({0: at(4)}), ONE, {0: stretch(4, 6, sealed=True)})
    assert ended == Frontier(0, {0: DONE})
    assert plan(ended, SPLIT, {1: stretch(0, 3)}) == Frontier(1, {1: at(3), 2: START})


def test_a_segment_with_nothing_but_empty_entries_does_not_hold_a_heavy_one_up():
    empty = Stretch(at(0), tuple(Mark(at(entry + 1), 0, 0, 1) for entry in range(5)))
    end = plan(standing({0: at(0), 1: at(0)}), TWO, {0: empty, 1: stretch(0, 2, weight=9)}, Limits(5))
    assert end.places == {0: at(5), 1: at(1)}

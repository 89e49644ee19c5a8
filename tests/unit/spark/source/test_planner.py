"""The promises of a batch, over worlds that reshape between plan and read; and planners that break one are caught."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from magnetar.layout.readable_range import DONE
from magnetar.spark.source.batch_limits import Limits
from magnetar.spark.source.planner import Balance, KeyOrder, Rules, plan, snapshot
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
def test_rows_are_read_once_in_order_and_replayed_equally(moves, segments, order, balance, limit, step):
    promises(moves, segments, Rules(order, balance), limit, step)


@pytest.mark.slow
@pytest.mark.parametrize("order", KeyOrder)
@pytest.mark.parametrize("balance", Balance)
def test_every_row_once_in_order_over_hundreds_of_long_worlds(order, balance):
    for seed in range(40):
        limit = Limits([None, 1, 3, 10, 30][seed % 5], [None, 10, 100, 300][seed % 4])
        promises(a_script(seed, moves=120), 1 + seed % 5, Rules(order, balance), limit, 1 + seed % 3)


# Single promises


@given(scripts, st.integers(1, 3), limits)
@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
def test_behind_barrier_no_segment_is_read_twice(moves, segments, limit):
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
def test_skipped_loss_is_stored_and_not_read_in_replay(moves, trims, segments, order, limit):
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

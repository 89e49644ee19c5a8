"""Planners and tasks that break a promise, each caught by the checks that the true ones pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.errors import MagnetarError
from magnetar.layout.readable_range import DONE, START
from magnetar.spark.source.batch_limits import Limits
from magnetar.spark.source.planner import KeyOrder, Rules, plan
from magnetar.spark.source.tasks import Task, tasks
from tests.unit.spark.world import Query, a_script, a_topic, act


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


def buckets_are_not_looked_at(start, end, layout, *, rules):
    return tuple(
        Task(tuple(replace(piece, bucket=None) for piece in task.pieces))
        for task in tasks(start, end, layout, rules=rules)
    )


def the_last_bucket_is_left_out(start, end, layout, *, rules):
    found = tasks(start, end, layout, rules=rules)
    return tuple(one for one in found if one.pieces[0].bucket is None or one.pieces[0].bucket.end < 0xFFFF)


def only_the_youngest_piece_has_its_bucket(start, end, layout, *, rules):
    return tuple(
        Task((*(replace(piece, bucket=None) for piece in task.pieces[:-1]), task.pieces[-1]))
        for task in tasks(start, end, layout, rules=rules)
    )


def cuts_of_equal_shares_in_order(start, end, layout, *, rules):
    """Cut by places although keys have an order."""
    found = tasks(start, end, layout, rules=replace(rules, key_order=KeyOrder.RELAXED))
    return tuple(found)


def cuts_are_read_twice(start, end, layout, *, rules):
    found = tasks(start, end, layout, rules=rules)
    ends = {one.pieces[0].segment: one.pieces[0].end for one in found}
    return tuple(Task((replace(one.pieces[0], end=ends[one.pieces[0].segment]),)) for one in found)


def cuts_are_forgotten_by_a_replay(start, layout, stretches, limit, *, rules):
    return replace(plan(start, layout, stretches, limit, rules=rules), cuts={})


def tried(rules: Rules, **broken: object) -> tuple[bool, int]:
    """Whether a promise was broken; and the most tasks that a batch had."""
    most = 0
    for seed in range(12):
        query = Query(a_topic(2, step=1 + seed % 3, buckets=4), rules, Limits(9), **broken)
        try:
            act(query, a_script(seed))
            query.drain()
            assert query.seen == {row.number for row in query.topic.published}
            query.replay()
        except (AssertionError, MagnetarError):
            return True, most
        most = max([most, *(len(planned) for _, _, planned, _ in query.batches)])
    return False, most


ORDERED, RELAXED = Rules(partitions_min=16), Rules(KeyOrder.RELAXED, partitions_min=16)


@pytest.mark.parametrize(
    ("rules", "broken"),
    [
        (ORDERED, {"tasks": buckets_are_not_looked_at}),
        (ORDERED, {"tasks": the_last_bucket_is_left_out}),
        (ORDERED, {"tasks": only_the_youngest_piece_has_its_bucket}),
        (ORDERED, {"tasks": cuts_of_equal_shares_in_order}),
        (RELAXED, {"tasks": cuts_are_read_twice}),
    ],
)
def test_broken_cut_into_tasks_breaks_promise_that_is_seen(rules, broken):
    assert tried(rules, **broken)[0]


@pytest.mark.parametrize("rules", [ORDERED, replace(ORDERED, key_order=KeyOrder.BARRIER), RELAXED])
def test_more_tasks_are_made_and_every_promise_is_kept(rules):
    caught, most = tried(rules)
    assert not caught
    assert most >= 4


def test_tasks_of_relaxed_order_come_from_offset_alone():
    assert tried(RELAXED, plan=cuts_are_forgotten_by_a_replay) == (False, tried(Rules(KeyOrder.RELAXED))[1])
    assert tried(RELAXED)[1] > tried(Rules(KeyOrder.RELAXED))[1]


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
def test_broken_planner_breaks_promise_that_is_seen(broken):
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

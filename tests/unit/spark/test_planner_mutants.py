"""Planners and tasks that break a promise, each caught by the checks that the true ones pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.errors import MagnetarError
from magnetar.layout.stretch import DONE, START
from magnetar.spark.planner import KeyOrder, Limits, Rules, plan
from magnetar.spark.tasks import Task, tasks
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

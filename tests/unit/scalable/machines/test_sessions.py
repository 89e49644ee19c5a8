"""Consumers come, go and come back; the late end of an old connection harms nobody."""

from __future__ import annotations

import pytest

from magnetar.scalable.machines.sessions import (
    ArmGrace,
    Departed,
    Disconnected,
    GraceExpired,
    PushPlan,
    Reassign,
    Registered,
    Sessions,
    StoreMembers,
    Supersede,
    restore,
    step,
)
from magnetar.scalable.record.subscription import Member

GRACE = 60_000


def joined(*names: str) -> Sessions:
    state = Sessions()
    for name in names:
        state, _ = step(state, Registered(name, f"connection of {name}", 0))
    return state


def test_new_name_is_stored_before_anything_moves():
    state, effects = step(Sessions(), Registered("a", "c1", 0))
    assert effects == (StoreMembers((Member("a", 1),)), Reassign())
    assert state.members == ("a",)


def test_disconnected_consumer_keeps_its_place_for_grace_period():
    state, effects = step(joined("a"), Disconnected("a", 1, 5))
    assert effects == (ArmGrace("a", 1, 5 + GRACE),)
    assert state.members == ("a",)
    assert step(state, GraceExpired("a", 1, 4 + GRACE)) == (state, ())
    state, effects = step(state, GraceExpired("a", 1, 5 + GRACE))
    assert effects == (StoreMembers(()), Reassign())


def test_timely_return_disturbs_nobody_and_cancels_timer():
    state, _ = step(joined("a", "b"), Disconnected("a", 1, 5))
    state, effects = step(state, Registered("a", "c2", 10))
    assert effects == (StoreMembers((Member("a", 3), Member("b", 2))), PushPlan("a"))
    assert step(state, GraceExpired("a", 1, 5 + GRACE)) == (state, ())


def test_late_end_of_old_connection_keeps_new_one_h_f7():
    state, _ = step(joined("a"), Registered("a", "c2", 10))
    assert step(state, Disconnected("a", 1, 11)) == (state, ())


def test_newest_consumer_of_equal_name_wins_h_f9():
    _state, effects = step(joined("a"), Registered("a", "c2", 10))
    assert Supersede("a", "connection of a", 2) in effects


def test_registering_again_on_same_connection_supersedes_nobody():
    _, effects = step(joined("a"), Registered("a", "connection of a", 10))
    assert not [one for one in effects if isinstance(one, Supersede)]


def test_registration_of_dead_connection_is_not_kept_h_f8():
    state, effects = step(Sessions(), Registered("a", "c1", 5, connected=False))
    assert ArmGrace("a", 1, 5 + GRACE) in effects
    state, _ = step(state, GraceExpired("a", 1, 5 + GRACE))
    assert state.members == ()


@pytest.mark.parametrize("generation", [1, 0])
def test_leaving_takes_effect_immediately_for_that_consumer_only(generation):
    state, effects = step(joined("a", "b"), Departed("a", generation))
    assert state.members == (("b",) if generation == 1 else ("a", "b"))
    assert (effects == ()) == (generation == 0)


def test_generation_is_not_reused_for_returning_name():
    state, _ = step(joined("a"), Departed("a", 1))
    state, _ = step(state, Registered("a", "c2", 1))
    assert step(state, Disconnected("a", 1, 2)) == (state, ())


def test_new_controller_gives_everybody_fresh_grace_h_f11():
    state, effects = restore((Member("a", 3), Member("b", 2)), now_ms=100)
    assert effects == (ArmGrace("a", 3, 100 + GRACE), ArmGrace("b", 2, 100 + GRACE))
    state, effects = step(state, Registered("a", "c1", 150))
    assert effects == (StoreMembers((Member("a", 4), Member("b", 2))), PushPlan("a"))
    state, _ = step(state, GraceExpired("b", 2, 100 + GRACE))
    assert state.members == ("a",)


def test_session_goes_on_under_new_leader_and_nobody_is_disturbed():
    state, _ = restore((Member("a", 3), Member("b", 4)), now_ms=0)
    state, effects = step(state, Registered("a", "c1", 10, resume=3))
    assert effects == (PushPlan("a"),)
    assert step(state, GraceExpired("a", 3, GRACE)) == (state, ())
    state, _ = step(state, Registered("new", "c2", 11))
    assert state.generation == 5


@pytest.mark.parametrize(("name", "resume"), [("a", 2), ("left", 3)], ids=["taken over", "left"])
def test_ended_session_is_not_restarted_by_late_request(name, resume):
    state, _ = restore((Member("a", 3),), now_ms=0)
    assert step(state, Registered(name, "c1", 10, resume=resume)) == (state, ())


def test_returning_consumer_with_buckets_is_stored_and_planned_again():
    state, _ = step(Sessions(), Registered("a", "c1", 0))
    assert state.sharing == frozenset()
    state, effects = step(state, Registered("a", "c1", 0, shares=True))
    assert effects == (StoreMembers((Member("a", 2, shares=True),)), Reassign(), PushPlan("a"))
    assert state.sharing == {"a"}
    state, effects = step(state, Registered("a", "c1", 0, resume=2, shares=True))
    assert effects == (PushPlan("a"),)
    state, _ = restore((Member("a", 2, shares=True), Member("b", 1)), now_ms=0)
    assert state.sharing == {"a"}  # known to the next leader before it comes back

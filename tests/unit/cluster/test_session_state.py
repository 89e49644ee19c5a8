"""What may be begun, by what was heard of the session."""

from __future__ import annotations

import pytest

from magnetar.cluster.session_state import (
    Effect,
    SessionDecider,
    SessionPolicy,
    SessionState,
    ShutDown,
    TryAgain,
    after,
)
from magnetar.metadata.store import Session as S


@pytest.mark.parametrize(
    ("heard", "standing"),
    [
        ([], SessionState.HERE),
        ([S.CONNECTION_LOST], SessionState.AWAY),
        ([S.CONNECTION_LOST, S.RECONNECTED], SessionState.HERE),
        ([S.CONNECTION_LOST, S.LOST], SessionState.GONE),
        ([S.CONNECTION_LOST, S.LOST, S.RECONNECTED], SessionState.GONE),  # connected, but the session is another one
        ([S.CONNECTION_LOST, S.LOST, S.CONNECTION_LOST], SessionState.GONE),
        ([S.CONNECTION_LOST, S.LOST, S.RECONNECTED, S.REESTABLISHED], SessionState.HERE),
        ([S.LOST, S.REESTABLISHED, S.CONNECTION_LOST], SessionState.AWAY),
    ],
)
def test_only_another_session_ends_lost_one(heard: list[S], standing: SessionState) -> None:
    found = SessionState.HERE
    for event in heard:
        found = after(found, event)
    assert found is standing


def test_attempts_are_growing_time_apart_and_then_end() -> None:
    decider = SessionDecider(SessionPolicy.RECONNECT, 10)
    effects: list[Effect | None] = [decider.heard(S.LOST)]
    while isinstance(effects[-1], TryAgain):
        effects.append(decider.attempt_failed())
        decider.validate()
    waits = [effect.wait_s for effect in effects if isinstance(effect, TryAgain)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60]
    assert isinstance(effects[-1], ShutDown)
    assert decider.attempt_failed() is None


def test_new_session_forgets_failed_attempts() -> None:
    decider = SessionDecider(SessionPolicy.RECONNECT, 2)
    decider.heard(S.LOST)
    decider.attempt_failed()
    assert decider.heard(S.RECONNECTED) is None
    assert decider.heard(S.REESTABLISHED) is None
    assert decider.attempt_failed() is None
    assert decider.heard(S.LOST) == TryAgain(1, 1.0)
    decider.validate()


def test_lost_connection_alone_has_no_effect() -> None:
    for policy in SessionPolicy:
        decider = SessionDecider(policy, 1)
        assert decider.heard(S.CONNECTION_LOST) is None
        assert decider.heard(S.RECONNECTED) is None
        assert not decider.ended


def test_policy_shutdown_makes_no_attempt() -> None:
    decider = SessionDecider(SessionPolicy.SHUTDOWN, 10)
    assert isinstance(decider.heard(S.LOST), ShutDown)
    assert decider.heard(S.LOST) is None

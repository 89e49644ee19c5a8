"""What may be begun, by what was heard of the session."""

from __future__ import annotations

import pytest

from magnetar.cluster.session_state import SessionState, after
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
def test_only_another_session_ends_a_lost_one(heard: list[S], standing: SessionState) -> None:
    found = SessionState.HERE
    for event in heard:
        found = after(found, event)
    assert found is standing

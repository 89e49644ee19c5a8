"""What may be begun, by what was heard of the session."""

from __future__ import annotations

import pytest

from magnetar.cluster.session import Standing, after
from magnetar.metadata.store import Session as S


@pytest.mark.parametrize(
    ("heard", "standing"),
    [
        ([], Standing.HERE),
        ([S.CONNECTION_LOST], Standing.AWAY),
        ([S.CONNECTION_LOST, S.RECONNECTED], Standing.HERE),
        ([S.CONNECTION_LOST, S.LOST], Standing.GONE),
        ([S.CONNECTION_LOST, S.LOST, S.RECONNECTED], Standing.GONE),  # connected, but the session is another one
        ([S.CONNECTION_LOST, S.LOST, S.CONNECTION_LOST], Standing.GONE),
        ([S.CONNECTION_LOST, S.LOST, S.RECONNECTED, S.REESTABLISHED], Standing.HERE),
        ([S.LOST, S.REESTABLISHED, S.CONNECTION_LOST], Standing.AWAY),
    ],
)
def test_only_another_session_ends_a_lost_one(heard: list[S], standing: Standing) -> None:
    found = Standing.HERE
    for event in heard:
        found = after(found, event)
    assert found is standing

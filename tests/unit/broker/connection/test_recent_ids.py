"""The last ids of something, and no others."""

from __future__ import annotations

from magnetar.broker.connection.recent_ids import RecentIds


def test_oldest_id_gives_way() -> None:
    recent = RecentIds(3)
    for id in (1, 2, 3, 4):
        recent.add(id)
    assert [id in recent for id in (1, 2, 3, 4)] == [False, True, True, True]
    recent.add(5)
    recent.add(6)
    recent.add(7)
    assert [id in recent for id in (2, 3, 4, 5, 6, 7)] == [False, False, False, True, True, True]


def test_largest_id_of_wire_is_taken() -> None:
    recent = RecentIds(1)
    recent.add(2**64 - 1)
    assert 2**64 - 1 in recent
    assert 1 not in recent

"""Places in a topic as people write them."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Misuse
from magnetar.cli.positions import Position, message_id, position
from magnetar.client.documents.topics import MessageId

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("earliest", "earliest"),
        ("latest", "latest"),
        ("12:34", MessageId(12, 34)),
        ("12:34:-1", MessageId(12, 34)),
        ("12:34:2", MessageId(12, 34, 2)),
        ("12:34:-1:7", MessageId(12, 34, -1, 7)),
        ("10m", NOW - 600_000),
        ("-10min", NOW - 600_000),
        ("2h", NOW - 7_200_000),
        ("500ms", NOW - 500),
        ("1d", NOW - 86_400_000),
        ("2023-11-14T22:13:20Z", NOW),
        ("2023-11-14T22:13:20", NOW),
        ("2023-11-14", NOW - 80_000_000),
        ("1960-01-01T00:00:00Z", 0),
    ],
)
def test_place_is_read(text: str, found: Position) -> None:
    assert position(text, NOW) == found


@pytest.mark.parametrize("text", ["", "whenever", "12", "12:", "1:2:3:4:5", "10 m", "yesterday", "10y"])
def test_anything_else_is_told_what_would_be_right(text: str) -> None:
    with pytest.raises(Misuse, match="earliest, latest"):
        position(text, NOW)


def test_how_long_ago_needs_clock() -> None:
    with pytest.raises(Misuse, match="reports no time"):
        position("10m", None)


def test_id_that_is_none_is_refused() -> None:
    with pytest.raises(Misuse):
        message_id("a:b")

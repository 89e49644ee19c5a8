"""The end of a command that ran a broker: its exit code and its words."""

from __future__ import annotations

import pytest

from magnetar.base.errors import MagnetarError, SessionLost, StorageFailed, StorageFull
from magnetar.cli.commands.standalone import broker_ended


@pytest.mark.parametrize(
    ("failure", "code", "words"),
    [
        (SessionLost("no session after 10 attempts"), 75, "the session with the metadata store was lost"),
        (StorageFull("no space left"), 1, "the disk is full"),
        (StorageFailed("input/output error"), 1, "a write to disk failed"),
    ],
)
def test_broker_that_ends_by_itself_says_why(
    failure: MagnetarError, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert broker_ended(failure, "magnetar standalone") == code
    told = capsys.readouterr().err
    assert failure.what in told
    assert words in told
    assert "magnetar standalone" in told


def test_broker_that_was_stopped_is_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert broker_ended(None, "magnetar standalone") == 0
    assert capsys.readouterr().err == ""

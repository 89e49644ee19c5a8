"""Every error of the tree has one exit code, whatever command it ends."""

from __future__ import annotations

import pytest

from magnetar.base import errors
from magnetar.cli.exits import exit_for


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.InvalidName("x"), 2),
        (errors.TopicNotFound("x"), 3),
        (errors.BadVersion("x"), 4),
        (errors.Fenced("x"), 4),
        (errors.NotAuthorized("x"), 5),
        (errors.TimedOut("x"), 6),
        (errors.ConnectionLost("x"), 1),
        (errors.StorageFull("x"), 1),
    ],
)
def test_every_error_of_the_tree_has_its_exit_code(error: errors.MagnetarError, code: int) -> None:
    assert exit_for(error) == code

"""A blocking question that hangs is left behind, and one that fails is no answer."""

from __future__ import annotations

import threading

from magnetar.runtime.bounded_call import within

PATIENCE_S = 60.0


def test_answer_that_comes_is_given() -> None:
    assert within(PATIENCE_S, lambda: 42) == 42


def test_what_hangs_is_left_behind_and_ends_alone() -> None:
    over, ended = threading.Event(), threading.Event()

    def hang() -> int:
        over.wait(PATIENCE_S)
        ended.set()
        return 42

    assert within(0.01, hang) is None
    assert not ended.is_set()
    over.set()
    assert ended.wait(PATIENCE_S)


def test_what_fails_is_no_answer_and_says_nothing() -> None:
    def fail() -> int:
        raise OSError("no route")

    assert within(PATIENCE_S, fail) is None

"""Returning freed memory: a second request finds nothing, and a library without the call is no error."""

from __future__ import annotations

from magnetar.runtime.memory import give_back


def test_what_was_freed_goes_back_and_what_is_in_use_stays() -> None:
    kept = [bytes([number % 256]) * 3000 for number in range(2000)]
    holes = [bytes(3000) for _ in range(20_000)]
    del holes
    assert give_back() in (True, False)
    assert all(block == bytes([number % 256]) * 3000 for number, block in enumerate(kept))

"""The clock of retention follows the wall clock, and not its jumps."""

from __future__ import annotations

import pytest

from magnetar.base.limits import CLOCK_JUMP_BELIEVED_S, CLOCK_START_TRUSTED_S
from magnetar.ledger.clock import SteadyClock

START_MS = 1_750_000_000_000
MONTH_MS = 30 * 86_400_000
STEP_S = 5.0


def read_for(clock: SteadyClock, since_s: float, for_s: float, ahead_ms: int = 0) -> tuple[int, float]:
    """Readings every few seconds, as housekeeping takes them: the last time told, and when that was."""
    now_s = since_s
    told = 0
    while now_s < since_s + for_s:
        now_s += STEP_S
        told = clock.read(START_MS + int(now_s * 1000) + ahead_ms, now_s)
    return told, now_s


def a_trusted_clock() -> tuple[SteadyClock, float]:
    clock = SteadyClock(START_MS, 0.0)
    _, now_s = read_for(clock, 0.0, CLOCK_START_TRUSTED_S)
    assert clock.trusted
    return clock, now_s


def test_steady_wall_clock_is_told_as_it_is() -> None:
    clock, now_s = a_trusted_clock()
    assert read_for(clock, now_s, 100.0) == (START_MS + int((now_s + 100.0) * 1000), now_s + 100.0)


def test_slow_drift_is_followed() -> None:
    clock, now_s = a_trusted_clock()
    told = 0
    for step in range(1000):
        now_s += STEP_S
        told = clock.read(START_MS + int(now_s * 1000) + step * 500, now_s)
    assert told == START_MS + int(now_s * 1000) + 999 * 500
    assert not clock.doubts


@pytest.mark.parametrize("ahead_ms", [MONTH_MS, -MONTH_MS])
def test_short_jump_does_not_move_time(ahead_ms: int) -> None:
    clock, now_s = a_trusted_clock()
    told, now_s = read_for(clock, now_s, 75.0, ahead_ms)
    assert (told, clock.doubts) == (START_MS + int(now_s * 1000), True)
    told, now_s = read_for(clock, now_s, 75.0)
    assert (told, clock.doubts) == (START_MS + int(now_s * 1000), False)


@pytest.mark.parametrize("ahead_ms", [MONTH_MS, -MONTH_MS])
def test_lasting_jump_is_believed_in_end(ahead_ms: int) -> None:
    clock, now_s = a_trusted_clock()
    told, now_s = read_for(clock, now_s, CLOCK_JUMP_BELIEVED_S - STEP_S, ahead_ms)
    assert told == START_MS + int(now_s * 1000)
    told, now_s = read_for(clock, now_s, 2 * STEP_S, ahead_ms)
    assert (told, clock.doubts) == (START_MS + int(now_s * 1000) + ahead_ms, False)


def test_jumps_to_ever_other_times_are_never_believed() -> None:
    clock, now_s = a_trusted_clock()
    for hour in range(48):
        told, now_s = read_for(clock, now_s, CLOCK_JUMP_BELIEVED_S / 2, MONTH_MS + hour * 3_600_000)
        assert told == START_MS + int(now_s * 1000)


def test_wrong_clock_at_start_is_distrusted_after_correction() -> None:
    clock = SteadyClock(START_MS + MONTH_MS, 0.0)
    _, now_s = read_for(clock, 0.0, CLOCK_START_TRUSTED_S - STEP_S, MONTH_MS)
    told, now_s = read_for(clock, now_s, STEP_S)
    assert (told, clock.trusted) == (START_MS + int(now_s * 1000), False)
    read_for(clock, now_s, CLOCK_START_TRUSTED_S)
    assert clock.trusted

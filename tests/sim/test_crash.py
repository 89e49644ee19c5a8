"""The power goes at every write, every sync and every step of the metadata store of a recorded load on a whole broker.

The disk forgets, tears and reorders what was not synced. After each cut the broker starts on what is left, its clients
come back and go on working, and one checker judges all that they saw: nothing acknowledged is missing, no order is
broken, no cursor is ahead, nothing is there that was never sent. The engines that lie at the end show that it bites.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from functools import cache
from typing import Any

import pytest

from magnetar.base.errors import MagnetarError, StorageFailed, StorageFull
from magnetar.ledger.local.engine import LocalLedgers
from simulation.crash import rules
from simulation.crash.load import SETTINGS, LoadClients
from simulation.crash.single_broker import BrokerRun, SingleBrokerWorld
from simulation.environment.disk import SimulatedFiles
from simulation.mutants.lying_stores import EarlyConfirmLedgers, OverstatingLedgers, UnsyncedFiles

SEEDS = range(int(os.environ.get("MAGNETAR_CRASH_SEEDS", "1")))


def world(seed: int, **more: object) -> SingleBrokerWorld:
    return SingleBrokerWorld(seed, settings=SETTINGS, **more)  # type: ignore[arg-type]


@cache
def recorded() -> tuple[int, int]:
    """How many writes and syncs the load makes, and how often the metadata store is passed."""
    whole = world(0)
    cast = LoadClients()
    assert whole.live(cast.play), "the load does not come to its end"
    assert (whole.failures, cast.problems(), rules.check_running(cast.history)) == ([], [], [])
    return whole.files.calls, whole.passes


def findings(play: SingleBrokerWorld, *, cut_at: int | None = None) -> list[str]:
    """The load up to the cut, the life after it, and one more after everybody left in order."""
    cast = LoadClients()
    play.live(cast.play, cut_at=cut_at)
    found = list(play.failures)
    for story in (judged(cast, found), cast.nothing_left):
        play.lose_power()
        cast.forget_logs()
        cast.history.next_life()
        try:
            if not play.live(story):
                found.append("the power went where nothing should cut it")
        except (MagnetarError, TimeoutError) as error:
            found.append(f"life {play.lives} failed: {error!r}")
        found += cast.problems() + play.failures + rules.check_running(cast.history)
    return found


def judged(cast: LoadClients, found: list[str]) -> Callable[[BrokerRun], Coroutine[Any, Any, None]]:
    async def story(life: BrokerRun) -> None:
        await cast.judge(life)
        found.extend(rules.check_at_rest(cast.history))
        await cast.part(life)

    return story


def test_recorded_load_is_same_every_time() -> None:
    first, second = (world(seed) for seed in (3, 4))
    one, other = LoadClients(), LoadClients()
    first.live(one.play)
    second.live(other.play)
    assert (first.files.calls, first.passes) == (second.files.calls, second.passes) == recorded()
    assert one.history.deliveries == other.history.deliveries


def test_recorded_load_rolls_trims_and_frees() -> None:
    engines: list[LocalLedgers] = []

    def watched(engine: LocalLedgers) -> LocalLedgers:
        engines.append(engine)
        return engine

    play = world(0, ledgers=watched)
    assert findings(play) == []
    calls, passes = recorded()
    assert calls > 300
    assert passes > 300
    assert engines[0].journal._sequence > 5  # segments were begun
    assert engines[0].space.copied_bytes > 0  # some copied away
    assert engines[0].space.freed > 1  # and given back


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_power_cut_at_any_write_or_sync_loses_nothing_acknowledged(seed: int) -> None:
    for call in range(1, recorded()[0] + 1):
        files = SimulatedFiles(seed * 10_000 + call, crash_at=call, flips=(seed + call) % 2 == 0)
        assert findings(world(call, files=files)) == [], f"seed {seed}, call {call}"


@pytest.mark.slow
def test_power_cut_at_any_metadata_step_loses_nothing_acknowledged() -> None:
    for step in range(recorded()[1]):
        assert findings(world(step), cut_at=step) == [], f"step {step}"


# The disk fails, or is full: the node stops by itself


def stopped(play: SingleBrokerWorld, *, power: bool) -> list[str]:
    """The load until the node gives up and stops in order; then a restart, or a power cut, and everything again."""
    cast = LoadClients()
    try:
        play.live(cast.play)
    except (StorageFailed, StorageFull):
        pass  # it did not even start
    found = list(play.failures)
    if play.node_failure is None and cast.finished:
        return found  # there was room for all of it
    play.restart()
    if power:
        play.lose_power()
    cast.history.next_life()
    assert play.live(judged(cast, found))
    return found + cast.problems() + play.failures


@pytest.mark.slow
def test_failed_sync_anywhere_stops_node_in_order_and_loses_nothing() -> None:
    probe = world(0)
    probe.live(LoadClients().play)
    for number in range(1, probe.files.syncs - 1, 2):  # the last two are made by the stop, when all is told already
        play = world(number, files=SimulatedFiles(number, fail_sync_at=number))
        assert stopped(play, power=number % 4 == 1) == [], f"sync {number}"
        assert play.lives == 2, f"sync {number}: the node went on"


def test_full_disk_anywhere_stops_node_in_order_and_loses_nothing() -> None:
    probe = world(0)
    probe.live(LoadClients().play)
    hit = 0
    for room in range(0, probe.files.used(), 4_001):
        play = world(room, files=SimulatedFiles(room, full_after=room))
        assert stopped(play, power=room % 2 == 1) == [], f"room {room}"
        hit += play.lives == 2
    assert hit > 5


# It bites


def caught(calls: range, files: type[SimulatedFiles], **more: object) -> int:
    """In how many of these cuts the lie was found out."""
    return sum(bool(findings(world(call, files=files(call, crash_at=call), **more))) for call in calls)


def test_disk_whose_sync_does_nothing_is_caught() -> None:
    calls = range(60, recorded()[0], 40)
    assert caught(calls, UnsyncedFiles) > len(calls) // 2


def test_journal_that_answers_before_sync_is_caught() -> None:
    calls = range(60, recorded()[0], 40)
    assert caught(calls, SimulatedFiles, ledgers=EarlyConfirmLedgers) > len(calls) // 2


def test_cursor_snapshot_that_claims_more_than_was_acknowledged_is_caught() -> None:
    found = findings(world(0, ledgers=OverstatingLedgers))
    assert any(finding.startswith(("not_redelivered", "missing")) for finding in found)

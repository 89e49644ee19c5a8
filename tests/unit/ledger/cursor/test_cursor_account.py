"""Gaps, batches acknowledged in part and counts of all subscriptions are charged to one account."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pytest

from magnetar.base.ids import BEFORE_ALL, Position
from magnetar.base.limits import ACK_SET_WORDS_MAX, CURSOR_GAP_BYTES, STATE_CHARGE_STEP_BYTES
from magnetar.ledger.cursor.cursor import LANE, Cursor
from magnetar.ledger.managed import ManagedLedger
from magnetar.ledger.state_account import StateAccount
from tests.unit.ledger.world import LaterRuntime, World, a_config, a_runtime, publish

T = TypeVar("T")

pytestmark = pytest.mark.real_clock

COUNT = 400
FREE = STATE_CHARGE_STEP_BYTES // CURSOR_GAP_BYTES


async def a_topic(world: World, gaps_max: int) -> tuple[ManagedLedger, list[Position], StateAccount]:
    account = StateAccount(gaps_max * CURSOR_GAP_BYTES)
    world.config = replace(a_config(entries_max=10_000), acks=account)
    managed = await world.open()
    return managed, await publish(managed, *[f"{number}:x" for number in range(COUNT)]), account


async def a_cursor(managed: ManagedLedger, name: str, *, durable: bool = True) -> Cursor:
    return await Cursor.open(managed, name, durable=durable, initial=BEFORE_ALL)


async def test_gaps_of_all_subscriptions_share_account() -> None:
    managed, positions, account = await a_topic(World(), 100)
    one, two = await a_cursor(managed, "one"), await a_cursor(managed, "two")
    for position in positions[1::2]:
        one.ack([position])
    assert 100 <= one.holes <= 100 + FREE
    assert one.refused == COUNT // 2 - one.holes
    two.ack(positions[1::2])
    assert two.holes == FREE, "it has none yet, and may have a few"
    assert account.bytes <= (100 + 2 * FREE) * CURSOR_GAP_BYTES


async def test_acknowledging_oldest_messages_makes_room() -> None:
    managed, positions, account = await a_topic(World(), 100)
    one, two = await a_cursor(managed, "one"), await a_cursor(managed, "two")
    one.ack(positions[1:201:2])
    assert two.ack(positions[1:201:2]) == FREE
    assert one.ack(positions[0:150:2]) == 75, "they close gaps"
    assert two.ack(positions[1:201:2]) > 2 * FREE
    one.ack_to(positions[-1])
    two.ack_to(positions[-1])
    assert account.bytes == 0


async def test_batches_and_counts_are_charged_too() -> None:
    managed, positions, account = await a_topic(World(), 100)
    one = await a_cursor(managed, "one")
    for position in positions:
        one.ack_bits(position, [1] * 100, 6_400)
    assert 0 < one.refused < COUNT
    assert account.bytes <= account.bytes_max + 1_000
    one.reset(BEFORE_ALL)
    for position in positions:
        one.redelivered([position])
    assert 0 < sum(one.redelivery(position) for position in positions) < COUNT


@pytest.mark.parametrize("how", ["close", "abandon", "delete"])
@pytest.mark.parametrize("durable", [True, False])
async def test_charge_ends_with_cursor(how: str, durable: bool) -> None:
    managed, positions, account = await a_topic(World(), 1_000)
    one = await a_cursor(managed, "one", durable=durable)
    one.ack(positions[1::2])
    assert account.bytes > 0
    if how == "abandon":
        one.abandon()
    else:
        await (one.close() if how == "close" else one.delete())
    assert account.bytes == 0
    one.ack(positions[0::2])
    assert account.bytes == 0


async def test_loaded_cursor_is_charged_and_keeps_what_it_has() -> None:
    world = World()
    managed, positions, _ = await a_topic(world, 1_000)
    one = await a_cursor(managed, "one")
    one.ack(positions[1::2])
    await one.flush()
    world = world.crash()
    account = StateAccount(CURSOR_GAP_BYTES)
    world.config = replace(a_config(entries_max=10_000), acks=account)
    again = await Cursor.open(await world.open(), "one", durable=True, initial=None)
    assert again.holes == COUNT // 2
    assert account.bytes == COUNT // 2 * CURSOR_GAP_BYTES


class WatchedRuntime(LaterRuntime):
    """Remembers the lanes of offloaded work, and calls `during` before work of the cursors."""

    def __init__(self) -> None:
        super().__init__(a_runtime().files)
        self.lanes: list[str] = []
        self.during: Callable[[], object] = int

    def offload(self, work: Callable[[], T], lane: str) -> asyncio.Future[T]:
        self.lanes.append(lane)
        if lane == LANE:
            self.during()
        return super().offload(work, lane)


async def test_large_state_is_encoded_in_thread_as_it_was() -> None:
    """The snapshot of 64 MiB of batches took one turn of 145 ms."""
    runtime = WatchedRuntime()
    world = World(runtime=runtime)
    managed, positions, _ = await a_topic(world, 100_000)
    one = await a_cursor(managed, "one")
    one.ack([positions[1]])
    await one.flush()
    assert LANE not in runtime.lanes
    for position in positions[5:8]:
        one.ack_bits(position, [1] * ACK_SET_WORDS_MAX, 64 * ACK_SET_WORDS_MAX)
    runtime.during = lambda: one.ack([positions[3], positions[5]])
    await one.flush()
    assert runtime.lanes.count(LANE) == 2, "the snapshot, and its checksums"
    again = await Cursor.open(await world.crash().open(), "one", durable=True, initial=None)
    assert [again.is_acked(position) for position in positions[:4]] == [False, True, False, False]
    assert [again.open_messages(position) for position in positions[4:8]] == [None] + [ACK_SET_WORDS_MAX] * 3
    assert one.dirty

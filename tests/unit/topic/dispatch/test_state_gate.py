"""Entries that consumers have not acknowledged are charged to one account of all subscriptions, which stops them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.ids import Position
from magnetar.base.limits import (
    DISPATCH_RUN_ENTRIES_MAX,
    KEYED_UNACKED_ENTRY_BYTES,
    STATE_CHARGE_STEP_BYTES,
    STATE_LOOK_S,
    UNACKED_ENTRY_BYTES,
)
from magnetar.ledger.state_account import StateAccount
from magnetar.topic.subscriptions.subscription import KEY_SHARED, SHARED
from magnetar.topic.topic import Topic
from tests.unit.topic.world import Out, World, ack, an_entry, pass_s, settle, subscription_of

EACH = {SHARED: UNACKED_ENTRY_BYTES, KEY_SHARED: KEYED_UNACKED_ENTRY_BYTES}
KINDS = pytest.mark.parametrize("kind", [SHARED, KEY_SHARED])
SMALL = 600  # entries that the account has room for
RUN = DISPATCH_RUN_ENTRIES_MAX
MANY = 3_000


async def filled(world: World, kind: int) -> tuple[Topic, StateAccount, list[Position]]:
    """A topic with entries, on a broker whose account is small."""
    account = StateAccount(SMALL * EACH[kind])
    world.config = replace(world.config, state=account)
    topic = await world.topic()
    positions = [
        position
        for first in range(0, MANY, 50)
        for position in await world.store(topic, *[an_entry(str(first + number)) for number in range(50)])
    ]
    return topic, account, positions


@KINDS
async def test_unacknowledged_entries_of_all_subscriptions_share_account(world: World, kind: int) -> None:
    topic, account, _ = await filled(world, kind)
    outs = [Out(number) for number in range(3)]
    for number, out in enumerate(outs):
        await world.consumer(topic, out, subscription=f"s{number}", kind=kind, permits=10 * MANY)
    await settle()
    held = sum(len(out.delivered) for out in outs)
    few = STATE_CHARGE_STEP_BYTES // EACH[kind] + 1
    assert SMALL <= held <= SMALL + RUN + 2 * few, "as many as the account has room for, a run, and few of the others"
    assert account.bytes <= held * EACH[kind]


@KINDS
async def test_acknowledging_lets_stopped_subscription_go_on_to_end(world: World, kind: int) -> None:
    topic, account, _ = await filled(world, kind)
    out = Out()
    consumer = await world.consumer(topic, out, kind=kind, permits=10 * MANY)
    done = 0
    for _ in range(MANY):
        await settle()
        positions = [one.position for one in out.delivered[done:]]
        if not positions:
            break
        done += len(positions)
        ack(topic, consumer, *positions)
    assert done == MANY
    assert account.bytes == 0


@KINDS
async def test_memory_that_others_release_lets_subscription_go_on(world: World, kind: int) -> None:
    topic, account, _ = await filled(world, kind)
    out = Out()
    await world.consumer(topic, out, kind=kind, permits=10 * MANY)
    await settle()
    before = len(out.delivered)
    assert before < SMALL + RUN
    account.bytes_max *= 3  # as if other subscriptions had released as much
    await pass_s(STATE_LOOK_S + 1)
    assert len(out.delivered) >= 3 * SMALL


@KINDS
@pytest.mark.parametrize("how", ["leave", "close", "skip"])
async def test_charge_ends_with_what_was_charged(world: World, kind: int, how: str) -> None:
    topic, account, _ = await filled(world, kind)
    consumer = await world.consumer(topic, Out(), kind=kind, permits=10 * MANY)
    await settle()
    assert account.bytes >= STATE_CHARGE_STEP_BYTES
    if how == "leave":
        topic.subscriptions.remove([consumer])
    elif how == "close":
        await topic.close()
    else:
        subscription_of(topic).dispatcher.acked_to(topic.managed.last)
    assert account.bytes == 0


@KINDS
async def test_entries_of_consumer_that_left_stay_charged(world: World, kind: int) -> None:
    topic, account, _ = await filled(world, kind)
    first = await world.consumer(topic, Out(), kind=kind, permits=10 * MANY)
    await settle()
    before = account.bytes
    await world.consumer(topic, Out(2), kind=kind, permits=0)
    topic.subscriptions.remove([first])
    await settle()
    assert account.bytes >= before - STATE_CHARGE_STEP_BYTES, "they wait for the other consumer"


@KINDS
async def test_acknowledging_what_was_never_sent_gives_no_room(world: World, kind: int) -> None:
    topic, _, positions = await filled(world, kind)
    out = Out()
    consumer = await world.consumer(topic, out, kind=kind, permits=10 * MANY)
    await settle()
    before = len(out.delivered)
    for position in positions[-1_500:]:
        ack(topic, consumer, position)
        await settle()
    assert len(out.delivered) == before

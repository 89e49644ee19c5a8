"""Acknowledgements of a segment that is read early: applied as they came when its ancestors are done, or dropped."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.ids import BEFORE_ALL, Position
from magnetar.base.limits import EARLY_ACK_BYTES, EARLY_ACK_WORDS_MAX, EARLY_ACKS_MAX, STATE_CHARGE_STEP_BYTES
from magnetar.ledger.state_account import StateAccount
from magnetar.topic.producers.admission import Admission, Admitted
from magnetar.topic.subscriptions.early_acks import EarlyAcks
from magnetar.topic.subscriptions.subscribe import Subscribe
from magnetar.topic.subscriptions.subscription import EXCLUSIVE
from tests.unit.topic.world import Out, World, settle, subscription_of


class Heard:
    """In place of a subscription."""

    def __init__(self) -> None:
        self.until: list[tuple[Position, list[int] | None]] = []
        self.each: dict[Position, list[int] | None] = {}

    def ack_to(self, consumer: None, position: Position, words: list[int] | None) -> None:
        self.until.append((position, words))

    def ack(self, consumer: None, acks: list[tuple[Position, list[int] | None]]) -> None:
        self.each.update(acks)


def applied(early: EarlyAcks) -> Heard:
    heard = Heard()
    early.apply(heard)  # type: ignore[arg-type]
    return heard


def pos(entry: int) -> Position:
    return Position(1, entry)


def test_highest_cumulative_acknowledgement_is_applied():
    early = EarlyAcks(0)
    for entry in (3, 7, 5):
        early.add_until(pos(entry), None)
    assert applied(early).until == [(pos(7), None)]


def test_cumulative_acknowledgement_inside_batch_keeps_what_both_leave():
    early = EarlyAcks(0)
    early.add_until(pos(3), [0b1110])
    early.add_until(pos(3), [0b1101])
    assert applied(early).until == [(pos(3), [0b1100])]
    early.add_until(pos(3), None)
    early.add_until(pos(3), [0b1000])
    assert applied(early).until == [(pos(3), None)]


def test_single_acknowledgements_below_cumulative_one_are_dropped():
    early = EarlyAcks(0)
    early.add([(pos(1), None), (pos(4), [0b10]), (pos(4), [0b01]), (pos(6), None)])
    early.add_until(pos(2), None)
    heard = applied(early)
    assert heard.until == [(pos(2), None)]
    assert heard.each == {pos(4): [0], pos(6): None}


def test_nothing_is_remembered_beyond_bound():
    early = EarlyAcks(0)
    early.add([(pos(entry), None) for entry in range(EARLY_ACKS_MAX + 5)])
    assert len(applied(early).each) == EARLY_ACKS_MAX


def test_nothing_acknowledged_applies_nothing():
    heard = applied(EarlyAcks(0))
    assert (heard.until, heard.each) == ([], {})


def test_entry_counts_as_acknowledged_when_no_part_is_left():
    early = EarlyAcks(0)
    assert not early.is_acked(pos(0))
    early.add_until(pos(6), None)
    early.add_until(pos(7), [0b10])
    early.add([(pos(9), None), (pos(10), [0b10]), (pos(11), [0b00])])
    assert early.mark == pos(6)
    assert [entry for entry in range(5, 12) if early.is_acked(pos(entry))] == [5, 6, 9, 11]
    early.add_until(pos(7), [0b01])
    assert (early.mark, early.is_acked(pos(7))) == (pos(7), True)


async def test_close_waits_until_acknowledgements_are_applied_or_dropped():
    early = EarlyAcks(0)
    await early.settled(60)  # nothing was acknowledged
    early.add_until(pos(1), None)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await early.settled(60)
    await early.settled(0)
    applied(early)
    await early.settled(60)


def test_words_beyond_bound_are_not_kept():
    early = EarlyAcks(0)
    half = [1] * (EARLY_ACK_WORDS_MAX // 2)
    early.add([(pos(0), half), (pos(1), half), (pos(2), [1]), (pos(3), None)])
    assert applied(early).each.keys() == {pos(0), pos(1), pos(3)}
    early.add_until(pos(1), None)
    early.add([(pos(4), half)])
    assert applied(early).each.keys() == {pos(1), pos(3), pos(4)}


async def test_dropped_acknowledgements_are_delivered_again_to_next_consumer(world: World) -> None:
    topic = await world.topic()
    seeks = 5

    async def admit(asked: Subscribe) -> Admitted:
        return Admitted(seeks, early=True)

    topic.admission = Admission(consume=admit)
    positions = await world.publish(topic, "a", "b", "c")
    first, out = await world.consumer(topic, Out(1), kind=EXCLUSIVE, permits=10), Out(2)
    subscription_of(topic).ack_to(first, positions[2], None)
    topic.subscriptions.remove([first])
    seeks = 6  # the subscription was moved before the acknowledgements counted
    await world.consumer(topic, out, kind=EXCLUSIVE, permits=10)
    await settle()
    assert out.texts == ["a", "b", "c"]


async def test_consumer_admitted_before_seek_is_admitted_again(world: World) -> None:
    topic = await world.topic()
    await world.publish(topic, "a")
    stale = await world.consumer(topic, Out(1), kind=EXCLUSIVE)
    asked = 0

    async def admit(_: Subscribe) -> Admitted:
        nonlocal asked
        asked += 1
        if asked == 1:
            await subscription_of(topic).seek(BEFORE_ALL)
        return Admitted(asked, early=True)

    topic.admission = Admission(consume=admit)
    topic.subscriptions.remove([stale])
    await world.consumer(topic, Out(2), kind=EXCLUSIVE)
    early = subscription_of(topic).early
    assert (asked, early is not None and early.seeks) == (2, 2)


async def test_next_reader_does_not_get_single_early_acknowledgements_again(world: World) -> None:
    async def admit(_: Subscribe) -> Admitted:
        return Admitted(0, early=True)

    topic = await world.topic()
    topic.admission = Admission(consume=admit)
    positions = await world.publish(topic, "a", "b", "c", "d", "e")
    first, out = await world.consumer(topic, Out(1), kind=EXCLUSIVE, permits=10), Out(2)
    subscription = subscription_of(topic)
    subscription.ack_to(first, positions[0], None)
    subscription.ack(first, [(positions[2], None), (positions[3], [0])])
    topic.subscriptions.remove([first])
    await world.consumer(topic, out, kind=EXCLUSIVE, permits=10)
    await settle()
    assert out.texts == ["b", "e"]
    assert subscription.backlog == 5, "they count when the ancestors are done"


def test_acknowledgements_are_charged_until_they_are_applied():
    account = StateAccount(100 * EARLY_ACK_BYTES)
    early, other = EarlyAcks(0, account), EarlyAcks(0, account)
    for entry in range(300):
        early.add([(pos(entry), None)])
        other.add([(pos(entry), None)])
    few = STATE_CHARGE_STEP_BYTES // EARLY_ACK_BYTES + 1
    assert account.bytes <= (100 + few) * EARLY_ACK_BYTES
    kept = len(applied(early).each) + len(applied(other).each)
    assert 100 <= kept <= 100 + 2 * few
    assert account.bytes == 0

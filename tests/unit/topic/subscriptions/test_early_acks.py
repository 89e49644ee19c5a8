"""Acknowledgements of a segment that is read early: applied as they came when its ancestors are done, or dropped."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.ids import Position
from magnetar.base.limits import EARLY_ACKS_MAX
from magnetar.topic.subscriptions.early_acks import EarlyAcks


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


def test_cumulative_acknowledgement_inside_a_batch_keeps_what_both_leave():
    early = EarlyAcks(0)
    early.add_until(pos(3), [0b1110])
    early.add_until(pos(3), [0b1101])
    assert applied(early).until == [(pos(3), [0b1100])]
    early.add_until(pos(3), None)
    early.add_until(pos(3), [0b1000])
    assert applied(early).until == [(pos(3), None)]


def test_single_acknowledgements_below_a_cumulative_one_are_dropped():
    early = EarlyAcks(0)
    early.add([(pos(1), None), (pos(4), [0b10]), (pos(4), [0b01]), (pos(6), None)])
    early.add_until(pos(2), None)
    heard = applied(early)
    assert heard.until == [(pos(2), None)]
    assert heard.each == {pos(4): [0], pos(6): None}


def test_nothing_is_remembered_beyond_the_bound():
    early = EarlyAcks(0)
    early.add([(pos(entry), None) for entry in range(EARLY_ACKS_MAX + 5)])
    assert len(applied(early).each) == EARLY_ACKS_MAX


def test_nothing_acknowledged_applies_nothing():
    heard = applied(EarlyAcks(0))
    assert (heard.until, heard.each) == ([], {})


def test_cumulative_acknowledgement_of_the_last_message_covers_the_segment():
    early = EarlyAcks(0)
    assert not early.covers(pos(0))
    early.add_until(pos(6), None)
    early.add_until(pos(7), [0b10])
    assert (early.mark, early.covers(pos(7))) == (pos(6), False)
    early.add_until(pos(7), [0b01])
    assert (early.mark, early.covers(pos(7))) == (pos(7), True)


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

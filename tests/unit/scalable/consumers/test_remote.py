"""The shares of consumers at other brokers: fetched when they come, ended when they end, missed when nobody asks."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import NotReady, Superseded
from magnetar.base.ids import Epoch, SegmentId, Term
from magnetar.base.limits import SHARE_ASK_S, VISITOR_SILENT_S
from magnetar.base.ranges import HashRange
from magnetar.layout.segment import Segment
from magnetar.scalable.consumers.assignment import Assignment
from magnetar.scalable.consumers.remote import RemoteConsumer, RemoteConsumers, assignment, shared
from tests.support.virtual_clock import pass_s, settle

SEGMENTS = (
    Segment(SegmentId(3), HashRange(0, 9)),
    Segment(SegmentId(4), HashRange(10, 11), legacy_topic="persistent://a/b/c"),
)


def given(*segments: Segment, generation: int = 1) -> Assignment:
    return Assignment("s", "a", segments, Epoch(5), Term(6), generation, 7)


def test_share_survives_way():
    assert assignment("s", "a", shared(given(*SEGMENTS))) == given(*SEGMENTS)


async def test_news_are_told_moment_they_come_and_once() -> None:
    visitor = RemoteConsumer("1")
    asking = asyncio.ensure_future(visitor.news(0, 30))
    await settle()
    assert not asking.done()
    visitor.assigned(given(SEGMENTS[0]))
    visitor.assigned(given(*SEGMENTS, generation=2))
    told = await asking
    assert told is not None
    assert (told.generation, told.number) == (2, 2), "the newest only"
    assert await visitor.news(2, 1) is None
    assert await visitor.news(1, 1) == told, "an answer that was lost is told again"


async def test_question_of_any_length_is_answered_in_time() -> None:
    """D27"""

    asking = asyncio.ensure_future(RemoteConsumer("1").news(0, 1e9))
    await pass_s(SHARE_ASK_S + 1)
    assert asking.done()
    assert await asking is None


async def test_what_ended_it_is_told_to_who_asks() -> None:
    visitor = RemoteConsumer("1")
    asking = asyncio.ensure_future(visitor.news(0, 30))
    await settle()
    visitor.ended(Superseded("another came"))
    with pytest.raises(Superseded):
        await asking


async def test_broker_asking_in_time_is_kept_and_silent_one_removed() -> None:
    lost: list[int] = []
    visitor = RemoteConsumer("1")
    visitor.begin(lambda: lost.append(1))
    for _ in range(4):
        await visitor.news(0, 5)
        await pass_s(VISITOR_SILENT_S - 1)
    assert not lost
    await pass_s(2)
    assert lost == [1]
    assert not visitor.connected


async def test_who_was_never_registered_is_told_so() -> None:
    with pytest.raises(NotReady):
        await RemoteConsumers().share("nobody", 0, 1)

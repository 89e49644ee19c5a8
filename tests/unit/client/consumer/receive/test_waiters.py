"""Waiting for messages: cancelled at any moment nothing is taken, and nobody sleeps while a message is there."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Closed, Unavailable
from magnetar.client.consumer.receive.receive_queue import ReceiveQueue
from magnetar.client.consumer.receive.waiters import NoMessage, ReceiveWaiters, waited
from tests.unit.client.consumer.receive.test_receive_queue import arrive, messages

pytestmark = pytest.mark.real_clock


def a_receiver() -> tuple[ReceiveQueue, ReceiveWaiters, object]:
    inbox = ReceiveQueue(1 << 20)
    queue = inbox.topic_queue(100, lambda permits: None)
    queue.attach()
    return inbox, ReceiveWaiters(inbox), queue


def deliver(receiver: ReceiveWaiters, queue, *values: bytes) -> None:
    arrive(queue, *values)
    receiver.notify(len(values))


async def test_message_wakes_one_who_waits_longest():
    _, receiver, queue = a_receiver()
    first = asyncio.create_task(receiver.next(None))
    second = asyncio.create_task(receiver.next(None))
    await asyncio.sleep(0)
    deliver(receiver, queue, b"a")
    assert (await first).data == b"a"
    assert not second.done()
    deliver(receiver, queue, b"b")
    assert (await second).data == b"b"


@pytest.mark.parametrize("turns", range(6))
async def test_cancelled_at_every_turn_message_stays_for_next_receive(turns):
    """The wake-up and the cancellation meet in every order."""

    inbox, receiver, queue = a_receiver()
    task = asyncio.create_task(receiver.next(None))
    for turn in range(6):
        if turn == turns:
            task.cancel()
        if turn == 2:
            deliver(receiver, queue, b"a")
        await asyncio.sleep(0)
    outcome = (await asyncio.gather(task, return_exceptions=True))[0]
    if isinstance(outcome, asyncio.CancelledError):
        assert inbox.count == 1
        assert (await receiver.next(0)).data == b"a"
    else:
        assert outcome.data == b"a"
        assert inbox.count == 0
    assert not receiver.waiting


async def test_wake_up_that_meets_cancellation_is_passed_on():
    _, receiver, queue = a_receiver()
    first = asyncio.create_task(receiver.next(None))
    second = asyncio.create_task(receiver.next(None))
    await asyncio.sleep(0)
    deliver(receiver, queue, b"a")
    first.cancel()
    assert (await second).data == b"a"
    assert first.cancelled() or (await asyncio.gather(first, return_exceptions=True))


async def test_nothing_in_time_is_no_message_and_timeout_error():
    _, receiver, _ = a_receiver()
    with pytest.raises(NoMessage) as error:
        await receiver.next(0)
    assert isinstance(error.value, TimeoutError)
    assert isinstance(error.value, Unavailable)
    assert "timeout_s=0" in str(error.value)
    with pytest.raises(NoMessage):
        await receiver.next(0.001)
    assert not receiver.waiting


async def test_end_is_told_after_what_is_left():
    _, receiver, queue = a_receiver()
    waiting = asyncio.create_task(receiver.next(None))
    await asyncio.sleep(0)
    arrive(queue, b"a", b"b")
    receiver.end(Closed("closed"))
    assert (await waiting).data == b"a"
    assert (await receiver.next(None)).data == b"b"
    with pytest.raises(Closed):
        await receiver.next(None)
    with pytest.raises(Closed):
        await receiver.batch(1, 1, 1)


async def test_batch_waits_for_its_number_and_takes_no_more():
    inbox, receiver, queue = a_receiver()
    task = asyncio.create_task(receiver.batch(3, 1000, 60))
    await asyncio.sleep(0)
    for value in (b"a", b"b"):
        deliver(receiver, queue, value)
        await asyncio.sleep(0)
    assert not task.done()
    deliver(receiver, queue, b"c", b"d")
    assert [message.data for message in await task] == [b"a", b"b", b"c"]
    assert inbox.count == 1


async def test_batch_ends_with_its_bytes():
    _, receiver, queue = a_receiver()
    deliver(receiver, queue, b"aaaa", b"bbbb", b"cccc")
    assert [message.data for message in await receiver.batch(100, 6, 60)] == [b"aaaa", b"bbbb"]


async def test_batch_takes_what_is_there_when_time_is_up():
    _, receiver, queue = a_receiver()
    assert await receiver.batch(10, 1000, 0) == []
    deliver(receiver, queue, b"a")
    assert [message.data for message in await receiver.batch(10, 1000, 0.001)] == [b"a"]


async def test_batch_larger_than_queue_is_not_waited_for():
    inbox = ReceiveQueue(1 << 20)
    queue = inbox.topic_queue(2, lambda permits: None)
    queue.attach()
    receiver = ReceiveWaiters(inbox)
    deliver(receiver, queue, b"a", b"b")
    assert len(await receiver.batch(100, 1 << 20, 60)) == 2


async def test_large_batch_does_not_delay_single_message_of_another():
    _, receiver, queue = a_receiver()
    many = asyncio.create_task(receiver.batch(50, 1000, 60))
    await asyncio.sleep(0)
    one = asyncio.create_task(receiver.next(None))
    await asyncio.sleep(0)
    deliver(receiver, queue, b"a")
    assert (await one).data == b"a"
    many.cancel()
    await asyncio.gather(many, return_exceptions=True)
    assert not receiver.waiting


async def test_cancelled_batch_has_taken_nothing():
    inbox, receiver, queue = a_receiver()
    task = asyncio.create_task(receiver.batch(5, 1000, 60))
    await asyncio.sleep(0)
    deliver(receiver, queue, b"a", b"b")
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert inbox.count == 2
    assert len(messages(b"x")) == 1


def test_thread_is_told_timeout_it_asked_for():
    def late() -> None:
        raise NoMessage("no message arrived in time", timeout_s=4.9999990030000845, waits_for="#0")

    with pytest.raises(NoMessage) as caught:
        waited(5, late)
    assert caught.value.facts == {"timeout_s": 5, "waits_for": "#0"}

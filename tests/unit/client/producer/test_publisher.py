"""Stored once and in order, or the sender hears why not: through losses, moves, refusals, timeouts and ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.errors import (
    BadChecksum,
    Closed,
    ConnectionLost,
    Fenced,
    Outcome,
    Sealed,
    TimedOut,
)
from magnetar.client.producer.batch import Batching
from magnetar.wire import commands
from magnetar.wire.ids import MessageId
from magnetar.wire.proto import pb
from tests.support.publisher import a_world, flushed, payloads
from tests.unit.client.world import Link

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand


async def test_receipts_tell_where_each_message_is() -> None:
    async with a_world() as world:
        for payload in (b"a", b"b", b"c"):
            world.add(payload)
        await flushed(world)
        assert [(payload, found) for payload, found, _ in world.told] == [
            (b"a", MessageId(1, 0)),
            (b"b", MessageId(1, 1)),
            (b"c", MessageId(1, 2)),
        ]
        assert world.publisher.last_sequence == 2
        assert world.publisher.counters.receipts == 3


async def test_lost_connection_sends_everything_unanswered_again_in_order() -> None:
    async with a_world(receipts=False) as world:
        for payload in (b"a", b"b", b"c"):
            world.add(payload)
        await world.broker.until(lambda: len(world.broker.sent) == 3)
        world.broker.sent[0].receipt()
        world.broker.receipts = True
        world.broker.cut()
        world.add(b"d")
        await flushed(world)
        assert payloads(world.broker.sent)[3:] in ([b"a", b"b", b"c", b"d"], [b"b", b"c", b"d"])
        assert world.stored() == [b"a", b"b", b"c", b"d"]
        again = world.broker.kinds(K.PRODUCER)[1].producer
        assert (again.epoch, again.producer_name) == (1, "scripted-1")
        assert not again.user_provided_producer_name
        assert world.publisher.counters.reattached == 1


async def test_producer_closed_by_broker_moves_and_resends() -> None:
    async with a_world(receipts=False) as world:
        world.add(b"a")
        await world.broker.until(lambda: len(world.broker.sent) == 1)
        lookups = len(world.broker.kinds(K.LOOKUP))
        world.broker.receipts = True
        world.broker.links[0].write(commands.close_producer(world.publisher.id, url=world.broker.url))
        await flushed(world)
        assert world.stored() == [b"a"]
        assert len(world.broker.kinds(K.LOOKUP)) == lookups, "it was told where to go"


async def test_receipt_out_of_order_begins_again() -> None:
    async with a_world(receipts=False) as world:
        world.add(b"a")
        world.add(b"b")
        await world.broker.until(lambda: len(world.broker.sent) == 2)
        world.broker.receipts = True
        world.broker.sent[1].receipt()
        await flushed(world)
        assert world.stored() == [b"a", b"b"]
        assert payloads(world.broker.sent) == [b"a", b"b", b"a", b"b"]


async def test_message_damaged_on_way_fails_alone() -> None:
    async with a_world(receipts=False) as world:
        world.add(b"a")
        world.add(b"b")
        await world.broker.until(lambda: len(world.broker.sent) == 2)
        link = world.broker.links[0]
        link.write(commands.send_error(world.publisher.id, 0, pb.ChecksumError, "damaged"))
        world.broker.sent[1].receipt()
        await flushed(world)
        assert world.failed() == [(b"a", BadChecksum)]
        assert world.stored() == [b"b"]


async def test_refused_send_is_sent_again_on_another_connection() -> None:
    async with a_world(receipts=False) as world:
        world.add(b"a")
        await world.broker.until(lambda: len(world.broker.sent) == 1)
        world.broker.receipts = True
        world.broker.links[0].write(commands.send_error(world.publisher.id, 0, pb.PersistenceError, "disk"))
        await flushed(world)
        assert world.stored() == [b"a"]


async def test_refusal_of_terminated_topic_after_reconnect_is_unknown() -> None:
    async with a_world(receipts=False) as world:
        world.add(b"a")
        await world.broker.until(lambda: len(world.broker.sent) == 1)
        world.broker.links[0].write(commands.close_producer(world.publisher.id, url=world.broker.url))
        await world.broker.until(lambda: len(world.broker.sent) == 2)
        world.add(b"b")
        await world.broker.until(lambda: len(world.broker.sent) == 3)
        for sequence in (0, 1):
            world.broker.links[0].write(
                commands.send_error(world.publisher.id, sequence, pb.TopicTerminatedError, "over")
            )
        await flushed(world)
        assert world.failed() == [(b"a", ConnectionLost), (b"b", Sealed)]


async def test_terminated_topic_refuses_each_message_for_sure() -> None:
    async with a_world(receipts=False) as world:
        world.add(b"a")
        world.add(b"b")
        await world.broker.until(lambda: len(world.broker.sent) == 2)
        for sequence in (0, 1):
            world.broker.links[0].write(
                commands.send_error(world.publisher.id, sequence, pb.TopicTerminatedError, "over")
            )
        await flushed(world)
        assert world.failed() == [(b"a", Sealed), (b"b", Sealed)]
        with pytest.raises(Sealed):
            world.add(b"c")


async def test_fenced_producer_says_of_each_message_what_it_knows() -> None:
    async with a_world(receipts=False) as world:
        world.add(b"written")
        await world.broker.until(lambda: len(world.broker.sent) == 1)

        def fence(link: Link, command: pb.BaseCommand) -> bool:
            link.write(commands.error(command.producer.request_id, pb.ProducerFenced, "another one"))
            return True

        world.broker.handlers[K.PRODUCER] = fence
        connection = world.publisher._attached.connection
        assert connection is not None
        world.broker.cut()
        await connection.wait_closed()
        world.add(b"never written")
        await flushed(world)
        assert world.failed() == [(b"written", ConnectionLost), (b"never written", Fenced)]
        lost = world.told[0][2]
        assert lost is not None
        assert lost.outcome is Outcome.INDEFINITE
        assert isinstance(lost.__cause__, Fenced)
        with pytest.raises(Fenced):
            world.add(b"more")


async def test_unanswered_message_may_be_stored_and_is_not_resent() -> None:
    async with a_world(receipts=False, send_timeout_s=0.05) as world:
        world.add(b"a")
        await world.broker.until(lambda: len(world.broker.sent) == 1)
        await flushed(world)
        assert world.failed() == [(b"a", TimedOut)]
        error = world.told[0][2]
        assert error is not None
        assert error.outcome is Outcome.INDEFINITE
        world.broker.sent[0].receipt()  # late
        world.publisher.opening = replace(world.publisher.opening, send_timeout_s=60.0)
        world.broker.receipts = True
        world.broker.cut()
        world.add(b"b")
        await flushed(world)
        assert world.stored() == [b"b"]
        assert payloads(world.broker.sent) == [b"a", b"b"]
        assert world.publisher.counters.timeouts == 1


async def test_failure_nobody_asked_about_is_raised_by_flush_once() -> None:
    async with a_world(receipts=False, send_timeout_s=0.05) as world:
        assert world.budget.take(1)
        world.publisher.add(b"a", None, None)
        with pytest.raises(TimedOut):
            await world.publisher.flush()
        await world.publisher.flush()


async def test_closing_without_flush_tells_what_may_be_stored() -> None:
    async with a_world(receipts=False) as world:
        world.add(b"a")
        await world.broker.until(lambda: len(world.broker.sent) == 1)
        await world.publisher.close(flush=False)
        assert world.failed() == [(b"a", ConnectionLost)]
        with pytest.raises(Closed):
            world.add(b"b")
        assert len(world.broker.kinds(K.CLOSE_PRODUCER)) == 1


async def test_closing_waits_for_what_was_given() -> None:
    async with a_world(batching=Batching(delay_s=60, linger=True)) as world:
        world.add(b"a")
        world.add(b"b")
        await world.publisher.close()
        assert world.stored() == [b"a", b"b"]


async def test_callback_that_raises_does_not_stop_others() -> None:
    async with a_world() as world:
        assert world.budget.take(1)
        world.publisher.add(b"a", None, lambda found, error: 1 // 0)  # type: ignore[arg-type, return-value]
        world.add(b"b")
        await flushed(world)
        assert world.stored() == [b"b"]

"""Stored once and in order, or the sender hears why not: through losses, moves, refusals, timeouts and ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from magnetar.base.errors import (
    BadChecksum,
    Closed,
    ConnectionLost,
    Fenced,
    LimitExceeded,
    MagnetarError,
    Outcome,
    ProducerBusy,
    Sealed,
    TimedOut,
)
from magnetar.client.batch import Batching
from magnetar.client.budget import Budget
from magnetar.client.outgoing import Fields
from magnetar.client.producing import Opening
from magnetar.client.publisher import Publisher
from magnetar.wire import commands, message
from magnetar.wire.ids import MessageId
from magnetar.wire.proto import pb
from tests.unit.client.world import Broker, Link, Sent, a_broker, a_lookup, run

K = pb.BaseCommand
TOPIC = "persistent://public/default/t"


class World:
    def __init__(self, broker: Broker, publisher: Publisher, budget: Budget) -> None:
        self.broker = broker
        self.publisher = publisher
        self.budget = budget
        self.told: list[tuple[bytes, MessageId | None, MagnetarError | None]] = []

    def add(self, payload: bytes, **said: Any) -> None:
        fields = None
        if said:
            fields = Fields()
            for name, value in said.items():
                setattr(fields, name, value)
        assert self.budget.take(len(payload))
        self.publisher.add(payload, fields, lambda found, error: self.told.append((payload, found, error)))

    def stored(self) -> list[bytes]:
        return [payload for payload, found, _ in self.told if found is not None]

    def failed(self) -> list[tuple[bytes, type[MagnetarError]]]:
        return [(payload, type(error)) for payload, _, error in self.told if error is not None]


@asynccontextmanager
async def a_world(*, receipts: bool = True, **opening: Any) -> AsyncIterator[World]:
    opening.setdefault("batching", None)
    opening.setdefault("operation_timeout_s", 5.0)
    async with a_broker() as broker, a_lookup(broker) as lookup:
        broker.receipts = receipts
        budget = Budget()
        publisher = Publisher(lookup, TOPIC, Opening(**opening), budget)
        await publisher.start()
        world = World(broker, publisher, budget)
        yield world
        if publisher.error is None:
            await publisher.close(flush=False)
        assert (budget.bytes, budget.messages) == (0, 0), "room was not given back"


def payloads(sent: list[Sent]) -> list[bytes]:
    return [message.open_entry(one.entry).payload for one in sent]


async def flushed(world: World) -> None:
    async with asyncio.timeout(10):
        await world.publisher.flush()


def test_receipts_tell_where_each_message_is():
    async def body() -> None:
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

    run(body)


def test_a_lost_connection_sends_everything_unanswered_again_in_order():
    async def body() -> None:
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

    run(body)


def test_a_producer_the_broker_closes_goes_where_it_is_told_and_sends_again():
    async def body() -> None:
        async with a_world(receipts=False) as world:
            world.add(b"a")
            await world.broker.until(lambda: len(world.broker.sent) == 1)
            lookups = len(world.broker.kinds(K.LOOKUP))
            world.broker.receipts = True
            world.broker.links[0].write(commands.close_producer(world.publisher.id, url=world.broker.url))
            await flushed(world)
            assert world.stored() == [b"a"]
            assert len(world.broker.kinds(K.LOOKUP)) == lookups, "it was told where to go"

    run(body)


def test_a_receipt_out_of_order_begins_again():
    async def body() -> None:
        async with a_world(receipts=False) as world:
            world.add(b"a")
            world.add(b"b")
            await world.broker.until(lambda: len(world.broker.sent) == 2)
            world.broker.receipts = True
            world.broker.sent[1].receipt()
            await flushed(world)
            assert world.stored() == [b"a", b"b"]
            assert payloads(world.broker.sent) == [b"a", b"b", b"a", b"b"]

    run(body)


def test_a_message_damaged_on_the_way_fails_alone():
    async def body() -> None:
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

    run(body)


def test_a_refused_send_is_sent_again_on_another_connection():
    async def body() -> None:
        async with a_world(receipts=False) as world:
            world.add(b"a")
            await world.broker.until(lambda: len(world.broker.sent) == 1)
            world.broker.receipts = True
            world.broker.links[0].write(commands.send_error(world.publisher.id, 0, pb.PersistenceError, "disk"))
            await flushed(world)
            assert world.stored() == [b"a"]

    run(body)


def test_a_terminated_topic_refuses_each_message_for_sure():
    async def body() -> None:
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

    run(body)


def test_a_fenced_producer_says_of_each_message_what_it_knows():
    async def body() -> None:
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

    run(body)


def test_a_message_nobody_answers_may_be_stored_and_is_not_sent_again():
    async def body() -> None:
        async with a_world(receipts=False, send_timeout_s=0.5) as world:
            world.add(b"a")
            await flushed(world)
            assert world.failed() == [(b"a", TimedOut)]
            error = world.told[0][2]
            assert error is not None
            assert error.outcome is Outcome.INDEFINITE
            world.broker.sent[0].receipt()  # late
            world.broker.receipts = True
            world.broker.cut()
            world.add(b"b")
            await flushed(world)
            assert world.stored() == [b"b"]
            assert payloads(world.broker.sent) == [b"a", b"b"]
            assert world.publisher.counters.timeouts == 1

    run(body)


def test_a_failure_nobody_asked_about_is_raised_by_flush_once():
    async def body() -> None:
        async with a_world(receipts=False, send_timeout_s=0.05) as world:
            assert world.budget.take(1)
            world.publisher.add(b"a", None, None)
            with pytest.raises(TimedOut):
                await world.publisher.flush()
            await world.publisher.flush()

    run(body)


def test_closing_without_flush_tells_what_may_be_stored():
    async def body() -> None:
        async with a_world(receipts=False) as world:
            world.add(b"a")
            await world.broker.until(lambda: len(world.broker.sent) == 1)
            await world.publisher.close(flush=False)
            assert world.failed() == [(b"a", ConnectionLost)]
            with pytest.raises(Closed):
                world.add(b"b")
            assert len(world.broker.kinds(K.CLOSE_PRODUCER)) == 1

    run(body)


def test_closing_waits_for_what_was_given():
    async def body() -> None:
        async with a_world(batching=Batching(delay_s=60, linger=True)) as world:
            world.add(b"a")
            world.add(b"b")
            await world.publisher.close()
            assert world.stored() == [b"a", b"b"]

    run(body)


def test_a_callback_that_raises_does_not_stop_the_others():
    async def body() -> None:
        async with a_world() as world:
            assert world.budget.take(1)
            world.publisher.add(b"a", None, lambda found, error: 1 // 0)  # type: ignore[arg-type, return-value]
            world.add(b"b")
            await flushed(world)
            assert world.stored() == [b"b"]

    run(body)


# Batches


def test_messages_of_one_turn_share_an_entry_at_once():
    async def body() -> None:
        async with a_world(batching=Batching(delay_s=60)) as world:
            for number in range(5):
                world.add(b"%d" % number)
            await world.broker.until(lambda: len(world.broker.sent) == 1)
            assert world.broker.sent[0].messages == 5
            await flushed(world)
            assert [found for _, found, _ in world.told] == [MessageId(1, 0, -1, place, 5) for place in range(5)]

    run(body)


def test_while_one_is_on_its_way_a_batch_grows_and_follows_the_receipt():
    async def body() -> None:
        async with a_world(receipts=False, batching=Batching(delay_s=60)) as world:
            world.add(b"a")
            await world.broker.until(lambda: len(world.broker.sent) == 1)
            for number in range(3):
                world.add(b"%d" % number)
                await asyncio.sleep(0)
            assert len(world.broker.sent) == 1
            world.broker.receipts = True
            world.broker.sent[0].receipt()
            await world.broker.until(lambda: len(world.broker.sent) == 2)
            assert world.broker.sent[1].messages == 3

    run(body)


@pytest.mark.parametrize(
    ("batching", "expected"),
    [
        (Batching(messages_max=2, delay_s=60, linger=True), [2, 2, 1]),
        (Batching(bytes_max=60, delay_s=60, linger=True), [3, 2]),
        (Batching(delay_s=60, linger=True), [5]),
        (None, [1, 1, 1, 1, 1]),
    ],
)
def test_batches_close_at_their_bounds(batching, expected):
    async def body() -> None:
        async with a_world(batching=batching) as world:
            for number in range(5):
                world.add(b"%d" % number)
            await flushed(world)
            assert [one.messages for one in world.broker.sent] == expected
            assert [one.sequence for one in world.broker.sent] == [sum(expected[:at]) for at in range(len(expected))]

    run(body)


def test_a_lingering_batch_is_closed_by_the_clock():
    async def body() -> None:
        async with a_world(batching=Batching(delay_s=0.01, linger=True)) as world:
            world.add(b"a")
            world.add(b"b")
            await world.broker.until(lambda: len(world.broker.sent) == 1)
            assert world.broker.sent[0].messages == 2

    run(body)


def test_batches_by_key_hold_one_key_each():
    async def body() -> None:
        async with a_world(batching=Batching(delay_s=60, by_key=True, linger=True)) as world:
            for number, key in enumerate("abab"):
                world.add(b"%d" % number, key=key)
            await flushed(world)
            keys = [message.open_entry(one.entry).metadata.partition_key for one in world.broker.sent]
            assert keys == ["a", "b"]
            assert [(one.sequence, one.highest) for one in world.broker.sent] == [(0, 1), (2, 3)]

    run(body)


def test_a_delayed_message_travels_alone_and_in_its_place():
    async def body() -> None:
        async with a_world(batching=Batching(delay_s=60, linger=True)) as world:
            world.add(b"a")
            world.add(b"b", deliver_at=1_900_000_000_000)
            world.add(b"c")
            await flushed(world)
            entries = [message.open_entry(one.entry) for one in world.broker.sent]
            assert [entry.payload for entry in entries] == [b"a", b"b", b"c"]
            assert [entry.metadata.deliver_at_time for entry in entries] == [0, 1_900_000_000_000, 0]

    run(body)


# Chunks and sizes


def test_a_large_message_is_chunked_and_told_once():
    async def body() -> None:
        async with a_broker() as broker, a_lookup(broker) as lookup:
            broker.message_bytes_max = 400
            budget = Budget()
            publisher = Publisher(lookup, TOPIC, Opening(batching=None, chunking=True), budget)
            await publisher.start()
            world = World(broker, publisher, budget)
            world.add(b"x" * 1000)
            world.add(b"small")
            await publisher.flush()
            assert [one.sequence for one in broker.sent] == [0, 0, 0, 0, 1][-len(broker.sent) :]
            (_, found, _), (_, small, _) = world.told
            last = len(broker.sent) - 2
            assert found == MessageId(1, last)
            assert found is not None
            assert found.first_chunk == MessageId(1, 0)
            assert small == MessageId(1, last + 1)
            await publisher.close()
            assert budget.bytes == 0

    run(body)


def test_a_message_too_large_is_refused_and_takes_no_room():
    async def body() -> None:
        async with a_broker() as broker, a_lookup(broker) as lookup:
            broker.message_bytes_max = 400
            budget = Budget()
            publisher = Publisher(lookup, TOPIC, Opening(), budget)
            await publisher.start()
            world = World(broker, publisher, budget)
            with pytest.raises(LimitExceeded):
                world.add(b"x" * 1000)
            world.add(b"x" * 390)  # fits by itself, but not with its metadata: found when the batch is closed
            await publisher.flush()
            assert world.failed() == [(b"x" * 390, LimitExceeded)]
            assert budget.bytes == 0
            await publisher.close()

    run(body)


# Opening


def test_a_busy_name_fails_at_once():
    async def body() -> None:
        async with a_broker() as broker, a_lookup(broker) as lookup:
            broker.handlers[K.PRODUCER] = lambda link, command: (
                link.write(commands.error(command.producer.request_id, pb.ProducerBusy, "taken")) or True
            )
            publisher = Publisher(lookup, TOPIC, Opening(name="mine"), Budget())
            with pytest.raises(ProducerBusy):
                await publisher.start()
            assert len(broker.kinds(K.PRODUCER)) == 1
            assert broker.kinds(K.PRODUCER)[0].producer.user_provided_producer_name

    run(body)


def test_a_broker_that_is_not_ready_is_asked_again_with_a_higher_epoch():
    async def body() -> None:
        async with a_broker() as broker, a_lookup(broker) as lookup:

            def not_yet(link: Link, command: pb.BaseCommand) -> bool:
                if command.producer.epoch >= 2:
                    return False
                link.write(commands.error(command.producer.request_id, pb.ServiceNotReady, "starting"))
                return True

            broker.handlers[K.PRODUCER] = not_yet
            publisher = Publisher(lookup, TOPIC, Opening(), Budget())
            await publisher.start()
            assert [command.producer.epoch for command in broker.kinds(K.PRODUCER)] == [0, 1, 2]
            await publisher.close()

    run(body)


def test_a_first_attach_that_never_succeeds_is_timed_out_with_the_reason():
    async def body() -> None:
        async with a_broker() as broker, a_lookup(broker) as lookup:
            broker.handlers[K.PRODUCER] = lambda link, command: (
                link.write(commands.error(command.producer.request_id, pb.ServiceNotReady, "starting")) or True
            )
            publisher = Publisher(lookup, TOPIC, Opening(operation_timeout_s=0.3), Budget())
            with pytest.raises(TimedOut, match="starting"):
                await publisher.start()

    run(body)


def test_a_cancelled_start_leaves_no_producer_behind():
    async def body() -> None:
        async with a_broker() as broker, a_lookup(broker) as lookup:
            broker.handlers[K.PRODUCER] = lambda link, command: True
            publisher = Publisher(lookup, TOPIC, Opening(), Budget())
            task = asyncio.create_task(publisher.start())
            await broker.until(lambda: bool(broker.kinds(K.PRODUCER)))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await broker.until(lambda: bool(broker.kinds(K.CLOSE_PRODUCER)))

    run(body)


def test_sequence_ids_go_on_where_the_broker_says():
    async def body() -> None:
        async with a_broker() as broker, a_lookup(broker) as lookup:

            def known(link: Link, command: pb.BaseCommand) -> bool:
                link.write(commands.producer_success(command.producer.request_id, "mine", last_sequence_id=41))
                return True

            broker.handlers[K.PRODUCER] = known
            for initial, expected in ((None, 42), (7, 7)):
                publisher = Publisher(
                    lookup, TOPIC, Opening(name="mine", initial_sequence_id=initial, batching=None), Budget()
                )
                await publisher.start()
                world = World(broker, publisher, publisher._budget)
                world.add(b"a")
                world.add(b"b", sequence=100)
                world.add(b"c")
                await publisher.flush()
                assert [one.sequence for one in broker.sent[-3:]] == [expected, 100, 101]
                await publisher.close()

    run(body)


def test_the_topics_epoch_and_the_schemas_version_are_kept():
    async def body() -> None:
        async with a_broker() as broker, a_lookup(broker) as lookup:

            def exclusive(link: Link, command: pb.BaseCommand) -> bool:
                link.write(
                    commands.producer_success(
                        command.producer.request_id, "mine", topic_epoch=5, schema_version=b"\0" * 7 + b"\3"
                    )
                )
                return True

            broker.handlers[K.PRODUCER] = exclusive
            schema = pb.Schema(name="s", schema_data=b"", type=pb.Schema.String)
            opening = Opening(access_mode=pb.Exclusive, schema=schema, properties={"who": "test"}, batching=None)
            publisher = Publisher(lookup, TOPIC, opening, Budget())
            await publisher.start()
            world = World(broker, publisher, publisher._budget)
            world.add(b"a")
            await publisher.flush()
            assert message.open_entry(broker.sent[0].entry).metadata.schema_version == b"\0" * 7 + b"\3"
            broker.cut()
            await broker.until(lambda: len(broker.kinds(K.PRODUCER)) == 2)
            first, again = (command.producer for command in broker.kinds(K.PRODUCER))
            assert first.producer_access_mode == pb.Exclusive
            assert (first.schema.type, first.metadata[0].value) == (pb.Schema.String, "test")
            assert not first.HasField("topic_epoch")
            assert again.topic_epoch == 5
            await publisher.close()

    run(body)

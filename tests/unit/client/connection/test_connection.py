"""Replies find the request they end, and when the connection ends everybody hears it once."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import (
    ConnectionLost,
    MagnetarError,
    NotAuthorized,
    NotReady,
    Outcome,
    ProducerBusy,
    TimedOut,
    TopicNotFound,
)
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.error_codes import BY_CODE, error_of
from magnetar.wire import broker_frames, commands
from magnetar.wire.proto import pb
from tests.unit.client.world import Broker, Link, a_broker, a_lookup

pytestmark = pytest.mark.real_clock

K = pb.BaseCommand


class Heard:
    """Both sinks at once, keeping what they are told."""

    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def receipt(self, sequence: int, highest: int, ledger: int, entry: int) -> None:
        self.told.append(("receipt", sequence, highest, ledger, entry))

    def send_error(self, sequence: int, error: MagnetarError) -> None:
        self.told.append(("send error", sequence, type(error)))

    def message(self, parts: tuple[object, ...], entry: bytes) -> None:
        self.told.append(("message", parts, entry))

    def active(self, is_active: bool) -> None:
        self.told.append(("active", is_active))

    def reached_end(self) -> None:
        self.told.append(("end",))

    def closed_by_broker(self, url: str) -> None:
        self.told.append(("closed", url))

    def connection_lost(self, error: MagnetarError) -> None:
        self.told.append(("lost",))

    def writable_again(self) -> None:
        self.told.append(("writable",))


def a_seek(connection: Connection) -> tuple[pb.BaseCommand, int]:
    command = pb.BaseCommand(type=K.SEEK)
    command.seek.consumer_id = 0
    command.seek.request_id = connection.next_request_id()
    return command, command.seek.request_id


async def asked(connection: Connection, timeout_s: float = 10.0) -> pb.BaseCommand:
    command, request_id = a_seek(connection)
    return await connection.request(command, request_id, timeout_s=timeout_s)


async def pinged(broker: Broker, connection: Connection) -> None:
    """Until everything the broker wrote before has arrived."""
    broker.handlers[K.SEEK] = lambda link, command: link.write(commands.success(command.seek.request_id))
    await asked(connection)


async def test_what_broker_announces_is_known() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        broker.message_bytes_max = 1234
        connection = await lookup.service()
        assert (connection.max_message_size, connection.server_version) == (1234, "scripted")
        assert connection.protocol_version == 21
        told = broker.kinds(K.CONNECT)[0].connect
        assert told.client_version.startswith("Magnetar-")
        assert told.feature_flags.magnetar_extensions == 1


async def test_replies_out_of_order_find_their_requests() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        waiting: list[int] = []

        def hold(link: Link, command: pb.BaseCommand) -> None:
            waiting.append(command.seek.request_id)
            if len(waiting) == 3:
                link.write(commands.success(waiting[2]))
                link.write(commands.error(waiting[0], pb.TopicNotFound, "no such topic"))
                link.write(commands.success(waiting[1]))

        broker.handlers[K.SEEK] = hold
        connection = await lookup.service()
        first, second, third = await asyncio.gather(*(asked(connection) for _ in range(3)), return_exceptions=True)
        assert isinstance(first, TopicNotFound)
        assert isinstance(second, pb.BaseCommand)
        assert isinstance(third, pb.BaseCommand)


async def test_reply_of_another_kind_does_not_end_request() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:

        def confuse(link: Link, command: pb.BaseCommand) -> None:
            link.write(commands.partitions(command.seek.request_id, 3))
            link.write(commands.success(command.seek.request_id))

        broker.handlers[K.SEEK] = confuse
        reply = await asked(await lookup.service())
        assert reply.type == K.SUCCESS


async def test_silence_times_out_with_unknown_outcome() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        held: list[int] = []
        broker.handlers[K.SEEK] = lambda link, command: held.append(command.seek.request_id)
        connection = await lookup.service()
        with pytest.raises(TimedOut) as caught:
            await asked(connection, timeout_s=0.01)
        assert caught.value.outcome is Outcome.INDEFINITE
        broker.links[0].write(commands.success(held[0]))  # late: nobody is confused
        await pinged(broker, connection)


async def test_cancelled_request_leaves_nothing_behind() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        connection = await lookup.service()
        task = asyncio.create_task(asked(connection))
        await broker.until(lambda: bool(broker.kinds(K.SEEK)))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert connection.idle


async def test_lost_connection_fails_requests_and_tells_every_sink_once() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        connection = await lookup.service()
        producer, consumer = Heard(), Heard()
        connection.attach_producer(1, producer)
        connection.attach_consumer(1, consumer)
        task = asyncio.create_task(asked(connection))
        await broker.until(lambda: bool(broker.kinds(K.SEEK)))
        broker.cut()
        with pytest.raises(ConnectionLost):
            await task
        assert (producer.told, consumer.told) == ([("lost",)], [("lost",)])
        assert connection.closed
        with pytest.raises(NotReady):
            await asked(connection)
        connection.write(b"into the void")
        assert await lookup.service() is not connection


async def test_pushes_go_to_sink_they_are_for() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        connection = await lookup.service()
        producer, consumer, other = Heard(), Heard(), Heard()
        connection.attach_producer(4, producer)
        connection.attach_consumer(4, consumer)
        connection.attach_consumer(5, other)
        link = broker.links[0]
        link.write(broker_frames.receipt(4, 9, -1, 1, 2))
        link.write(broker_frames.receipt(77, 9, -1, 1, 2))  # closed meanwhile
        link.write(broker_frames.message(4, 1, 2, b"entry", redelivery_count=3))
        link.write(commands.send_error(4, 10, pb.TopicTerminatedError, "over"))
        link.write(commands.active_consumer_change(4, True))
        link.write(commands.reached_end_of_topic(5))
        link.write(commands.close_consumer(4, url="pulsar://elsewhere:1"))
        link.write(broker_frames.message(4, 1, 3, b"late"))
        link.write(commands.close_producer(4))
        await pinged(broker, connection)
        assert [told[0] for told in producer.told] == ["receipt", "send error", "closed"]
        assert producer.told[0] == ("receipt", 9, -1, 1, 2)
        assert consumer.told == [
            ("message", (4, 1, 2, -1, 3, None, -1), b"entry"),
            ("active", True),
            ("closed", "pulsar://elsewhere:1"),
        ]
        assert other.told == [("end",)]


async def test_frames_cut_anywhere_are_put_together_again() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        connection = await lookup.service()
        consumer = Heard()
        connection.attach_consumer(0, consumer)
        stream = b"".join(broker_frames.message(0, 1, number, b"x" * number) for number in range(30))
        for position in range(0, len(stream), 7):
            connection.data_received(stream[position : position + 7])
        assert [told[2] for told in consumer.told] == [b"x" * number for number in range(30)]


@pytest.mark.parametrize("bad", [b"\xff\xff\xff\xff\0\0\0\4", b"\0\0\0\5\0\0\0\1\xff"])
async def test_frame_that_lies_ends_connection(bad) -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        connection = await lookup.service()
        broker.links[0].write(bad)
        await connection.wait_closed()
        assert connection.why is not None


async def test_broker_that_refuses_to_connect_is_heard() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:

        def refuse(link: Link, command: pb.BaseCommand) -> bool:
            link.write(commands.error(commands.FROM_BROKER, pb.AuthorizationError, "not you"))
            return True

        broker.handlers[K.CONNECT] = refuse
        with pytest.raises(NotAuthorized):
            await lookup.service()


async def test_producer_queued_for_exclusivity_waits_beyond_deadline() -> None:
    async with a_broker() as broker, a_lookup(broker) as lookup:
        asked_ids: list[int] = []

        def queue(link: Link, command: pb.BaseCommand) -> bool:
            asked_ids.append(command.producer.request_id)
            link.write(commands.producer_success(command.producer.request_id, "p", ready=False))
            return True

        broker.handlers[K.PRODUCER] = queue
        connection = await lookup.service()
        command = pb.BaseCommand(type=K.PRODUCER)
        command.producer.topic = "persistent://public/default/t"
        command.producer.producer_id = 1
        command.producer.request_id = connection.next_request_id()
        task = asyncio.create_task(connection.request(command, command.producer.request_id, timeout_s=60))
        await broker.until(lambda: bool(asked_ids))
        await pinged(broker, connection)
        waits = connection._requests[asked_ids[0]]
        assert waits.timer is None
        broker.links[0].write(commands.producer_success(asked_ids[0], "p"))
        assert (await task).producer_success.producer_ready


@pytest.mark.parametrize("code", sorted(pb.ServerError.values()))
def test_every_code_of_protocol_has_its_error(code):
    assert code in BY_CODE
    error = error_of(code, "why", topic="t")
    assert error.wire_code == code
    assert "why" in str(error)


def test_unknown_code_may_have_happened():
    assert error_of(999, "").outcome is Outcome.INDEFINITE
    assert isinstance(error_of(16, "busy"), ProducerBusy)

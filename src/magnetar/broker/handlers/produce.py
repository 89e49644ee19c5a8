"""PRODUCER, SEND and CLOSE_PRODUCER: the registration of producers and the entry of published messages."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import BadFrame, LimitExceeded
from magnetar.base.limits import CONNECTION_PRODUCERS_MAX
from magnetar.base.names import Domain, TopicName, check_given, topic_name
from magnetar.broker.handlers.requests import error_reply, start, success
from magnetar.broker.handlers.scalable import check_plain
from magnetar.topic.producers.access import Mode
from magnetar.topic.producers.producer import Producer
from magnetar.topic.topic import Topic
from magnetar.wire import commands
from magnetar.wire.claims import first_false
from magnetar.wire.frames import Frame, read_send
from magnetar.wire.proto import pb
from magnetar.wire.send_reader import gather_sends

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection

INT64_MAX = 2**63 - 1  # sequence ids are unsigned everywhere but in PRODUCER_SUCCESS

_NOT_PLAIN = (
    "this message belongs to a transaction, is a marker, or was replicated from another cluster: "
    "not supported by this version of Magnetar"
)


def producer(connection: Connection, command: pb.BaseCommand) -> None:
    asked = command.producer
    if asked.producer_id in connection.making_producers:
        # The client timed out and repeats the request: as in Pulsar, the answer makes it retry.
        text = "this producer is already being created: try again"
        connection.write(commands.error(asked.request_id, pb.ServiceNotReady, text))
        return
    known = connection.producers.get(asked.producer_id)
    if known is not None and not known.closed and known.epoch >= asked.epoch:
        connection.write(_success(asked.request_id, known, known.topic.highest_sequence(known.name)))
        return
    if known is None and len(connection.producers) + len(connection.making_producers) >= CONNECTION_PRODUCERS_MAX:
        text = f"a connection must not have more than {CONNECTION_PRODUCERS_MAX} producers: open another connection"
        connection.refused.add()
        connection.write(commands.error(asked.request_id, LimitExceeded.wire, text))
        return
    task = start(connection, _producer(connection, asked), error_reply(asked.request_id))
    if task is not None:
        connection.making_producers[asked.producer_id] = task


async def _producer(connection: Connection, asked: pb.CommandProducer) -> bytes | None:
    node = connection.node
    reserved = ""
    try:
        name = topic_name(asked.topic)
        check_plain(node, name)
        node.allow(connection.principal, "produce", str(name))
        if node.blocked is not None and name.domain is not Domain.NON_PERSISTENT:
            raise node.blocked.with_traceback(None)
        check_given(asked.producer_name, "producer")
        check_given(asked.initial_subscription_name, "subscription")
        size = connection.kept.check(asked, "producer", asked.producer_name)
        topic = await connection.creations.paced(partial(node.topics.get, name, create=True))
        mode = Mode(int(asked.producer_access_mode))
        if name.is_segment and mode is not Mode.SHARED and not asked.user_provided_producer_name:
            reserved = _generated_name(connection, name, asked.producer_name)
        made = Producer(
            asked.producer_id,
            reserved or asked.producer_name or node.producer_name(),
            connection,
            topic,
            epoch=asked.epoch,
            user_named=asked.user_provided_producer_name,
            access_mode=mode,
        )

        def queued() -> None:
            connection.write(_queued(asked.request_id, made))

        await topic.admission.produce(made.base, connection.client_version, mode, queued)
        made.metadata = {item.key: item.value for item in asked.metadata}
        made.encrypted = asked.encrypted
        made.connected_ms = node.runtime.wall()
        if asked.HasField("schema"):
            made.schema_version = await node.schemas.producer_schema(topic, asked.schema)
        if asked.initial_subscription_name:
            await topic.ensure_subscription(asked.initial_subscription_name)
        epoch = asked.topic_epoch if asked.HasField("topic_epoch") else None
        if made.sink and isinstance(topic, Topic):
            await topic.remember_sinks()
        await node.attaching.step()
        await topic.producers.join(made, epoch, queued)
        try:
            await topic.admission.produced(made.base, mode)
        except BaseException:
            topic.producers.leave(made)
            raise
    finally:
        if reserved:
            connection.producer_names.settle(name, reserved)
        if ours := connection.making_producers.get(asked.producer_id) is asyncio.current_task():
            del connection.making_producers[asked.producer_id]
    if connection.closed or not ours:
        topic.producers.leave(made)  # gone, or closed by its client, while it was being made
        return None
    connection.producers[asked.producer_id] = made
    connection.kept.add("producer", asked.producer_id, size)
    return _success(asked.request_id, made, topic.highest_sequence(made.name))


def _generated_name(connection: Connection, segment: TopicName, given: str) -> str:
    """One name for all segments of an exclusive producer without a name."""
    if given:
        connection.producer_names.remember(segment, given)
        return given
    there = [one for one in connection.producers.values() if not one.closed and one.topic.name == segment]
    return connection.producer_names.reserve(segment, {one.name for one in there})


def _success(request_id: int, made: Producer, last_sequence_id: int) -> bytes:
    return commands.producer_success(
        request_id,
        made.name,
        last_sequence_id=min(last_sequence_id, INT64_MAX),
        schema_version=made.schema_version,
        topic_epoch=made.topic_epoch,
    )


def _queued(request_id: int, made: Producer) -> bytes:
    """The producer waits for exclusivity; a second PRODUCER_SUCCESS with the same request id follows."""
    return commands.producer_success(request_id, made.name, ready=False)


def take_sends(connection: Connection, data: bytes, found: list[Frame], index: int) -> int:
    """Processes consecutive sends of one producer from frame `index` on; returns the first other frame."""
    sends = gather_sends(data, found, index)
    made = connection.producers.get(sends.producer_id)
    if made is None:
        # Upstream drops the connection for a producer it never knew, and ignores sends behind a close.
        making = sends.producer_id in connection.making_producers
        if not making and sends.producer_id not in connection.closed_producers:
            raise BadFrame(f"SEND for producer {sends.producer_id}, which was never created on this connection")
        return max(sends.stop, index + 1)
    if sends.messages != len(sends.counts):
        false = first_false(sends)
        if false is not None:
            return _refuse_claim(connection, made, data, found, index, *false)
    if len(sends):
        connection.held(len(sends.body))
        made.topic.publish(made, sends)
    if sends.bad >= 0:
        made.answer(
            commands.send_error(
                made.id, sends.bad_sequence_id, pb.ChecksumError, "the checksum does not match: send it again"
            )
        )
        return sends.stop + 1
    if sends.stop == index:
        parts = read_send(data, found[index][0], found[index][1])
        made.answer(commands.send_error(made.id, parts[1], pb.NotAllowedError, _NOT_PLAIN))
        return index + 1
    return sends.stop


def _refuse_claim(
    connection: Connection, made: Producer, data: bytes, found: list[Frame], index: int, place: int, why: str
) -> int:
    """Processes the sends before the one with a false count, and answers that one separately."""
    if place:
        before = gather_sends(data, found[: index + place], index)
        connection.held(len(before.body))
        made.topic.publish(made, before)
    sequence_id = read_send(data, found[index + place][0], found[index + place][1])[1]
    made.answer(commands.send_error(made.id, sequence_id, pb.NotAllowedError, why))
    return index + place + 1


def close_producer(connection: Connection, command: pb.BaseCommand) -> None:
    asked = command.close_producer
    made = connection.producers.pop(asked.producer_id, None)
    connection.kept.remove("producer", asked.producer_id)
    connection.remember_closed(asked.producer_id)
    making = connection.making_producers.pop(asked.producer_id, None)
    if making is not None:
        making.cancel()  # it may wait for exclusivity, and keep others out as long as it does
    if made is None:
        connection.write(success(asked.request_id))  # unknown ids are closed already
        return

    def idle() -> None:
        made.topic.producers.leave(made)
        connection.write(success(asked.request_id))

    made.when_idle(idle)

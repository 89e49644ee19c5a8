"""PRODUCER, SEND and CLOSE_PRODUCER: the registration of producers and the entry of published messages."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import BadFrame, LimitExceeded
from magnetar.base.limits import CONNECTION_PRODUCERS_MAX, SEND_COST
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
from magnetar.wire.send_reader import SendRun, gather_next, gather_sends

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection

INT64_MAX = 2**63 - 1  # sequence ids are unsigned everywhere but in PRODUCER_SUCCESS

_NOT_PLAIN = (
    "this message belongs to a transaction, is a marker, or was replicated from another cluster: "
    "not supported by this version of Magnetar"
)


def producer(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.producer
    if request.producer_id in connection.making_producers:
        # The client timed out and repeats the request: as in Pulsar, the answer makes it retry.
        text = "this producer is already being created: try again"
        connection.write(commands.error(request.request_id, pb.ServiceNotReady, text))
        return
    existing = connection.producers.get(request.producer_id)
    if existing is not None and not existing.closed and existing.epoch >= request.epoch:
        connection.write(_success(request.request_id, existing, existing.topic.highest_sequence(existing.name)))
        return
    if existing is None and len(connection.producers) + len(connection.making_producers) >= CONNECTION_PRODUCERS_MAX:
        text = f"a connection must not have more than {CONNECTION_PRODUCERS_MAX} producers: open another connection"
        connection.refused.add()
        connection.write(commands.error(request.request_id, LimitExceeded.wire, text))
        return
    task = start(connection, _producer(connection, request), error_reply(request.request_id))
    if task is not None:
        connection.making_producers[request.producer_id] = task


async def _producer(connection: Connection, request: pb.CommandProducer) -> bytes | None:
    node = connection.node
    reserved = ""
    try:
        name = topic_name(request.topic)
        check_plain(node, name)
        node.allow(connection.principal, "produce", str(name))
        if node.blocked is not None and name.domain is not Domain.NON_PERSISTENT:
            raise node.blocked.with_traceback(None)
        check_given(request.producer_name, "producer")
        check_given(request.initial_subscription_name, "subscription")
        size = connection.kept.check(request, "producer", request.producer_name)
        topic = await connection.creations.paced(partial(node.topics.get, name, create=True))
        mode = Mode(int(request.producer_access_mode))
        if name.is_segment and mode is not Mode.SHARED and not request.user_provided_producer_name:
            reserved = _generated_name(connection, name, request.producer_name)
        producer = Producer(
            request.producer_id,
            reserved or request.producer_name or node.producer_name(),
            connection,
            topic,
            epoch=request.epoch,
            user_named=request.user_provided_producer_name,
            access_mode=mode,
        )

        def queued() -> None:
            connection.write(_queued(request.request_id, producer))

        await topic.admission.produce(producer.base, connection.client_version, mode, queued)
        producer.metadata = {item.key: item.value for item in request.metadata}
        producer.encrypted = request.encrypted
        producer.connected_ms = node.runtime.wall()
        if request.HasField("schema"):
            producer.schema_version = await node.schemas.producer_schema(topic, request.schema)
        if request.initial_subscription_name:
            await topic.ensure_subscription(request.initial_subscription_name)
        epoch = request.topic_epoch if request.HasField("topic_epoch") else None
        if producer.sink and isinstance(topic, Topic):
            await topic.remember_sinks()
        await node.attaching.step()
        await topic.producers.join(producer, epoch, queued)
        try:
            await topic.admission.produced(producer.base, mode)
        except BaseException:
            topic.producers.leave(producer)
            raise
    finally:
        if reserved:
            connection.producer_names.settle(name, reserved)
        if ours := connection.making_producers.get(request.producer_id) is asyncio.current_task():
            del connection.making_producers[request.producer_id]
    if connection.closed or not ours:
        topic.producers.leave(producer)  # gone, or closed by its client, while it was being made
        return None
    connection.producers[request.producer_id] = producer
    connection.kept.add("producer", request.producer_id, size)
    return _success(request.request_id, producer, topic.highest_sequence(producer.name))


def _generated_name(connection: Connection, segment: TopicName, requested: str) -> str:
    """One name for all segments of an exclusive producer without a name."""
    if requested:
        connection.producer_names.remember(segment, requested)
        return requested
    there = [one for one in connection.producers.values() if not one.closed and one.topic.name == segment]
    return connection.producer_names.reserve(segment, {one.name for one in there})


def _success(request_id: int, producer: Producer, last_sequence_id: int) -> bytes:
    return commands.producer_success(
        request_id,
        producer.name,
        last_sequence_id=min(last_sequence_id, INT64_MAX),
        schema_version=producer.schema_version,
        topic_epoch=producer.topic_epoch,
    )


def _queued(request_id: int, producer: Producer) -> bytes:
    """The producer waits for exclusivity; a second PRODUCER_SUCCESS with the same request id follows."""
    return commands.producer_success(request_id, producer.name, ready=False)


def take_sends(connection: Connection, data: bytes, complete: list[Frame], index: int) -> int:
    """Processes the SENDs from frame `index` on, which must be one: a run for each producer, as many runs as fit this
    turn. Returns the first frame that is left.
    """
    producers, turns, count = connection.producers, connection.turns, len(complete)
    sends: SendRun | None = gather_sends(data, complete, index)
    while sends is not None:
        first = index
        producer = producers.get(sends.producer_id)
        if producer is None:
            index = _ignore_sends(connection, sends, index)
        elif sends.bad >= 0 or sends.stop == index:
            index = _refuse_last(connection, producer, data, complete, index, sends)
        else:
            false = first_false(sends) if sends.messages != len(sends.counts) else None
            if false is not None:
                index = _refuse_claim(connection, producer, data, complete, index, *false)
            else:
                connection.held(len(sends.body))
                producer.topic.publish(producer, sends)
                index = sends.stop
        turns.left -= (index - first) * SEND_COST
        if index == count or turns.left <= 0 or connection.closed:
            break
        sends = gather_next(data, complete, index)
    return index


def _ignore_sends(connection: Connection, sends: SendRun, index: int) -> int:
    """Upstream drops the connection for a producer it never knew, and ignores sends behind a close."""
    making = sends.producer_id in connection.making_producers
    if not making and sends.producer_id not in connection.closed_producers:
        raise BadFrame(f"SEND for producer {sends.producer_id}, which was never created on this connection")
    return max(sends.stop, index + 1)


def _refuse_last(
    connection: Connection, producer: Producer, data: bytes, complete: list[Frame], index: int, sends: SendRun
) -> int:
    """Processes a run that ends with a frame that is refused, or that is only this frame."""
    if sends.messages != len(sends.counts):
        false = first_false(sends)
        if false is not None:
            return _refuse_claim(connection, producer, data, complete, index, *false)
    if len(sends):
        connection.held(len(sends.body))
        producer.topic.publish(producer, sends)
    if sends.bad >= 0:
        producer.answer(
            commands.send_error(
                producer.id, sends.bad_sequence_id, pb.ChecksumError, "the checksum does not match: send it again"
            )
        )
        return sends.stop + 1
    parts = read_send(data, complete[index][0], complete[index][1])
    producer.answer(commands.send_error(producer.id, parts[1], pb.NotAllowedError, _NOT_PLAIN))
    return index + 1


def _refuse_claim(
    connection: Connection, producer: Producer, data: bytes, complete: list[Frame], index: int, place: int, why: str
) -> int:
    """Processes the sends before the one with a false count, and answers that one separately."""
    if place:
        before = gather_sends(data, complete[: index + place], index)
        connection.held(len(before.body))
        producer.topic.publish(producer, before)
    sequence_id = read_send(data, complete[index + place][0], complete[index + place][1])[1]
    producer.answer(commands.send_error(producer.id, sequence_id, pb.NotAllowedError, why))
    return index + place + 1


def close_producer(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.close_producer
    producer = connection.producers.pop(request.producer_id, None)
    connection.kept.remove("producer", request.producer_id)
    connection.remember_closed(request.producer_id)
    making = connection.making_producers.pop(request.producer_id, None)
    if making is not None:
        making.cancel()  # it may wait for exclusivity, and keep others out as long as it does
    if producer is None:
        connection.write(success(request.request_id))  # unknown ids are closed already
        return

    def idle() -> None:
        producer.topic.producers.leave(producer)
        connection.write(success(request.request_id))

    producer.when_idle(idle)

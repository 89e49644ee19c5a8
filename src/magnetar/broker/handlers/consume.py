"""SUBSCRIBE and the commands of a consumer: flow, acknowledgements, redelivery, seek, last message, unsubscribe,
close."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import (
    BadFrame,
    Closed,
    ConsumerNotFound,
    LimitExceeded,
    MagnetarError,
    Misuse,
    NotBuilt,
    NotReady,
    ProducerBusy,
    Refused,
    Throttled,
)
from magnetar.base.ids import AFTER_ALL, BEFORE_ALL, Position
from magnetar.base.limits import (
    COMMAND_PIECE_IDS_MAX,
    CONNECTION_CONSUMERS_MAX,
    CURSOR_GAPS_MAX,
    STORED_PROPERTIES_BYTES_MAX,
    SUBSCRIBE_TRIES_MAX,
)
from magnetar.base.names import Domain, TopicName, check_given, topic_name
from magnetar.broker.connection.property_limits import properties_size
from magnetar.broker.handlers.requests import error_reply, honestly, start, success
from magnetar.broker.handlers.scalable import check_plain, segment_closed
from magnetar.broker.segments.cursor_reset import seeks_of
from magnetar.broker.segments.cursors import given, life
from magnetar.topic.subscriptions.consumer import Consumer, KeyShared
from magnetar.topic.subscriptions.subscribe import Subscribe
from magnetar.topic.subscriptions.subscription import KEY_SHARED, SHARED, Subscription
from magnetar.wire import commands, frames
from magnetar.wire.frames import AckParts
from magnetar.wire.proto import pb

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection
    from magnetar.broker.topics.topics import AnyTopic

CUMULATIVE = int(pb.CommandAck.Cumulative)
REDELIVER = int(pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES)


def subscribe(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.subscribe
    if request.consumer_id in connection.making_consumers:
        # The client timed out and repeats the request: as in Pulsar, the answer makes it retry.
        text = "this consumer is already being created: try again"
        connection.write(commands.error(request.request_id, pb.ServiceNotReady, text))
        return
    existing = connection.consumers.get(request.consumer_id)
    if existing is not None and not existing.closed:
        connection.write(success(request.request_id))
        return
    if existing is None and len(connection.consumers) + len(connection.making_consumers) >= CONNECTION_CONSUMERS_MAX:
        text = f"a connection must not have more than {CONNECTION_CONSUMERS_MAX} consumers: open another connection"
        connection.refused.add()
        connection.write(commands.error(request.request_id, LimitExceeded.wire, text))
        return
    task = start(connection, _subscribe(connection, request), error_reply(request.request_id))
    if task is not None:
        connection.making_consumers[request.consumer_id] = task


async def _subscribe(connection: Connection, request: pb.CommandSubscribe) -> bytes | None:
    node = connection.node
    try:
        if not request.subscription:
            # Upstream's code for an empty name; it makes the stock client raise InvalidConfiguration.
            raise ProducerBusy("the subscription name must not be empty")
        name = topic_name(request.topic)
        check_plain(node, name)
        node.allow(connection.principal, "consume", str(name))
        if request.read_compacted and request.subType not in (
            pb.CommandSubscribe.Exclusive,
            pb.CommandSubscribe.Failover,
        ):
            raise Misuse("read_compacted requires an Exclusive or Failover subscription")
        size = connection.kept.check(request, "consumer", request.subscription, request.consumer_name)
        properties_size(request.subscription_properties, "a subscription", STORED_PROPERTIES_BYTES_MAX)
        topic, consumer = await _attach(connection, name, request)
    except (NotReady, Throttled):
        if connection.client_version.startswith("Pulsar-CPP"):
            # On a retry reply this client waits for its timeout and never retries. On CLOSE_CONSUMER it looks the topic
            # up and subscribes again (seen with 4.2.0).
            connection.write(commands.close_consumer(request.consumer_id))
        raise
    finally:
        if ours := connection.making_consumers.get(request.consumer_id) is asyncio.current_task():
            del connection.making_consumers[request.consumer_id]
    if connection.closed or not ours:
        topic.remove_consumer(consumer)  # gone, or closed by its client, while it was being made
        return None
    connection.consumers[request.consumer_id] = consumer
    connection.kept.add("consumer", request.consumer_id, size)
    connection.write(success(request.request_id, seeks=_seeks(connection, name, consumer)))
    topic.activate(consumer)
    return None


def _seeks(connection: Connection, name: TopicName, consumer: Consumer) -> int:
    """The number of seeks, for clients that follow the segments of a scalable or plain topic and announced the
    extensions."""
    extended = connection.features is not None and connection.features.magnetar_extensions
    return seeks_of(consumer.subscription) if extended and name.domain is not Domain.NON_PERSISTENT else 0


async def _attach(connection: Connection, name: TopicName, command: pb.CommandSubscribe) -> tuple[AnyTopic, Consumer]:
    """Loads a topic again that is unloaded during the request: the stock client does not repeat a first SUBSCRIBE after
    a retry reply, it waits for its timeout (SC-A0)."""
    node = connection.node
    check_given(command.subscription, "subscription")
    request = _request(command, node.consumer_name(check_given(command.consumer_name, "consumer")))
    tries = 0
    while True:
        tries += 1
        topic = await connection.creations.paced(partial(node.topics.get, name, create=command.force_topic_creation))
        try:
            if command.HasField("schema"):
                await node.schemas.consumer_schema(topic, command.schema)
            await node.attaching.step()
            return topic, await topic.subscribe(request, connection)
        except Closed:
            if not topic.closing or tries == SUBSCRIBE_TRIES_MAX:
                raise


def _request(request: pb.CommandSubscribe, consumer_name: str) -> Subscribe:
    key_shared = None
    if request.HasField("keySharedMeta"):
        meta = request.keySharedMeta
        key_shared = KeyShared(
            sticky=meta.keySharedMode == pb.STICKY,
            ranges=[(item.start, item.end) for item in meta.hashRanges],
            out_of_order=meta.allowOutOfOrderDelivery,
            buckets=meta.entryBucketDispatch,
        )
    start_position = None
    if request.HasField("start_message_id"):
        start_position = position_of(request.start_message_id.ledgerId, request.start_message_id.entryId)
    return Subscribe(
        subscription=request.subscription,
        kind=int(request.subType),
        consumer_id=request.consumer_id,
        consumer_name=consumer_name,
        priority=request.priority_level,
        durable=request.durable,
        earliest=request.initialPosition == pb.CommandSubscribe.Earliest,
        start=start_position,
        rollback_s=request.start_message_rollback_duration_sec,
        key_shared=key_shared,
        metadata={item.key: item.value for item in request.metadata},
        properties=given({item.key: item.value for item in request.subscription_properties}),
        epoch=request.consumer_epoch if request.HasField("consumer_epoch") else -1,
        creates=request.force_topic_creation,
    )


def position_of(ledger: int, entry: int) -> Position:
    """Ids are unsigned on the wire; -1 and the largest long are Pulsar's earliest and latest."""
    if ledger >= 2**63:
        return BEFORE_ALL
    if ledger == AFTER_ALL.ledger:
        return AFTER_ALL
    return Position(ledger, entry if entry < 2**63 else -1)


def _consumer(connection: Connection, consumer_id: int) -> Consumer:
    consumer = connection.consumers.get(consumer_id)
    if consumer is None or consumer.subscription is None:
        raise ConsumerNotFound(f"consumer {consumer_id} is not attached on this connection: subscribe first")
    return consumer


def place(ledger: int, entry: int) -> Position:
    """The position of a delivered entry, or the one before the first entry of its ledger: a client that acknowledges up
    to the middle of a batch names the previous entry, and -1 arrives as the largest number."""
    return Position(ledger, entry if entry < 2**63 else -1)


def take_flow(connection: Connection, consumer_id: int, permits: int) -> None:
    """Permits for a removed consumer are late, not an error."""
    consumer = connection.consumers.get(consumer_id)
    if consumer is not None:
        consumer.flow(permits)


def take_ack(connection: Connection, parts: AckParts) -> Iterator[None] | None:
    """The returned steps must continue in later turns, before any other command."""
    consumer_id, kind, ids, _validation_error, request_id, least, most, _properties = parts
    consumer = connection.consumers.get(consumer_id)
    work: Iterator[None] | None = None
    error = ack_refused(consumer, consumer_id, least >= 0 or most >= 0)
    subscription = None if consumer is None else consumer.subscription
    before = refused_acks(subscription)
    if error is not None or consumer is None or consumer.subscription is None:
        pass
    elif kind == CUMULATIVE:
        if len(ids) != 1:
            raise BadFrame(f"a cumulative acknowledgement must have exactly one message id, got {len(ids)}")
        consumer.subscription.ack_to(consumer, place(ids[0][0], ids[0][1]), ids[0][2])
    else:
        acks = [(place(item[0], item[1]), item[2]) for item in ids]
        if len(acks) > _ids_of_a_step(consumer.subscription):
            work = ack_in_steps(consumer, consumer.subscription, acks)
        else:
            consumer.subscription.ack(consumer, acks)
    if request_id < 0:
        return work

    def answer() -> None:
        failed = error or not_kept(subscription, before)
        code, text = (None, "") if failed is None else (failed.wire_code, failed.what)
        connection.write(commands.ack_response(consumer_id, request_id, code=code, text=text))

    if work is not None:
        return _then(work, answer)
    answer()
    return None


def _then(work: Iterator[None], answer: Callable[[], None]) -> Iterator[None]:
    yield from work
    answer()


def refused_acks(subscription: Subscription | None) -> int:
    return subscription.cursor.refused if isinstance(subscription, Subscription) else 0


def not_kept(subscription: Subscription | None, before: int) -> MagnetarError | None:
    """`before`: what `refused_acks` was. Those of another consumer count too: who hears it may acknowledge again."""
    if refused_acks(subscription) == before:
        return None
    text = "the subscription has too many gaps between its acknowledgements: acknowledge older messages first"
    return LimitExceeded(text, gaps_max=CURSOR_GAPS_MAX)


def ack_refused(consumer: Consumer | None, consumer_id: int, in_transaction: bool) -> MagnetarError | None:
    if in_transaction:
        return NotBuilt("acknowledging in a transaction is not supported by this version of Magnetar")
    if consumer is None or consumer.subscription is None:
        return ConsumerNotFound(f"consumer {consumer_id} is not attached on this connection")
    return None


def ack_in_steps(
    consumer: Consumer, subscription: Subscription, acks: list[tuple[Position, list[int] | None]]
) -> Iterator[None]:
    """Like `Subscription.ack`, but ends when the consumer is detached."""
    step = _ids_of_a_step(subscription)
    for first in range(0, len(acks), step):
        if first:
            yield
        if consumer.subscription is not subscription:
            return
        subscription.ack(consumer, acks[first : first + step])


def _ids_of_a_step(subscription: Subscription) -> int:
    """The number of ids per step: an id of one consumer may be pending at another, so each of them may have to be
    asked."""
    return COMMAND_PIECE_IDS_MAX // (1 + len(subscription.consumers) // 16)


def redeliver(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.redeliverUnacknowledgedMessages
    consumer = connection.consumers.get(request.consumer_id)
    if consumer is None or consumer.subscription is None:
        return
    consumer_epoch(consumer, request)
    positions = [Position(item.ledgerId, item.entryId) for item in request.message_ids]
    consumer.subscription.redeliver(consumer, positions or None)


def take_redeliver(connection: Connection, data: bytes, start: int, end: int) -> Iterator[None] | None:
    """The returned steps must continue in later turns, before any other command."""
    command = frames.decode_command(data, start, end)
    assert command is not None
    request = command.redeliverUnacknowledgedMessages
    consumer = connection.consumers.get(request.consumer_id)
    subscription = None if consumer is None else consumer.subscription
    if (
        consumer is not None
        and isinstance(subscription, Subscription)
        and subscription.type in (SHARED, KEY_SHARED)
        and len(consumer.pending) > COMMAND_PIECE_IDS_MAX
        and not request.message_ids
    ):
        consumer_epoch(consumer, request)
        return redeliver_in_steps(consumer, subscription)
    redeliver(connection, command)
    return None


def redeliver_in_steps(consumer: Consumer, subscription: Subscription) -> Iterator[None]:
    """Everything that the consumer has not acknowledged at the time of its command."""
    positions = consumer.pending.positions()
    for first in range(0, len(positions), COMMAND_PIECE_IDS_MAX):
        if first:
            yield
        if consumer.subscription is not subscription:
            return
        subscription.redeliver(consumer, positions[first : first + COMMAND_PIECE_IDS_MAX])


def consumer_epoch(consumer: Consumer, request: pb.CommandRedeliverUnacknowledgedMessages) -> None:
    if request.HasField("consumer_epoch") and consumer.epoch >= 0:
        consumer.epoch = max(consumer.epoch, request.consumer_epoch)


def unsubscribe(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.unsubscribe
    start(connection, honestly(_unsubscribe(connection, request)), error_reply(request.request_id))


async def _unsubscribe(connection: Connection, request: pb.CommandUnsubscribe) -> bytes:
    consumer = _consumer(connection, request.consumer_id)
    assert consumer.subscription is not None
    topic = consumer.subscription.topic
    if consumer.subscription.durable and (topic.name.is_segment or life(consumer.subscription) >= 0):
        whole = topic.part_of or topic.name.scalable
        raise Refused(f"a subscription belongs to all segments: delete it on {whole} over REST")
    await topic.unsubscribe(consumer, force=request.force)
    connection.consumers.pop(request.consumer_id, None)
    connection.kept.remove("consumer", request.consumer_id)
    return success(request.request_id)


def close_consumer(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.close_consumer
    making = connection.making_consumers.pop(request.consumer_id, None)
    if making is not None:
        making.cancel()
    consumer = connection.consumers.pop(request.consumer_id, None)
    connection.kept.remove("consumer", request.consumer_id)
    if consumer is None or consumer.subscription is None:
        connection.write(success(request.request_id))  # unknown ids are closed already
        return
    start(connection, _close(consumer, request.request_id), error_reply(request.request_id))
    segment_closed(connection, consumer)


async def _close(consumer: Consumer, request_id: int) -> bytes:
    if consumer.subscription is not None:  # otherwise its topic was unloaded and removed it
        await consumer.subscription.topic.leave(consumer)
    return success(request_id)


def seek(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.seek
    start(connection, honestly(_seek(connection, request)), error_reply(request.request_id))


async def _seek(connection: Connection, request: pb.CommandSeek) -> bytes:
    consumer = _consumer(connection, request.consumer_id)
    subscription = consumer.subscription
    assert subscription is not None
    await connection.node.segments.plains.check_seek(subscription)
    if request.HasField("message_id"):
        await subscription.seek(position_of(request.message_id.ledgerId, request.message_id.entryId))
    elif request.HasField("message_publish_time"):
        await subscription.seek_time(request.message_publish_time)
    else:
        raise Misuse("SEEK must contain a message id or a publish time")
    return success(request.request_id)


def get_last_message_id(connection: Connection, command: pb.BaseCommand) -> None:
    """Answered before the messages of a later FLOW: the Go client decides by it which messages it drops after a
    seek."""
    request = command.getLastMessageId
    consumer = connection.consumers.get(request.consumer_id)
    subscription = None if consumer is None else consumer.subscription
    last_known = None if subscription is None else subscription.topic.last_known()
    if consumer is not None and subscription is not None and last_known is not None:
        connection.write(_last_message(connection, request.request_id, subscription, last_known))
        return
    if consumer is not None:
        consumer.hold_flow()
    start(connection, _last_message_id(connection, request, consumer), error_reply(request.request_id))


async def _last_message_id(
    connection: Connection, request: pb.CommandGetLastMessageId, consumer: Consumer | None
) -> None:
    try:
        subscription = _consumer(connection, request.consumer_id).subscription
        assert subscription is not None
        last = await subscription.topic.last_message()
        connection.write(_last_message(connection, request.request_id, subscription, last))
    finally:
        if consumer is not None:
            consumer.release_flow()


def _last_message(
    connection: Connection, request_id: int, subscription: Subscription, place: tuple[Position, int]
) -> bytes:
    topic = subscription.topic
    last, batch_index = place
    id = _id_data(last, topic.partition)
    id.batch_index = batch_index
    mark = _id_data(subscription.mark, topic.partition)
    extended = connection.features is not None and connection.features.magnetar_extensions
    floor = topic.managed.chain.floor if extended and topic.name.is_persistent else None
    gone = None if floor is None else _id_data(floor, topic.partition)
    return commands.last_message_id(request_id, id, mark, deleted_to=gone)


def _id_data(position: Position, partition: int) -> pb.MessageIdData:
    return pb.MessageIdData(ledgerId=position.ledger % 2**64, entryId=position.entry % 2**64, partition=partition)


def consumer_stats(connection: Connection, command: pb.BaseCommand) -> None:
    request = command.consumerStats
    consumer = connection.consumers.get(request.consumer_id)
    stats: dict[str, Any]
    if consumer is None or consumer.subscription is None:
        text = f"consumer {request.consumer_id} is not attached on this connection"
        stats = {"error_code": pb.ConsumerNotFound, "error_message": text}
    else:
        stats = {
            "consumerName": consumer.name,
            "availablePermits": max(0, consumer.permits),
            "unackedMessages": consumer.pending.messages,
            "blockedConsumerOnUnackedMsgs": consumer.blocked,
            "address": consumer.address,
            "type": pb.CommandSubscribe.SubType.Name(consumer.subscription.type or 0),
            "msgBacklog": consumer.subscription.backlog,
        }
    connection.write(commands.consumer_stats(request.request_id, stats))

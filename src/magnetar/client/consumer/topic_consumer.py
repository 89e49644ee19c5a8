"""One topic of a consumer: its attachment to brokers, its acknowledgements, its permits.

This is the actor between a connection and the pure parts: entries go to `intake`, acknowledgements through `acks` and
`acker`, redelivery requests through `redelivery`. It reattaches after every loss, with back-off (`attached`). The
broker then redelivers unacknowledged messages, so queued ones are discarded. Readers continue after the last message
taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from magnetar.base.errors import Closed, MagnetarError, Misuse, NotReady
from magnetar.base.names import topic_name
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.reconnect import Reconnector
from magnetar.client.consumer.ack.ack_sender import AckSender
from magnetar.client.consumer.ack.acks import AckTracker, all_bits
from magnetar.client.consumer.ack.redelivery import Redelivery
from magnetar.client.consumer.config import ConsumerConfig, close_command, subscribe_command, unsubscribe_command
from magnetar.client.consumer.context import ConsumerContext, ScalableSegment, TopicCallbacks
from magnetar.client.consumer.receive.delivery import DeliveryHandler
from magnetar.client.consumer.scalable.stream.ack_position import AckPosition
from magnetar.client.consumer.start_position import StartPosition
from magnetar.client.message import Message, MessageId
from magnetar.layout.plain_layout import FOLLOWS
from magnetar.observe.log import get
from magnetar.wire.client_commands import flow
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb

log = get("client.consumer")


class TopicConsumer:
    """Created, controlled and closed by its consumer. Its messages go to the receive queue and notify its waiters."""

    def __init__(
        self,
        context: ConsumerContext,
        topic: str,
        config: ConsumerConfig,
        *,
        queue_messages: int,
        callbacks: TopicCallbacks,
        segment: ScalableSegment | None = None,
        creates: bool = True,
    ) -> None:
        lookup, whole = context.lookup, "" if segment is None else segment.topic
        if segment is not None and not topic_name(topic).is_segment:  # a plain topic that may be migrated
            config = replace(config, properties={**config.properties, FOLLOWS[0]: FOLLOWS[1]})
        self.topic = topic
        self.asked = config
        self.consumer = context.consumer  # its owner
        self.id = lookup.pool.next_id()
        self.persistent = topic_name(topic).is_persistent  # else messages are not acknowledged: all ids are equal
        self.partition = -1
        self.segment = -1 if segment is None else segment.id  # of a scalable topic
        self.whole = whole if whole and topic_name(whole).is_scalable else ""  # the scalable topic it belongs to
        self.home = "" if segment is None else segment.home
        self.creates = creates  # whether the broker may create a missing topic or subscription
        self.is_active: bool | None = None
        self.at_end = False  # terminated, and all messages are acknowledged
        self.counters = context.counters
        self.queue = context.inbox.topic_queue(queue_messages, self._flow)
        self.queue.paused = config.paused
        self.acks = AckTracker(batch_index=config.ack_batch_index)
        self.acker = AckSender(self.acks, self.id, group_s=config.ack_group_s, group_max=config.ack_group_max)
        self.start = None if config.start is None else StartPosition(config.start, config.start_inclusive)
        self.connection: Connection | None = None  # while attached, after the broker's reply
        self.checked: Callable[[Connection], Awaitable[None]] | None = None  # a check at each attach, before messages
        self.on_seeks: Callable[[int], object] = int  # called at each attach with the subscription's count of seeks
        self.on_closed: Callable[[], None] = lambda: None  # called when the broker closes it
        self.on_moved: Callable[[], None] = lambda: None  # called when that count changed since the last attach
        self.epoch = 0
        self.closed = False
        self.failed: MagnetarError | None = None  # a final error
        self.skipping = False  # a seek is in progress: messages that arrive are outdated
        self.attached = Reconnector(lookup, topic, self._open, ended=self._ended, fatal=callbacks.fatal)
        self.redelivery = Redelivery(self, lookup.pool.runtime, context.dead_letters)
        self.intake = DeliveryHandler(self, context)
        self.message = self.intake.message  # the connection calls it for every entry
        self.timeout_s = lookup.timeout_s
        self._inbox = context.inbox
        self._receiver = context.receiver
        self._schema = context.schema
        self._callbacks = callbacks
        self._paused = config.paused
        self._seeks: int | None = None  # as of the last attach
        self._attaching: list[asyncio.Future[None]] = []

    # Lifecycle

    async def open(self, timeout_s: float) -> None:
        try:
            await self.attached.start(timeout_s)
        except BaseException:
            self.closed = True
            if (connection := self.connection) is not None:  # attached, but the caller was cancelled
                connection.detach_consumer(self.id)
                self._detached()
                self._tell_gone(connection)
            self._inbox.drop(self.queue)
            raise

    async def close(self) -> None:
        """Send the waiting acknowledgements and close."""
        if self.closed:
            return
        self.closed = True
        self.acker.flush()
        connection = self.connection
        self._detached()
        self._inbox.drop(self.queue)
        self._wake_attaching()
        try:
            if connection is not None:
                await self._leave(connection)
        finally:
            await self.attached.close()

    async def unsubscribe(self, *, force: bool = False) -> None:
        connection = await self.until_attached()
        command = unsubscribe_command(self.id, connection.next_request_id(), force=force)
        await connection.request(command, command.unsubscribe.request_id, timeout_s=self.timeout_s)
        connection.detach_consumer(self.id)
        self.closed = True
        self._detached()
        self._inbox.drop(self.queue)
        await self.attached.close()

    async def until_attached(self) -> Connection:
        """The present connection, or that of the next attach; `NotReady` if no attach succeeds in time."""
        while self.connection is None:
            if self.closed:
                raise Closed("the consumer is closed", topic=self.topic)
            if self.failed is not None:
                raise self.failed
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._attaching.append(waiter)
            try:
                async with asyncio.timeout(self.timeout_s):
                    await waiter
            except TimeoutError:
                raise NotReady("the consumer did not attach to a broker in time", topic=self.topic) from None
            finally:
                if waiter in self._attaching:
                    self._attaching.remove(waiter)
        return self.connection

    def pause(self, paused: bool) -> None:
        """Request no more messages; messages already requested still arrive."""
        self._paused = paused
        self._hold()

    def skip(self, skipping: bool) -> None:
        """While a seek is in progress, arriving messages are outdated and no more are requested."""
        self.skipping = skipping
        self._hold()

    def moved(self) -> None:
        """The subscription was moved: all state of earlier messages is void."""
        self.acks.forget()
        self.redelivery.forget()
        self.intake.forget()
        self.queue.clear()
        self.put_away()
        self.at_end = False

    def put_away(self, positions: set[tuple[int, int]] | None = None) -> None:
        """Discard messages that threads have not taken, of entries that will be redelivered. A non-persistent topic
        redelivers none, so nothing is discarded."""
        if self.persistent:
            self._receiver.put_away(self, positions)

    def _hold(self) -> None:
        self.queue.paused = self._paused or self.skipping
        if not self.queue.paused:
            self.queue.refill()
            self._receiver.notify(1)

    # Acknowledging: an acknowledgement waits until `acker.added` or `confirm` is called

    def ack(self, message: Message[Any]) -> bool:
        """Acknowledge a message. Returns whether to send more now."""
        if not self.persistent:
            return False
        delivery = message._delivery
        position = (delivery.ledger, delivery.entry)
        self.redelivery.settled(position, message.batch_index)
        if delivery.size:
            more = self.acks.individual(position, message.batch_index, delivery.size, delivery.unacked)
            if self.redelivery.busy and self.acks.duplicate(position):  # its batch is completely acknowledged
                self.redelivery.acked(position)
            return more
        if self.redelivery.busy:
            self.redelivery.acked(position)
        for chunk in delivery.chunks or (position,):
            self.acks.whole(chunk)
        return True

    def ack_id(self, message_id: MessageId, unacked: int | None = None) -> None:
        """Acknowledge by id, with the remembered chunks of a chunked message. `unacked`: its batch as delivered."""
        if not self.persistent:
            return
        position = (message_id.ledger, message_id.entry)
        self.redelivery.settled(position, message_id.batch_index)
        if message_id.batch_index >= 0:
            size = message_id.batch_size
            if size <= message_id.batch_index:
                raise Misuse("the id lacks the size of its batch: acknowledge the message itself")
            left = all_bits(size) if unacked is None else unacked
            self.acks.individual(position, message_id.batch_index, size, left)
        else:
            self.acks.whole(position)
            for chunk in self.redelivery.chunks_of(position):
                self.acks.whole(chunk)
        if self.acks.duplicate(position):
            self.redelivery.acked(position)

    def ack_until(self, place: AckPosition) -> None:
        """Acknowledge up to a message. For a shared segment the caller acknowledges each message, so this one is
        acknowledged individually. The same holds if an incomplete chunked message surrounds it: its missing part is
        redelivered (H-G13)."""
        shared = self.asked.key_shared is not None and self.asked.key_shared.buckets
        if not shared and not self.asked.type.single:
            raise Misuse(
                "cumulative acknowledgement requires an EXCLUSIVE or FAILOVER subscription: use acknowledge",
                type=self.asked.type.value,
            )
        if not self.persistent:
            return
        if shared or place.around is not None:
            self.ack_id(place.message_id, place.unacked)
            for chunk in place.chunks:
                self.acks.whole(chunk)
            if not shared and place.around is not None and place.around[1] > 0:  # then acknowledge the ones before it
                self.acks.cumulative((place.around[0], place.around[1] - 1), -1, 0, 0)
            return
        self.acks.cumulative((place.ledger, place.entry), place.index, place.size, place.unacked)
        self.redelivery.acked_until((place.ledger, place.entry))

    async def confirm(self) -> None:
        if len(self.acks):
            await self.acker.confirm(await self.until_attached(), self.timeout_s)

    # Callbacks of the connection (ConsumerListener)

    def active(self, is_active: bool) -> None:
        if is_active != self.is_active:
            self.is_active = is_active
            self._callbacks.active(self, is_active)

    def reached_end(self) -> None:
        self.at_end = True
        self._callbacks.ended(self)

    def closed_by_broker(self, url: str) -> None:
        self._detached()
        self.attached.moved(url)
        self.on_closed()

    def connection_lost(self, error: MagnetarError) -> None:
        self._detached()
        self.attached.lost(error)

    # Attaching

    async def _open(self, connection: Connection, attempt: int) -> None:
        if not self.asked.durable and self.queue.last is not None:
            last = self.queue.last  # a reader continues after the last message taken
            self.start = StartPosition(last.id, around=last._delivery.around)
        start = None if self.start is None or self.asked.durable else self.start.wire_id
        request_id = connection.next_request_id()
        command = subscribe_command(
            self.asked,
            self.topic,
            self.id,
            request_id,
            schema=self._schema.info(),
            start=start,
            epoch=self.epoch,
            creates=self.creates,
        )
        connection.attach_consumer(self.id, self)
        try:
            reply = await connection.request(command, request_id, timeout_s=self.timeout_s)
            if self.checked is not None:
                await self.checked(connection)
        except BaseException:
            connection.detach_consumer(self.id)
            self._tell_gone(connection)  # the broker may have attached it
            raise
        if self.attached.connection is not connection or self.closed:
            # Lost, moved or closed before the reply was processed: the broker must learn that it is not wanted.
            connection.detach_consumer(self.id)
            self._tell_gone(connection)
            return
        self.counters.attaches += 1
        if self.segment >= 0:
            self.creates = False  # it existed: a later removal was intended (H-D9)
        self.at_end = False
        self.connection = connection
        self.on_seeks(reply.success.seeks)
        self._receiver.gather()
        self._told(reply.success.seeks)
        self.acker.attach(connection)
        self.queue.attach()
        await self._pin(connection)
        self._wake_attaching()
        self._receiver.notify(1)

    def _told(self, seeks: int) -> None:
        """Void pending acknowledgements if the subscription was moved: sent after the seek, they would skip
        messages."""
        before, self._seeks = self._seeks, seeks
        if before is not None and before != seeks:
            self.moved()
            self.on_moved()

    async def _pin(self, connection: Connection) -> None:
        """Remember the position of a reader that has read no message, so that it skips none after a reconnect."""
        start = self.start
        if self.asked.durable or self.queue.last is not None or (start is not None and start.id != MessageId.LATEST):
            return
        command = pb.BaseCommand(type=pb.BaseCommand.GET_LAST_MESSAGE_ID)
        command.getLastMessageId.consumer_id = self.id
        command.getLastMessageId.request_id = connection.next_request_id()
        try:
            reply = await connection.request(command, command.getLastMessageId.request_id, timeout_s=self.timeout_s)
        except MagnetarError as error:
            log.info("reader_position_request_failed", topic=self.topic, why=error)
            return
        response = reply.getLastMessageIdResponse
        if self.start is start and response.HasField("consumer_mark_delete_position"):
            mark = response.consumer_mark_delete_position
            if mark.ledgerId < 1 << 63:
                entry = mark.entryId if mark.entryId < 1 << 63 else -1
                self.start = StartPosition(MessageId(mark.ledgerId, entry))

    def refuse(self, error: MagnetarError) -> None:
        """It cannot continue: close it at the broker, and report the error to the consumer."""
        if self.connection is not None:
            self.connection.detach_consumer(self.id)
            self._tell_gone(self.connection)
        self.attached.refused(error)

    async def _leave(self, connection: Connection) -> None:
        command = close_command(self.id, connection.next_request_id())
        try:
            await connection.request(command, command.close_consumer.request_id, timeout_s=self.timeout_s)
        except MagnetarError as error:
            log.info("consumer_close_failed", topic=self.topic, why=error)  # the broker notices the lost connection
        finally:
            connection.detach_consumer(self.id)

    def _tell_gone(self, connection: Connection) -> None:
        connection.write(encode_command(close_command(self.id, connection.next_request_id())))

    def _detached(self) -> None:
        """Discard queued messages and pending redelivery requests: the broker redelivers all unacknowledged
        messages."""
        self._receiver.gather()
        self.connection = None
        self.is_active = None  # until the broker reports it again
        self.acker.detach()
        self.queue.detach()
        self.put_away()
        self.redelivery.forget()
        self.intake.forget()

    def _ended(self, error: MagnetarError) -> None:
        self.failed = error
        self._detached()
        self._wake_attaching()
        self._callbacks.failed(self, error)

    def _flow(self, permits: int) -> None:
        if self.connection is not None:
            self.connection.write(flow(self.id, permits))

    def _wake_attaching(self) -> None:
        waiters, self._attaching = self._attaching, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

"""Registers a stream consumer with the controller of its topic, receives assignments, and re-registers after a change.

The layout watch supplies the controller's address; without one any broker is asked, which then becomes the controller.
Assignments are passed on in their order on the present connection, never from an abandoned one. After a loss the same
name and number return, and get the same segments within the grace period. This module does not compare the age of
assignments. A subscription that is removed ends the registration: a new one would silently begin at the end (H-D9).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from magnetar.base.errors import Closed, Fenced, MagnetarError, SubscriptionNotFound, Superseded
from magnetar.base.ids import Epoch, SegmentId
from magnetar.base.limits import STREAM_HURRY_S, STREAM_LEAVE_S
from magnetar.client.connection.backoff import passing
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.error_codes import error_of
from magnetar.client.connection.lookup import Lookup, Route
from magnetar.client.connection.pool import Pool
from magnetar.client.connection.reconnect import Reconnector
from magnetar.client.consumer.config import ConsumerConfig
from magnetar.client.consumer.scalable.stream.assignment import Assigned, SegmentGrant
from magnetar.observe.log import get
from magnetar.wire.proto import pb

log = get("client.registration")

_PUSH = pb.BaseCommand.SCALABLE_TOPIC_ASSIGNMENT_UPDATE


def registration_fatal(error: MagnetarError, first: bool) -> bool:
    """Once registered, only another consumer of the same name ends it, or the removal of its subscription."""
    return not passing(error) if first else isinstance(error, Fenced | SubscriptionNotFound | Closed)


class Registration:
    """Satisfies the `BrokerFinder` contract: it knows the route to the controller."""

    pool: Pool

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        config: ConsumerConfig,
        *,
        assigned: Callable[[Assigned], None],
        ended: Callable[[MagnetarError], None],
        kind: pb.ScalableConsumerType = pb.STREAM,
    ) -> None:
        self.pool = lookup.pool
        self.id = lookup.pool.next_id()
        self.controller: Route | None = None
        self._lookup = lookup
        self._topic = topic
        self._subscription = config.subscription
        self._name = config.name
        self._position = config.initial_position
        self._assigned = assigned
        self._on_ended = ended
        self._listening: Connection | None = None
        self._answered: Connection | None = None  # the connection on which it is registered
        self._known = False  # it was registered once
        self._tells = False  # whether the server supports an unregister command
        self._waiting: list[asyncio.Future[None]] = []
        self._close_s = STREAM_LEAVE_S
        self._kind = kind
        self._attached = Reconnector(self, topic, self._open, ended=self._ended, fatal=registration_fatal)

    async def broker(self, topic: str) -> Route:
        if self.controller is not None:
            return self.controller
        return Route((await self._lookup.service()).url)

    async def start(self, timeout_s: float) -> None:
        await self._attached.start(timeout_s)

    def led_by(self, controller: Route | None) -> None:
        """The watch reports the controller: a consumer that is registered elsewhere reconnects there."""
        before, self.controller = self.controller, controller
        if controller is None or controller == before or self._listening is None:
            return
        if (self._listening.url, self._listening.proxied) != (controller.url, controller.proxied):
            log.info("controller_changed", topic=self._topic, to=controller.url)
            self._forget()
            self._attached.moved("" if controller.proxied else controller.url)

    def hurry(self) -> None:
        """An error occurred already: wait only briefly for an unreachable controller."""
        self._close_s = min(self._close_s, STREAM_HURRY_S)

    async def close(self) -> None:
        """Unregister if the server supports it; otherwise the session ends with the connection. A short wait covers an
        unreachable controller: without the unregister, other consumers get the segments only after the grace period.
        """
        try:
            async with asyncio.timeout(self._close_s):
                while self._tells and not await self._left():
                    pass
        except TimeoutError:
            log.info("unregister_skipped", topic=self._topic)
        self._forget()
        await self._attached.close()

    async def _left(self) -> bool:
        connection = await self._registered()
        command = pb.BaseCommand(type=pb.BaseCommand.SCALABLE_TOPIC_UNSUBSCRIBE)
        body = command.scalableTopicUnsubscribe
        body.request_id = connection.next_request_id()
        body.consumer_id = self.id
        try:
            await connection.request(command, body.request_id, timeout_s=self._lookup.timeout_s)
        except MagnetarError as error:
            log.info("unregister_failed", topic=self._topic, why=error)
            return not connection.closed  # a new connection, like its broker, does not know that the consumer left
        return True

    async def _registered(self) -> Connection:
        """Wait for the connection on which the controller has answered."""
        while self._answered is None:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter
        return self._answered

    async def _open(self, connection: Connection, attempt: int) -> None:
        self._forget()
        self._listening = connection
        connection.listeners.add(_PUSH, self.id, self._pushed, self._lost)
        command = pb.BaseCommand(type=pb.BaseCommand.SCALABLE_TOPIC_SUBSCRIBE)
        body = command.scalableTopicSubscribe
        body.request_id = connection.next_request_id()
        body.topic = self._topic
        body.subscription = self._subscription
        body.consumer_name = self._name
        body.consumer_id = self.id
        body.consumer_type = self._kind
        if connection.features.magnetar_extensions and self._kind == pb.STREAM:
            body.initial_position = getattr(pb.CommandSubscribe, self._position.value)
        if connection.features.magnetar_extensions and self._known:
            body.resumes = True
        try:
            reply = await connection.request(command, body.request_id, timeout_s=self._lookup.timeout_s)
        except (MagnetarError, asyncio.CancelledError):
            self._forget()
            raise
        if self._listening is connection:  # not lost during the request
            self._told(reply.scalableTopicSubscribeResponse.assignment)
            self._answered = connection
            self._known = True
            self._tells = connection.features.magnetar_extensions > 0
            waiting, self._waiting = self._waiting, []
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)

    def _pushed(self, update: pb.CommandScalableTopicAssignmentUpdate) -> None:
        if update.HasField("error"):
            self._refused(update)
        else:
            self._told(update.assignment)

    def _refused(self, update: pb.CommandScalableTopicAssignmentUpdate) -> None:
        """Of two consumers with one name the newer one reads (H-F9); a removed subscription has no reader (H-D9). After
        any other end it registers again."""
        self._forget()
        if update.error == pb.SubscriptionNotFound:
            self._attached.refused(error_of(update.error, update.message, topic=self._topic))
            return
        self._told(update.assignment)
        if update.error == pb.ConsumerBusy:
            self._attached.refused(Superseded(update.message, wire_code=pb.ConsumerBusy))
        else:
            self._attached.lost(error_of(update.error, update.message))

    def _told(self, share: pb.ScalableConsumerAssignment) -> None:
        grants = tuple(
            SegmentGrant(
                SegmentId(one.segment_id),
                one.segment_topic,
                tuple((bucket.start, bucket.end) for bucket in one.bucket_ranges),
            )
            for one in share.segments
        )
        generation = share.generation if share.HasField("generation") else None
        ordered = self._tells and self._kind == pb.STREAM
        self._assigned(Assigned(Epoch(share.layout_epoch), grants, generation, ordered))

    def _ended(self, error: MagnetarError) -> None:
        self._tells = False
        self._on_ended(error)

    def _lost(self, error: MagnetarError) -> None:
        self._listening = self._answered = None
        self._attached.lost(error)

    def _forget(self) -> None:
        connection, self._listening = self._listening, None
        self._answered = None
        if connection is not None:
            connection.listeners.remove(_PUSH, self.id)

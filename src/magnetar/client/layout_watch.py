"""The watch of one scalable topic's layout: opens it at a broker, follows it, and reopens it after every loss.

This is the actor around `layout_filter`: a layout that the broker pushes is accepted only if it is newer and of the
same incarnation of the topic. Errors before the first layout go to the caller. Later errors cause a retry with
back-off, except a deleted topic, which is reported once and ends the watch. The watch does not interpret layouts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from magnetar.base.errors import Closed, MagnetarError, NotReady, Refused, TimedOut, TopicNotFound
from magnetar.base.ids import Epoch
from magnetar.base.limits import FOLLOW_BACKOFF_S_MAX, LAYOUT_SEEK_S
from magnetar.client.connection.address import address
from magnetar.client.connection.backoff import passing
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.error_codes import error_of
from magnetar.client.connection.lookup import Lookup, Route
from magnetar.client.connection.reconnect import Reconnector
from magnetar.client.connection.server_stream import First, ServerStream
from magnetar.client.layout_filter import LayoutFilter, LayoutVerdict, before_any
from magnetar.client.producer.router import learned
from magnetar.layout.layout import Layout
from magnetar.layout.routing import Routing
from magnetar.observe.log import get
from magnetar.wire.proto import pb
from magnetar.wire.scalable.layouts import read_layout

log = get("client.layout_watch")

_UPDATE = pb.BaseCommand.SCALABLE_TOPIC_UPDATE


@dataclass(frozen=True, slots=True)
class LayoutView:
    """The last known state of a topic. `controller` None: no broker is the controller yet, any broker may become it."""

    layout: Layout
    routing: Routing
    controller: Route | None


def watch_fatal(error: MagnetarError, first: bool) -> bool:
    """Whether the error ends the watch. After the first layout only a deleted topic or a closed client does."""
    return not passing(error) if first else isinstance(error, TopicNotFound | Closed)


class LayoutWatch:
    """`heard` is called with every newer layout, and when only the controller changed. `gone` is called when the topic
    was deleted; `heard` is not called after that. With `create` a missing topic is created if the broker's policy
    allows it.
    """

    def __init__(
        self,
        lookup: Lookup,
        topic: str,
        *,
        heard: Callable[[LayoutView], None],
        gone: Callable[[MagnetarError], None],
        create: bool = True,
        seek_s: float = LAYOUT_SEEK_S,
    ) -> None:
        self.topic = topic
        self.id = lookup.pool.next_id()
        self.seen: LayoutView | None = None
        self._lookup = lookup
        self._heard = heard
        self._gone = gone
        self._create = create
        self._seek_s = seek_s
        self._layouts = LayoutFilter()
        self._attached = Reconnector(lookup, topic, self._open, ended=self._end, fatal=watch_fatal)
        self._session = ServerStream(lookup.pool, _UPDATE, close=_closing, lost=self._attached.lost)
        self._over = False
        self._seeking: asyncio.TimerHandle | None = None
        self._waiting: list[asyncio.Future[None]] = []  # callers of `reached` that wait for a later layout

    @property
    def incarnation(self) -> int:
        """The incarnation of the topic name; 0 if the broker does not send one."""
        return int(self._layouts.incarnation or 0)

    async def start(self, timeout_s: float) -> LayoutView:
        """Wait until the first layout has arrived."""
        await self._attached.start(timeout_s)
        if self.seen is None:
            raise TopicNotFound("the topic was deleted", topic=self.topic)
        return self.seen

    def seek(self, above: Epoch) -> None:
        """Expect a layout above this epoch. The broker normally pushes it; if it does not arrive, ask again."""
        if self._seeking is None and not self._over:
            self._seek_in(self._seek_s, above)

    async def reached(self, epoch: Epoch, timeout_s: float) -> Layout:
        """Wait for a layout of this epoch or later. A broker may be behind; segments it does not list yet are not lost
        (H-G8)."""
        try:
            async with asyncio.timeout(timeout_s):
                while (seen := self.seen) is None or seen.layout.epoch < epoch:
                    self.seek(Epoch(epoch - 1))
                    waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                    self._waiting.append(waiter)
                    await waiter
        except TimeoutError:
            raise NotReady("the broker's layout is older than the layout of the checkpoint", epoch=epoch) from None
        return seen.layout

    async def close(self) -> None:
        self._over = True
        if self._seeking is not None:
            self._seeking.cancel()
        connection = self._attached.connection
        if connection is not None:
            self._session.leave(connection)
        await self._attached.close()

    # Opening

    async def _open(self, connection: Connection, attempt: int) -> None:
        if not connection.features.supports_scalable_topics:
            raise Refused(
                "the broker does not support scalable topics: topic:// requires Magnetar or Pulsar 5",
                url=connection.url,
            )
        late = TimedOut("the broker did not send the layout in time", topic=self.topic)
        first = self._ask(connection, create=self._create and self.seen is None)
        await self._session.answered(connection, first, self._lookup.timeout_s, late)

    def _ask(self, connection: Connection, *, create: bool) -> First:
        receive = partial(self._told, connection, self._layouts.opened())
        return self._session.ask(connection, partial(self._question, connection, create), receive)

    def _question(self, connection: Connection, create: bool, id: int) -> pb.BaseCommand:
        command = pb.BaseCommand(type=pb.BaseCommand.SCALABLE_TOPIC_LOOKUP)
        command.scalableTopicLookup.session_id = id
        command.scalableTopicLookup.topic = self.topic
        command.scalableTopicLookup.create_if_missing = create
        if self._lookup.listener and connection.features.magnetar_extensions:
            command.scalableTopicLookup.advertised_listener_name = self._lookup.listener
        return command

    # Updates from the broker

    def _told(self, connection: Connection, number: int, first: First, update: pb.CommandScalableTopicUpdate) -> None:
        if self._over:
            return
        if update.HasField("error"):
            self._refused(connection, number, first, error_of(update.error, update.message, topic=self.topic))
            return
        try:
            layout = before_any(read_layout(update.dag))
            routing = learned(update.dag.routing or None, connection.server_version)
        except MagnetarError as error:
            self._refused(connection, number, first, error)
            return
        incarnation = str(update.dag.incarnation) if update.dag.HasField("incarnation") else None
        seen = LayoutView(layout, routing, _controller(connection, update.dag.controller_broker_url))
        current = self._layouts.current
        verdict = self._layouts.offered(number, layout, incarnation)
        if verdict is LayoutVerdict.REPLACED:
            self._end(TopicNotFound("the topic was deleted and created again", topic=self.topic))
        elif verdict is LayoutVerdict.NEWER or (
            current is not None and current.epoch == layout.epoch and seen != self.seen
        ):
            self.seen = seen
            self._lookup.pool.runtime.mark("layout.followed", topic=self.topic, watch=self.id, epoch=layout.epoch)
            self._heard(seen)
            self._wake()
        if not first.done():
            first.set_result(None)

    def _refused(self, connection: Connection, number: int, first: First, error: MagnetarError) -> None:
        """The session has ended, on both sides."""
        self._session.over(connection)
        if isinstance(error, TopicNotFound) and self.seen is not None:
            if self._layouts.gone(number):
                self._end(error)
            if not first.done():
                first.set_result(None)
        else:
            self._session.failed(first, error)

    def _end(self, error: MagnetarError) -> None:
        if not self._over:
            self._over = True
            self._gone(error)
            self._wake(error)

    def _wake(self, error: MagnetarError | None = None) -> None:
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None) if error is None else waiter.set_exception(error)

    # Seeking

    def _seek_in(self, wait_s: float, above: Epoch) -> None:
        self._seeking = asyncio.get_running_loop().call_later(wait_s, self._seek, wait_s, above)

    def _seek(self, waited_s: float, above: Epoch) -> None:
        self._seeking = None
        if self._over or (self.seen is not None and self.seen.layout.epoch > above):
            return
        connection = self._attached.connection
        if connection is not None and self._session.is_open:
            log.info("layout_request_repeated", topic=self.topic, above=above)
            self._ask(connection, create=False).add_done_callback(self._asked_again)
        self._seek_in(min(waited_s * 2, FOLLOW_BACKOFF_S_MAX), above)

    def _asked_again(self, request: First) -> None:
        """The new request replaced the session: if it failed, the broker pushes no more updates, so reconnect."""
        error = None if request.cancelled() else request.exception()
        if isinstance(error, MagnetarError) and not self._over:
            self._attached.lost(error)


def _controller(connection: Connection, url: str) -> Route | None:
    """The route to the controller: through the same proxy, if the connection uses one."""
    if not url:
        return None
    return Route(connection.url, str(address(url))) if connection.proxied else Route(url)


def _closing(id: int) -> pb.BaseCommand:
    command = pb.BaseCommand(type=pb.BaseCommand.SCALABLE_TOPIC_CLOSE)
    command.scalableTopicClose.session_id = id
    return command

"""A stream consumer that is connected to this broker and stays registered with the leader of its topic.

The leader may be this broker or another one, and may change: the session continues under the next leader as long as the
connection lives, and assignments come back through this module. A session ends if another connection has taken it over,
or if the leader does not know it any more. It is never started again without the consumer's knowledge, because a
consumer that moved and left must not come back as a ghost. The caller's `register` finds the leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from magnetar.base.errors import MagnetarError, Refused, Unavailable
from magnetar.base.limits import CALL_RETRY_S_MAX, CALL_RETRY_S_MIN, SHARE_ASK_S
from magnetar.base.names import TopicName
from magnetar.cluster.calls.topic_calls import AwaitAssignment, Leave, Peers, Register
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime
from magnetar.scalable.consumers.assignment import Assignment, Listener
from magnetar.scalable.consumers.remote import assignment

log = get("scalable")


@dataclass(frozen=True, slots=True)
class LocalContext:
    """What all stream consumers of this broker share. `register` finds the leader and registers a consumer there;
    `moved` is called with the number of the session that ended."""

    runtime: Runtime
    owner: Owner
    peers: Peers
    register: Callable[[LocalConsumer], Awaitable[Assignment]]
    moved: Callable[[LocalConsumer, int], None]


class LocalConsumer:
    """Implements the coordinator's `Listener`. `makes`: a consumer that comes for the first time creates a missing
    subscription."""

    def __init__(
        self,
        name: TopicName,
        subscription: str,
        consumer: str,
        listener: Listener,
        context: LocalContext,
        *,
        makes: bool = True,
    ) -> None:
        self.name = name
        self.subscription = subscription
        self.consumer = consumer
        self.connection = listener.connection
        self.shares = listener.shares
        self.session = 0  # 0: not registered yet
        self.makes = makes
        self.away = False  # registered with another broker
        self.closed = False
        self._listener = listener
        self._runtime = context.runtime
        self._owner = context.owner
        self._peers = context.peers
        self._register = context.register
        self._moved = context.moved
        self._task: asyncio.Task[None] | None = None
        self._again = False  # the leader ended while it was being followed

    @property
    def connected(self) -> bool:
        return self._listener.connected and not self.closed

    async def begin(self) -> Assignment:
        """The segments that the consumer may read first. Raises the error if the leader refuses the consumer."""
        assigned = await self._register(self)
        self._take(assigned)
        if self.away and not self.closed:
            self._go_on()
        return assigned

    async def ask(self) -> Assignment:
        """Register with the leader, which is another broker."""
        request = Register(
            op="register",
            subscription=self.subscription,
            consumer=self.consumer,
            connection=self.connection,
            resume=self.session,
            shares=self.shares,
            makes=self.makes,
        )
        reply = await self._peers.register(self.name, request)
        self.away = True
        return assignment(self.subscription, self.consumer, reply)

    # From the leader

    def assigned(self, assignment: Assignment) -> None:
        if not self.closed:
            self._take(assignment)
            self._listener.assigned(assignment)

    def ended(self, error: MagnetarError) -> None:
        """A leader that leads no more is followed by another one; everything else is the end."""
        if self.closed:
            return
        if isinstance(error, Unavailable):
            self.away = False
            self._again = True
            self._go_on()
        else:
            self.close()
            self._moved(self, self.session)
            self._listener.ended(error)

    # From the consumer's connection

    def close(self) -> None:
        self.closed = True
        if self._task is not None:
            self._task.cancel()

    def lost(self) -> None:
        """The connection was lost. A leader on another broker gets a report; if that fails, it notices the silence."""
        self.close()
        if self.away and not self._owner.closed:
            self._runtime.spawn(self._owner, self._tell_lost())

    async def leave(self) -> None:
        """With the leader, which is another broker."""
        await self._peers.leave(self.name, self._leaving(lost=False))

    async def _tell_lost(self) -> None:
        try:
            await self._peers.leave(self.name, self._leaving(lost=True))
        except MagnetarError as error:
            log.debug("loss_report_failed", topic=str(self.name), consumer=self.consumer, error=str(error))

    def _leaving(self, *, lost: bool) -> Leave:
        return Leave(
            op="leave",
            subscription=self.subscription,
            consumer=self.consumer,
            session=self.session,
            connection=self.connection,
            lost=lost,
        )

    # Going on

    def _take(self, assignment: Assignment) -> None:
        before, self.session = self.session, assignment.session
        if before != self.session:
            self._moved(self, before)

    def _go_on(self) -> None:
        if (self._task is None or self._task.done()) and not self._owner.closed:
            self._task = self._runtime.spawn(self._owner, self._follow())

    async def _follow(self) -> None:
        """Fetch what the leader has to say; find the next one when it is silent."""
        wait_s = CALL_RETRY_S_MIN
        while self.connected:
            try:
                if self.away:
                    await self._fetch()
                self.away = self._again = False
                self.assigned(await self._register(self))
                if not self.away and not self._again:
                    return  # this broker leads and pushes assignments itself
                wait_s = CALL_RETRY_S_MIN
            except Refused as error:
                self._task = None
                self.ended(error)
                return
            except MagnetarError as error:
                log.info("leader_request_failed", topic=str(self.name), consumer=self.consumer, error=str(error))
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, CALL_RETRY_S_MAX)

    async def _fetch(self) -> None:
        """Until the leader does not know this consumer any more, or is silent. Refused: it is over."""
        seen = 0
        while True:
            request = AwaitAssignment(op="share", connection=self.connection, seen=seen, wait_s=SHARE_ASK_S)
            try:
                reply = await self._peers.share(self.name, request)
            except Refused:
                raise
            except MagnetarError as error:
                log.info("leader_connection_lost", topic=str(self.name), consumer=self.consumer, error=str(error))
                return
            if reply is not None:
                seen = reply.number
                self.assigned(assignment(self.subscription, self.consumer, reply))

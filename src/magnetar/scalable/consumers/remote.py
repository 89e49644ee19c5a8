"""Stream consumers that this broker leads and that are connected to another one: their shares wait here to be fetched.

The other broker asks for news again and again; a question is answered the moment there is some. A broker that stops
asking has lost its consumer, or is lost itself: the grace period begins then, as if the connection had been here
(H-F8). Keeps the coordinator's `Listener` for each; decides nothing about segments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from magnetar.base.errors import ConsumerNotFound, MagnetarError, NotReady
from magnetar.base.ids import Epoch, SegmentId, Term
from magnetar.base.limits import SHARE_ASK_S, VISITOR_SILENT_S
from magnetar.base.ranges import HashRange
from magnetar.cluster.calls.topic_calls import AssignmentReply, Granted
from magnetar.layout.segment import Segment
from magnetar.scalable.consumers.assignment import Assignment
from magnetar.scalable.consumers.coordinator import Coordinator


class RemoteConsumers:
    """By connection."""

    def __init__(self) -> None:
        self._visitors: dict[str, RemoteConsumer] = {}

    def __len__(self) -> int:
        return len(self._visitors)

    async def register(
        self, coordinator: Coordinator, consumer: str, connection: str, resume: int, *, shares: bool = False
    ) -> AssignmentReply:
        visitor = RemoteConsumer(connection, shares=shares)
        before = self._visitors.get(connection)
        if before is not None:
            before.close()  # first: its silence must not end the session that goes on
        self._visitors[connection] = visitor
        try:
            assignment = await coordinator.register(consumer, visitor, resume=resume)
        except BaseException:
            if self._visitors.get(connection) is visitor:
                del self._visitors[connection]
            raise

        def lost() -> None:
            if self._visitors.get(connection) is visitor:
                del self._visitors[connection]
                coordinator.disconnected(consumer, assignment.session)

        visitor.begin(lost)
        return shared(assignment)

    async def share(self, connection: str, seen: int, wait_s: float) -> AssignmentReply | None:
        visitor = self._visitors.get(connection)
        if visitor is None:
            raise NotReady("the consumer is not registered at this broker: register it again")
        try:
            return await visitor.news(seen, wait_s)
        except MagnetarError:
            if self._visitors.get(connection) is visitor:
                del self._visitors[connection]
            visitor.close()
            raise

    def leave(self, connection: str) -> None:
        visitor = self._visitors.pop(connection, None)
        if visitor is not None:
            visitor.close()

    def close(self) -> None:
        visitors, self._visitors = self._visitors, {}
        for visitor in visitors.values():
            visitor.close(NotReady("this broker is stopping: register the consumer again"))


class RemoteConsumer:
    """One consumer of another broker. The newest share is all that is kept for it."""

    def __init__(self, connection: str, *, shares: bool = False) -> None:
        self.connection = connection
        self.shares = shares
        self.connected = True
        self._number = 0
        self._newest: Assignment | None = None
        self._error: MagnetarError | None = None
        self._woken = asyncio.Event()
        self._asking = 0
        self._lost: Callable[[], None] = _nobody
        self._timer: asyncio.TimerHandle | None = None

    def assigned(self, assignment: Assignment) -> None:
        self._newest = assignment
        self._number += 1
        self._woken.set()

    def ended(self, error: MagnetarError) -> None:
        self._error = error
        self._woken.set()

    def begin(self, lost: Callable[[], None]) -> None:
        self._lost = lost
        self._arm()

    async def news(self, seen: int, wait_s: float) -> AssignmentReply | None:
        """None: nothing new until the time is over. Raises the error that ended the consumer."""
        self._asking += 1
        self._disarm()
        try:
            async with asyncio.timeout(min(SHARE_ASK_S, wait_s)):
                while self._error is None and (self._newest is None or self._number <= seen):
                    self._woken.clear()
                    await self._woken.wait()
        except TimeoutError:
            return None
        finally:
            self._asking -= 1
            if not self._asking:
                self._arm()
        if self._error is not None:
            raise self._error
        assert self._newest is not None
        return shared(self._newest, self._number)

    def close(self, why: MagnetarError | None = None) -> None:
        self._lost = _nobody
        self._disarm()
        self.ended(why or ConsumerNotFound("the consumer has disconnected"))

    def _arm(self) -> None:
        if self._lost is not _nobody:
            self._timer = asyncio.get_running_loop().call_later(VISITOR_SILENT_S, self._silent)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _silent(self) -> None:
        self.connected = False
        self._lost()


def _nobody() -> None:
    """The listener of a consumer that has not begun or has ended: it ignores the call."""


def shared(assignment: Assignment, number: int = 0) -> AssignmentReply:
    """An assignment as it goes to another broker. A broker that has seen nothing yet gets all of it again."""
    return AssignmentReply(
        segments=tuple(
            Granted(
                one.id,
                one.range.start,
                one.range.end,
                one.legacy_topic,
                one.bucket_splits if one.id in assignment.shared else (),
            )
            for one in assignment.segments
        ),
        epoch=assignment.epoch,
        term=assignment.term,
        generation=assignment.generation,
        session=assignment.session,
        number=number,
        shown_epoch=assignment.shown_epoch,
    )


def assignment(subscription: str, consumer: str, reply: AssignmentReply) -> Assignment:
    """As it came."""
    return Assignment(
        subscription=subscription,
        consumer=consumer,
        segments=tuple(
            Segment(SegmentId(one.id), HashRange(one.start, one.end), legacy_topic=one.legacy, bucket_splits=one.splits)
            for one in reply.segments
        ),
        epoch=Epoch(reply.epoch),
        term=Term(reply.term),
        generation=reply.generation,
        session=reply.session,
        shared=frozenset(SegmentId(one.id) for one in reply.segments if one.splits),
        shown_epoch=reply.shown_epoch,
    )

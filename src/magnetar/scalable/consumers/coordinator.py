"""Assigns the segments of one stream subscription to its consumers during one term.

`sessions.py` decides who takes part, `drain.py` which sealed segments are permanently done, `assign.py` who reads which
segment. This module holds the three states and writes their results into the subscription's record; consumers hear of
nothing that is not durable. It asks owners for drained and released segments, and pushes assignments. It handles one
event at a time. The record is written once at the start: an earlier leader that still believes in its term finds
another version and then checks the term (H-B3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from magnetar.base.errors import (
    ConsumerNotFound,
    MagnetarError,
    NotFound,
    NotReady,
    SubscriptionNotFound,
    TopicNotFound,
)
from magnetar.base.ids import SegmentId
from magnetar.base.limits import (
    DRAINED_ASK_S,
)
from magnetar.cluster.calls.topic_calls import SubscriptionLife
from magnetar.layout.layout import Layout
from magnetar.metadata import paths
from magnetar.observe.log import get
from magnetar.scalable.consumers.assignment import Assignment, Listener, superseded
from magnetar.scalable.consumers.stored_subscription import StoredSubscription
from magnetar.scalable.leader.repeated_requests import Question, until_yes
from magnetar.scalable.machines import assign, drain, sessions
from magnetar.scalable.machines.assign import Assign
from magnetar.scalable.record.subscription import Early, Hold, StreamPlan, Subscription

if TYPE_CHECKING:
    from magnetar.scalable.leader import term

log = get("controller")


class Coordinator:
    def __init__(self, leading: term.Term, subscription: Subscription, version: int) -> None:
        self.name = subscription.name
        self.path = paths.scalable_subscription(leading.name, subscription.name)
        self._term = leading
        self._runtime = leading.context.runtime
        self._kept = StoredSubscription(
            leading, subscription, version, ended=lambda error: leading.dropped(self, error)
        )
        self._grace_s = leading.context.grace_s(leading.name)
        self._layout = leading.record.layout
        self._drain = drain.restore(subscription)
        self._assign = Assign(subscription.plan, self._layout.epoch, leading.number)
        self._sessions = sessions.Sessions()
        self._listeners: dict[str, Listener] = {}  # by connection
        self._open: set[SegmentId] = set()  # all of whose ancestors are latched, and those that are read early
        self._lock = asyncio.Lock()
        self._asking: set[tuple[str, SegmentId, int | str]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self.closed = False

    @property
    def members(self) -> tuple[str, ...]:
        return self._sessions.members

    @property
    def expected(self) -> dict[str, sessions.ConsumerSession]:
        """The sessions that are connected or expected back, by name."""
        return {one.name: one for one in self._sessions.sessions}

    @property
    def subscription(self) -> Subscription:
        return self._kept.one

    def connected(self, consumer: str) -> bool:
        session = self._sessions.find(consumer)
        return session is not None and bool(session.connection)

    # From the term

    async def claim(self) -> None:
        async with self._lock:
            await self._kept.store(lambda one: replace(one, plan=replace(one.plan, generation=one.plan.generation + 1)))
            self._assign = replace(self._assign, plan=self._kept.one.plan)
            self._drain = drain.restore(self._kept.one)
            grace_ms = int(self._grace_s * 1000)
            self._sessions, effects = sessions.restore(
                self._kept.one.members, now_ms=self._runtime.wall(), grace_ms=grace_ms
            )
            await self._do_sessions(effects)
            await self._drained(drain.LayoutSeen(self._layout))

    def close(self, error: MagnetarError | None = None) -> None:
        self.closed = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        listeners, self._listeners = self._listeners, {}
        for listener in listeners.values():
            listener.ended(error or NotReady("another broker is taking over the topic: try again"))

    def layout_seen(self, layout: Layout) -> None:
        async def seen() -> None:
            async with self._lock:
                self._layout = layout
                await self._drained(drain.LayoutSeen(layout))

        self._spawn(seen)

    def refresh(self) -> None:
        """The record may be another one's."""

        async def look() -> None:
            async with self._lock:
                await self._kept.look()
                await self._drained(drain.LatchesStored(self._kept.one))

        self._spawn(look)

    # From consumers

    async def register(self, consumer: str, listener: Listener, *, resume: int = 0) -> Assignment:
        """`resume`: a session that is to go on. Superseded, ConsumerNotFound: it cannot."""

        async def work() -> Assignment:
            async with self._lock:
                session = self._sessions.find(consumer)
                if resume and session is None:
                    raise ConsumerNotFound(f"the session of {consumer} has ended: register again")
                if session is not None and 0 < resume != session.generation:
                    raise superseded(consumer)
                self._listeners[listener.connection] = listener
                link = listener.connection, self._runtime.wall(), listener.connected, resume, listener.shares
                await self._session(sessions.Registered(consumer, *link))
                return self._assignment(consumer)

        assignment: Assignment = await self._finish(work())
        return assignment

    async def leave(self, consumer: str, session: int) -> None:
        async def work() -> None:
            async with self._lock:
                self._forget_listener(consumer, session)
                await self._session(sessions.Departed(consumer, session))
                self._departed(consumer)

        await self._finish(work())

    async def segment_closed(self, consumer: str, segment: SegmentId) -> None:
        """There are clients that say in no other way that they leave. Its registration ends, on any broker."""

        async def work() -> None:
            async with self._lock:
                session = self._sessions.find(consumer)
                if session is None or segment not in assign.assignment(self._assign.plan, consumer):
                    return
                listener = self._listeners.pop(session.connection, None)
                await self._session(sessions.Departed(consumer, session.generation))
                self._departed(consumer)
                if listener is not None:
                    listener.ended(
                        ConsumerNotFound(f"{consumer} closed a segment that is assigned to it: register again")
                    )

        await self._finish(work())

    def disconnected(self, consumer: str, session: int) -> None:
        async def work() -> None:
            async with self._lock:
                self._forget_listener(consumer, session)
                await self._session(sessions.Disconnected(consumer, session, self._runtime.wall()))

        self._spawn(work)

    def _forget_listener(self, consumer: str, session: int) -> None:
        registered = self._sessions.find(consumer)
        if registered is not None and registered.generation == session:
            self._listeners.pop(registered.connection, None)

    def gone(self, connection: str) -> None:
        """The connection ended before its registration was answered, and no other event reports its end (H-F8)."""

        async def work() -> None:
            async with self._lock:
                for session in self._sessions.sessions:
                    if session.connection == connection:
                        await self._session(
                            sessions.Disconnected(session.name, session.generation, self._runtime.wall())
                        )
                self._listeners.pop(connection, None)

        self._spawn(work)

    # The machines

    async def _session(self, event: sessions.Event) -> None:
        self._sessions, effects = sessions.step(self._sessions, event)
        await self._do_sessions(effects)

    async def _do_sessions(self, effects: tuple[sessions.Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case sessions.StoreMembers(members=members):
                    await self._kept.store(lambda one, members=members: replace(one, members=members))  # type: ignore[misc]
                case sessions.ArmGrace():
                    self._arm(effect)
                case sessions.Supersede(connection=connection):
                    listener = self._listeners.pop(connection, None)
                    if listener is not None:
                        listener.ended(superseded(effect.name))
                case sessions.PushPlan(name=consumer):
                    self._push(consumer)
                case sessions.Reassign():
                    await self._reassign()

    async def _drained(self, event: drain.Event) -> None:
        self._drain, effects = drain.step(self._drain, event)
        for effect in effects:
            match effect:
                case drain.AskDrained(segment=segment, life=life, seeks=seeks):
                    if segment in self._open:
                        self._ask(("drained", segment, seeks), partial(self._ask_drained, segment, life, seeks))
                case drain.StoreLatches(latched=latched):
                    latch = partial(drain.latch, seeks=self._drain.seeks, latched=latched, layout=self._layout)
                    await self._kept.store(latch)
                    self._runtime.mark(
                        "latch.written", topic=str(self._term.name), subscription=self.name, latched=latched
                    )
                    await self._drained(drain.LatchesStored(self._kept.one))
                case drain.Reassign():
                    await self._reassign()

    async def _reassign(self) -> None:
        await self._planned(
            assign.InputsChanged(
                self._layout,
                frozenset(self._kept.one.latched),
                self._sessions.members,
                self._runtime.wall(),
                int(self._grace_s * 1000),
                self._sessions.sharing,
                self._received_by(),
            )
        )

    async def _planned(self, event: assign.Event) -> None:
        before = self._assign
        self._assign, effects = assign.step(before, event)
        for effect in effects:
            match effect:
                case assign.StorePlan(plan=plan):
                    latched = self._kept.one.latched
                    latched_then = event.latched if isinstance(event, assign.InputsChanged) else frozenset(latched)
                    await self._kept.store(partial(_planned_over, plan=plan, latched=latched_then))
                    if self._kept.one.plan != plan:  # a seek has ended since: the plan is made once more
                        self._assign = before
                        await self._reassign()
                        if not isinstance(event, assign.InputsChanged):
                            await self._planned(event)  # the event may still apply to the new plan
                        return
                case assign.PushAssignment(consumer=consumer):
                    self._push(consumer)
        holds = self._assign.plan.holds
        opened = {one.id for one in assign.assignable(self._layout, self._kept.one.latched)}
        opened |= {hold.segment for hold in holds if hold.early is Early.GRANTED}  # one that is empty is done
        if self._open != opened:
            # Segments behind the open ones cannot be drained yet: asking would load a thousand old segments together.
            self._open = opened
            await self._drained(drain.PollDue())
        for hold in holds:
            if hold.moving:
                evict = hold.holder if hold.early is Early.ENDING else ""
                work = partial(self._ask_released, hold.segment, hold.held_by, evict)
                self._ask((f"released {evict}", hold.segment, hold.held_by), work)
        self._ask_more(holds)

    # For those that read ahead (`stream_coordinator.py`)

    def _received_by(self) -> Mapping[SegmentId, str]:
        """Sealed segments, and who has received everything of them."""
        return {}

    def _ask_more(self, holds: tuple[Hold, ...]) -> None:
        """The plan is stored and pushed."""

    def _departed(self, consumer: str) -> None:
        """The consumer has left permanently."""

    # Pushing

    def _assignment(self, consumer: str) -> Assignment:
        session = self._sessions.find(consumer)
        if session is None:
            raise NotReady(f"consumer {consumer} has left the subscription: register again")
        segments = assign.assignment(self._assign.plan, consumer)
        return Assignment(
            self.name,
            consumer,
            tuple(self._layout.segment(id) for id in segments),
            self._layout.epoch,
            self._assign.term,
            self._assign.plan.generation,
            session.generation,
            assign.shared(self._assign.plan, consumer),
            self._layout.shown_epoch,
        )

    def _push(self, consumer: str) -> None:
        session = self._sessions.find(consumer)
        listener = self._listeners.get(session.connection) if session is not None else None
        if listener is not None:
            listener.assigned(self._assignment(consumer))

    # Owners

    def _ask(self, about: tuple[str, SegmentId, int | str], work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """One question of a kind at a time."""
        if about in self._asking:
            return
        self._asking.add(about)

        async def ask() -> None:
            try:
                await work()
            finally:
                self._asking.discard(about)

        self._spawn(ask)

    async def _ask_drained(self, segment: SegmentId, life: int, seeks: int) -> None:
        segment_client = self._term.context.segment_client
        if await self._until(lambda: segment_client.drained(self._topic(segment), self._life, DRAINED_ASK_S)):
            async with self._lock:
                await self._drained(drain.SegmentDrained(segment, life, seeks))

    async def _ask_released(self, segment: SegmentId, consumer: str, evict: str = "") -> None:
        segment_client = self._term.context.segment_client
        if await self._until(
            lambda: segment_client.released(self._topic(segment), self._life, DRAINED_ASK_S, evict=evict)
        ):
            async with self._lock:
                await self._planned(assign.SegmentReleased(segment, consumer))
                if evict:
                    await self._reassign()

    async def _until(self, question: Question) -> bool:
        return await until_yes(question, lambda: self.closed, topic=str(self._term.name), subscription=self.name)

    @property
    def _life(self) -> SubscriptionLife:
        return SubscriptionLife(self.name, self._kept.one.life)

    def _topic(self, segment: SegmentId) -> Any:
        return self._layout.segment(segment).topic(self._term.name)

    # Inside

    def _arm(self, effect: sessions.ArmGrace) -> None:
        before = self._timers.pop(effect.name, None)
        if before is not None:
            before.cancel()

        def ring() -> None:
            self._timers.pop(effect.name, None)
            self._spawn(lambda: self._expire(effect))

        wait_s = max(0.0, (effect.at_ms - self._runtime.wall()) / 1000)
        self._timers[effect.name] = asyncio.get_running_loop().call_later(wait_s, ring)

    async def _expire(self, effect: sessions.ArmGrace) -> None:
        async with self._lock:
            now_ms = max(self._runtime.wall(), effect.at_ms)  # the wall clock may lag behind the timer's
            held = assign.assignment(self._assign.plan, effect.name)
            await self._session(sessions.GraceExpired(effect.name, effect.generation, now_ms))
            if self._sessions.find(effect.name) is None:
                for segment in held:
                    self._ask(("evicted", segment, effect.name), partial(self._evict, segment, effect.name))

    async def _evict(self, segment: SegmentId, consumer: str) -> None:
        """The consumer has lost its link to the leader, but may still have one to the segment. There it would block the
        next consumer (H-F10). Its acknowledgements stay."""
        segment_client, topic = self._term.context.segment_client, self._topic(segment)
        try:
            await segment_client.released(topic, self._life, 0.0, evict=consumer, keeps_acks=True)
        except NotFound:
            pass  # the subscription or the segment was deleted: no consumer blocks it
        except MagnetarError as error:
            log.info("eviction_failed", topic=str(self._term.name), segment=segment, error=str(error))

    async def _finish(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Runs work of the coordinator itself: it continues if the caller leaves. NotReady: the term has ended."""
        if self.closed or self._term.owner.closed:
            work.close()
            raise NotReady("another broker is taking over the topic: try again")
        task = self._term.spawn(work)
        await asyncio.wait([task])
        if task.cancelled():
            raise NotReady("another broker is taking over the topic: try again")
        return task.result()

    def _spawn(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Not a coroutine: one whose task ends before its first step would never be awaited."""

        async def guarded() -> None:
            try:
                await work()
            except (NotReady, SubscriptionNotFound, TopicNotFound):
                pass  # the term, the subscription or the topic is over: nothing is left to do

        if not self.closed and not self._term.owner.closed:
            self._term.spawn(guarded())


def _planned_over(subscription: Subscription, plan: StreamPlan, latched: frozenset[SegmentId]) -> Subscription:
    """A plan that was made for other latches than the stored ones is not stored: it would assign a latched segment."""
    return replace(subscription, plan=plan) if latched == frozenset(subscription.latched) else subscription

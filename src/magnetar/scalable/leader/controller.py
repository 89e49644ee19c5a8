"""One scalable topic that this broker leads or tries to lead.

`scalable/machines/takeover.py` says who leads. This file holds the lock, reads and writes the record, keeps two clocks
(the proof that is due, the belief that expires) and opens a task group for each term, which dies with it. It has no
opinion: every answer becomes an event, every effect a call. `scalable/leader/term.py` has what a term does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from magnetar.base.errors import Conflict, MagnetarError, Moved, NotReady, TopicNotFound
from magnetar.base.limits import (
    CALL_RETRY_S_MAX,
    CALL_RETRY_S_MIN,
    LEADER_IDLE_S,
    LEADER_PROOF_S,
    TERM_WAIT_S,
)
from magnetar.base.names import TopicName
from magnetar.cluster.ownership import Broker
from magnetar.metadata import paths
from magnetar.metadata.lock import Lock, Locks
from magnetar.metadata.session_times import session_times
from magnetar.metadata.store import Change, Event, Session
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime
from magnetar.scalable.leader.operations import Operations
from magnetar.scalable.leader.pruner import Contents
from magnetar.scalable.leader.retry_pause import Pause
from magnetar.scalable.leader.segment_client import SegmentClient
from magnetar.scalable.leader.term import Term
from magnetar.scalable.machines import takeover
from magnetar.scalable.machines.effects import CallLost, ReadRecord, RecordRead, WriteRecord
from magnetar.scalable.machines.takeover import Phase, TakeOver
from magnetar.scalable.record.leader import decode_leader, encode_leader
from magnetar.scalable.record.record import Lifecycle, Record
from magnetar.scalable.record.store import RecordStore

log = get("controller")


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """What every controller of a broker works with."""

    runtime: Runtime
    records: RecordStore
    segment_client: SegmentClient
    contents: Contents
    locks: Locks
    operations: Operations
    me: Callable[[], Broker]
    grace_s: Callable[[TopicName], float]
    failed: Callable[[str, BaseException], None]  # a task ended with an error that no caller awaits


class Controller:
    """`retired` is called when no client needs the controller any more: it leads nothing and holds nothing then."""

    def __init__(self, name: TopicName, context: ControllerContext, retired: Callable[[Controller], None]) -> None:
        self.name = name
        self.term: Term | None = None
        self._context = context
        self._retired = retired
        self._owner = Owner(f"controller {name}", context.failed)
        self._state = TakeOver()
        self._lock: Lock | None = None
        self._locking = asyncio.Lock()  # one change of the lock at a time
        self._changed = asyncio.Event()
        self._retry_s = CALL_RETRY_S_MIN
        self._fenced = Pause()
        self._used_at = context.runtime.monotonic()
        self._proven_at = context.runtime.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        store = context.records.store
        self._stops = [
            store.subscribe(paths.controller(name), self._heard_lock),
            store.on_session(self._heard_session),
        ]
        self._tick()

    @property
    def leading(self) -> bool:
        return self._state.phase is Phase.LEADING

    # Asking

    def need(self) -> None:
        """A client needs a leader: compete for the lock, unless a leader is known or is being found."""
        self._used_at = self._context.runtime.monotonic()
        if not self._fenced.lasts(self._used_at):
            self._feed(takeover.Needed())

    async def lead(self, wait_s: float = TERM_WAIT_S) -> Term:
        """The present term. Moved: another broker leads. TopicNotFound: the topic does not exist. NotReady: no broker
        leads now, try again."""
        try:
            async with asyncio.timeout(wait_s):
                while True:
                    if self.term is not None:
                        self._used_at = self._context.runtime.monotonic()
                        return self.term
                    self.need()
                    self._changed.clear()
                    await self._changed.wait()
                    if self.term is None and self._state.phase is Phase.FOLLOWING:
                        await self._follow()
        except TimeoutError:
            raise NotReady(f"{self.name} has no leader at the moment: try again") from None

    async def leader(self) -> Broker | None:
        """The broker that holds the lock, as the store says now."""
        node = await self._context.records.store.get(paths.controller(self.name))
        return None if node is None else decode_leader(node.value)

    async def _follow(self) -> None:
        """Not ours: whose is it?"""
        record, _ = await self._context.records.fresh(self.name)
        if record is None or record.lifecycle is Lifecycle.GONE:
            raise TopicNotFound(f"Scalable topic not found: {self.name}")
        leader = await self.leader()
        if leader is not None and leader.id != self._context.me().id:
            words = f"{self.name} is led by {leader.id}: send the request there"
            raise Moved(words, owner=leader.id, http=leader.urls.http or leader.urls.https, resource=str(self.name))
        await asyncio.sleep(CALL_RETRY_S_MIN)  # it was released in between, or is left over from our old session

    async def close(self, why: str = "the broker is stopping") -> None:
        for stop in self._stops:
            stop()
        if self._timer is not None:
            self._timer.cancel()
        if self.term is not None:
            await self._end(self.term, why)
        await self._owner.close()
        await self._release()

    # The machine

    def _feed(self, event: takeover.Event) -> None:
        if self._owner.closed:
            return
        before = self._state
        self._state, effects = takeover.step(before, event)
        if isinstance(event, RecordRead) and before.phase is self._state.phase is Phase.LEADING:
            self._proven_at = self._context.runtime.monotonic()
            self._seen(event.record)
        for effect in effects:
            self._do(effect)
        if self._state.phase is not before.phase:
            self._retry_s = CALL_RETRY_S_MIN
            self._changed.set()

    def _seen(self, record: Record | None) -> None:
        """Others change it too: partitions come to a plain topic."""
        if self.term is not None and record is not None and record.epoch > self.term.record.epoch:
            self.term.spawn(self.term.look())

    def _do(self, effect: takeover.Effect) -> None:
        match effect:
            case takeover.CompeteForLock():
                self._spawn(self._compete())
            case takeover.ReleaseLock():
                self._spawn(self._release())
            case ReadRecord() | WriteRecord():
                self._spawn(self._call(effect))
            case takeover.BeginTerm(term=number, record=record):
                self._begin(number, record)
            case takeover.ResumeReshape(record=record, version=version):
                assert self.term is not None
                self.term.resume_reshape(record, version)
            case takeover.ResumeDeletion(record=record, version=version):
                assert self.term is not None
                self.term.resume_deletion(record, version)
            case takeover.EndTerm(why=why):
                assert self.term is not None
                term, self.term = self.term, None
                self._spawn(self._end(term, why))

    def _begin(self, number: int, record: Record) -> None:
        self._proven_at = self._context.runtime.monotonic()
        self.term = Term(self.name, record, self._context, refused=self._refused, prove=self._prove)
        self._context.runtime.mark("takeover.won", topic=str(self.name), term=number, epoch=record.epoch)
        log.info("term_started", topic=str(self.name), term=number, epoch=record.epoch)

    def _prove(self) -> None:
        self._feed(takeover.ProofDue())

    def _refused(self, term: Term, why: str) -> None:
        self._context.runtime.mark("zombie.fenced", topic=str(self.name), term=term.number, why=why)
        if self.term is term and (pause_s := self._fenced.refused(self._context.runtime.monotonic())):
            log.warning("term_refusal_repeated", topic=str(self.name), term=term.number, pause_s=pause_s, why=why)
            asyncio.get_running_loop().call_later(pause_s, self._changed.set)  # those who wait for a leader ask again
        self._feed(takeover.TermRefused(term.number))

    async def _end(self, term: Term, why: str) -> None:
        log.info("term_ended", topic=str(self.name), term=term.number, why=why)
        await term.close()

    async def _call(self, call: ReadRecord | WriteRecord) -> None:
        event = await self._context.records.call(self.name, call)
        if isinstance(event, CallLost):
            wait_s, self._retry_s = self._retry_s, min(2 * self._retry_s, CALL_RETRY_S_MAX)
            await asyncio.sleep(wait_s)
        self._feed(event)  # type: ignore[arg-type]  # the store answers these two calls with what the machine knows

    async def _compete(self) -> None:
        value = encode_leader(self._context.me())
        while True:
            async with self._locking:
                if self._lock is not None:
                    self._feed(takeover.LockWon())
                    return
                try:
                    self._lock = await self._context.locks.acquire(
                        paths.controller(self.name), value, on_lost=self._lost
                    )
                except Conflict:
                    self._feed(takeover.LockTaken())
                    return
                except MagnetarError as error:
                    log.warning("lock_read_failed", topic=str(self.name), error=str(error))
                else:
                    self._feed(takeover.LockWon())
                    return
            await asyncio.sleep(CALL_RETRY_S_MAX)

    async def _release(self) -> None:
        async with self._locking:
            lock, self._lock = self._lock, None
            if lock is not None:
                try:
                    await self._context.locks.release(lock)
                except MagnetarError as error:
                    log.warning(
                        "lock_release_failed", topic=str(self.name), error=str(error)
                    )  # it ends with the session

    def _lost(self, lock: Lock) -> None:
        if self._lock is lock:
            self._lock = None
            self._feed(takeover.LockLost())

    # What is heard, and the clocks

    def _heard_lock(self, event: Event) -> None:
        freed = event.change is Change.DELETED and event.path == paths.controller(self.name)
        paused = self._fenced.lasts(self._context.runtime.monotonic())
        if freed and not paused and not self._locking.locked() and not self._owner.closed:  # else released by us
            self._spawn(self._freed())

    async def _freed(self) -> None:
        """Another broker released the lock. A deleted topic needs no leader: brokers would pass its lock on forever."""
        event = await self._context.records.call(self.name, ReadRecord(takeover.OP))
        if isinstance(event, RecordRead) and (event.record is None or event.record.lifecycle is Lifecycle.GONE):
            return
        self._feed(takeover.LockFreed())

    def _heard_session(self, session: Session) -> None:
        if session in (Session.RECONNECTED, Session.REESTABLISHED):
            self._feed(takeover.ProofDue())

    def _tick(self) -> None:
        now = self._context.runtime.monotonic()
        busy = self.term is not None and self.term.busy
        if busy:
            self._used_at = now
        if self.term is not None and now - self._proven_at > session_times(self._context.records.store).belief_s:
            self._feed(takeover.BeliefExpired(self.term.number))
        elif now - self._used_at > LEADER_IDLE_S and self._state.phase in (Phase.LEADING, Phase.FOLLOWING):
            self._retired(self)
            return
        else:
            self._feed(takeover.ProofDue())
        self._timer = asyncio.get_running_loop().call_later(LEADER_PROOF_S, self._tick)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._context.runtime.spawn(self._owner, work)

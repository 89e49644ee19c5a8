"""One handle's connection to the metadata store in memory, and its session: how an operation travels, and how it fails.

A request leaves, arrives and is answered, each after a drawn delay, in order. A request in flight when the connection
breaks has an unknown outcome: its caller gets the error immediately, while the request may still arrive. A request
during a known break certainly does not happen (`NotReady`). The client gives a session up at five sixths of its time,
before the server does, so an ephemeral of its own older session may still exist. `Listeners` get session events. It
trusts the content of the store.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections.abc import Callable
from typing import Protocol, TypeVar

from magnetar.base.errors import Closed, ConnectionLost, MagnetarError, NotReady, TimedOut
from magnetar.metadata.listeners import Listeners
from magnetar.metadata.store import Session
from simulation.environment.incarnation import INCARNATION
from simulation.stores.metadata_faults import ChangeFeed, FaultRates

T = TypeVar("T")
GIVE_UP_SHARE = 5 / 6  # of the session's time: when a client that is away calls its session lost


class StoreServer(Protocol):
    """The part of the store's content that a connection needs."""

    down: bool
    rng: random.Random

    def count(self, fault: str) -> None: ...
    def later(self, delay_s: float, work: Callable[[], None]) -> None: ...
    def new_session(self) -> str: ...
    def end_session(self, session: str) -> None: ...
    def lives(self, session: str) -> bool: ...


class StoreConnection:
    def __init__(self, server: StoreServer, fault_rates: FaultRates, feed: ChangeFeed, listeners: Listeners) -> None:
        self.fault_rates = fault_rates
        self.up = not server.down
        self.session = server.new_session() if self.up else ""
        self._server = server
        self._feed = feed
        self._listeners = listeners
        self._known = not self.up  # whether the client knows that it is away
        self._given_up = not self.up
        self._expired_untold = False
        self._dead = False
        self._age = 0  # of the connection: what was sent on an older one is cut off
        self._asked: dict[asyncio.Future[object], None] = {}
        self._arrives_s = 0.0
        self._answers_s = 0.0
        self._context = contextvars.copy_context()
        if not self.up:
            feed.cut()

    # Operations

    async def ask(self, work: Callable[[], T], *, writes: bool) -> T:
        """`work` runs at the server without interruption; the answer includes its exceptions."""
        self._trouble()
        if self.up and self.fault_rates.is_perfect:
            await asyncio.sleep(0)  # let others run first, as a store behind a thread or a socket does
            if self._dead:
                raise Closed("the metadata store is closed")
            if not self.up:
                raise ConnectionLost("the connection to the metadata store broke")
            return work()
        if not self.up and self._known:
            self._server.count("refused while away")
            await asyncio.sleep(self._drawn(self.fault_rates.delay_s))
            raise NotReady("there is no connection to the metadata store")
        answer: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._asked[answer] = None
        if self.up:
            self._send(work, answer, writes)
        try:
            return await answer  # type: ignore[return-value]
        finally:
            self._asked.pop(answer, None)

    def _send(self, work: Callable[[], object], answer: asyncio.Future[object], writes: bool) -> None:
        now = asyncio.get_running_loop().time()
        self._arrives_s = max(self._arrives_s, now + self._drawn(self.fault_rates.delay_s))
        age, fate = self._age, self._fate(writes)
        self._server.later(self._arrives_s - now, lambda: self._arrive(work, answer, age, fate, writes))

    def _arrive(
        self, work: Callable[[], object], answer: asyncio.Future[object], age: int, fate: str, writes: bool
    ) -> None:
        if age != self._age:
            if writes and self._chance(self.fault_rates.late):
                self._happen_late(work)
            return
        if fate:
            self._server.count(fate)
            self._tell_later(answer, TimedOut("the metadata store did not answer"))
        if fate == "answers lost, not applied":
            if writes and self._chance(self.fault_rates.late):
                self._happen_late(work)
            return
        result: object = None
        error: MagnetarError | None = None
        try:
            result = work()
        except MagnetarError as refusal:
            error = refusal
        if not fate:
            now = asyncio.get_running_loop().time()
            self._answers_s = max(self._answers_s, now + self._drawn(self.fault_rates.delay_s))
            self._server.later(self._answers_s - now, lambda: self._answer(answer, age, result, error))

    def _answer(self, answer: asyncio.Future[object], age: int, result: object, error: MagnetarError | None) -> None:
        if answer.done() or age != self._age:
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)

    def _happen_late(self, work: Callable[[], object]) -> None:
        """The caller has its error already; the request was in flight."""

        def arrive() -> None:
            self._server.count("writes applied late")
            try:
                work()
            except MagnetarError:
                pass  # refused, and the caller is gone

        self._server.later(self._drawn(self.fault_rates.late_s), arrive)

    def _tell_later(self, answer: asyncio.Future[object], error: MagnetarError) -> None:
        def tell() -> None:
            if not answer.done():
                answer.set_exception(error)

        self._server.later(self._drawn(self.fault_rates.lost_s), tell)

    def _fate(self, writes: bool) -> str:
        if writes and self._chance(self.fault_rates.lost_applied):
            return "answers lost, applied"
        return "answers lost, not applied" if self._chance(self.fault_rates.lost_dropped) else ""

    def _trouble(self) -> None:
        """Random faults of the connection at any operation."""
        if not self.up:
            return
        if self._chance(self.fault_rates.disconnect):
            noticed = not self._chance(self.fault_rates.unnoticed)
            self.disconnect(noticed=noticed, seconds=self._drawn(self.fault_rates.away_s))
        elif self._chance(self.fault_rates.expire):
            self.expire(noticed=True)
        elif self._chance(self.fault_rates.expire_untold):
            self.expire(noticed=False)

    # The connection

    def disconnect(self, *, noticed: bool, seconds: float | None = None) -> None:
        """Not `noticed`: the handle notices within `notice_s`. It is back after `seconds`, or on request."""
        if not self.up:
            return
        self._server.count("disconnections" if noticed else "disconnections unnoticed")
        self.up, self._known = False, False
        self._age += 1
        self._feed.cut()
        age, session = self._age, self.session
        if noticed:
            self._notice(age)
        else:
            self._later(self._drawn(self.fault_rates.notice_s), lambda: self._notice(age))
        self._later(self.fault_rates.session_s * GIVE_UP_SHARE, lambda: self._give_up(age))
        self._server.later(self.fault_rates.session_s, lambda: self._time_out(age, session))
        if seconds is not None:
            self._later(seconds, lambda: self.connect(age))

    def connect(self, age: int | None = None) -> None:
        """Connects again, in the same session if it still exists on both sides."""
        if self._dead or self.up or self._server.down or (age is not None and age != self._age):
            return
        self._notice(self._age)
        if self._server.lives(self.session) and not self._given_up:
            self.up = True
            self._age += 1
            self._tell(Session.RECONNECTED)
            self._feed.join()
            return
        self._lose()
        self.renew()

    def renew(self) -> None:
        """Begins another session; events are delivered again."""
        self._fail(ConnectionLost("the connection to the metadata store broke"))
        self.session = self._server.new_session()
        self.up, self._given_up, self._expired_untold = True, False, False
        self._age += 1
        self._tell(Session.RECONNECTED)
        self._tell(Session.REESTABLISHED)
        self._feed.join()

    # The session

    def expire(self, *, noticed: bool) -> None:
        """The server ends the session: its ephemerals are gone, and all handles get the event, except an owner that did
        not notice."""
        if not self._server.lives(self.session):
            return
        if noticed:
            self._server.count("sessions expired")
            self.disconnect(noticed=True)
            self._server.end_session(self.session)
            self._lose()
            age = self._age
            self._later(self._drawn(self.fault_rates.away_s), lambda: self.connect(age))
            return
        self._server.count("sessions expired untold")
        self._feed.cut()
        self._expired_untold = True
        session = self.session
        self._server.end_session(session)
        self._later(self._drawn(self.fault_rates.learn_s), lambda: self.learn(session))

    def learn(self, session: str | None = None) -> None:
        """An owner notices that its session has expired."""
        if self._dead or not self._expired_untold or (session is not None and session != self.session):
            return
        self._expired_untold = False
        if self.up:
            self.up, self._known = False, False
            self._age += 1
            self._notice(self._age)
            self._lose()
            self.connect()

    def refused(self) -> NotReady:
        """The server refused an ephemeral of an unknown session: so an owner learns of the expiry too."""
        session = self.session
        self._later(0, lambda: self.learn(session))
        return NotReady("the session has expired")

    def die(self) -> None:
        """The process ends silently: the session ends by its time."""
        self._age += 1
        session, self._dead, self.up = self.session, True, False
        self._feed.cut()
        if session:
            self._server.later(self.fault_rates.session_s, lambda: self._server.end_session(session))

    def close(self) -> None:
        """Closes in order: every waiting caller gets an error."""
        self._dead, self.up = True, False
        self._age += 1
        self._fail(Closed("the metadata store is closed"))

    def _notice(self, age: int) -> None:
        if self._known or age != self._age or self._dead:
            return
        self._known = True
        self._tell(Session.CONNECTION_LOST)
        self._fail(ConnectionLost("the connection to the metadata store broke"))

    def _fail(self, error: MagnetarError) -> None:
        for answer in list(self._asked):
            if not answer.done():
                answer.set_exception(error)

    def _lose(self) -> None:
        if not self._given_up:
            self._given_up = True
            self._tell(Session.LOST)

    def _give_up(self, age: int) -> None:
        if age == self._age and not self._dead:
            self._notice(age)
            self._lose()

    def _time_out(self, age: int, session: str) -> None:
        if not self._server.lives(session) or (age != self._age and self.session == session):
            return
        if self._server.down:  # a server that was away itself gives every session its whole time again
            self._server.later(self.fault_rates.session_s, lambda: self._time_out(age, session))
            return
        self._server.count("sessions timed out")
        self._server.end_session(session)

    def _tell(self, session: Session) -> None:
        """Notifies in the handle's own context, for any cause; a dead handle gets nothing."""
        life = self._context.get(INCARNATION)
        if life is not None and life.dead:
            return
        self._context.copy().run(self._listeners.tell_session, session)

    def _later(self, delay_s: float, work: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(delay_s, work, context=self._context)

    def _drawn(self, bound_s: float) -> float:
        return self._server.rng.uniform(0, bound_s) if bound_s else 0.0

    def _chance(self, of: float) -> bool:
        return bool(of) and self._server.rng.random() < of

"""One handle's connection to the metadata store in memory and its session: how an operation travels, and what breaks.

A request leaves, arrives and is answered, each after a drawn delay, in order. What was under way when the connection
broke has an unknown outcome: its caller is told so at once, while the request may still arrive. What is asked while the
break is known certainly does not happen (`NotReady`). The client gives a session up at five sixths of its time, before
the server does; so an ephemeral of one's own older session may still be there. Session events are told through
`Listeners`. It trusts the content to be the only truth.
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
from simulation.environment.incarnation import LIFE
from simulation.stores.metadata_faults import Feed, Nastiness

T = TypeVar("T")
GIVE_UP = 5 / 6  # of the session's time: when a client that is away calls its session lost


class Server(Protocol):
    """What a link needs of the store's content."""

    down: bool
    rng: random.Random

    def count(self, fault: str) -> None: ...
    def later(self, delay_s: float, work: Callable[[], None]) -> None: ...
    def new_session(self) -> str: ...
    def end_session(self, session: str) -> None: ...
    def lives(self, session: str) -> bool: ...


class Link:
    def __init__(self, server: Server, nasty: Nastiness, feed: Feed, listeners: Listeners) -> None:
        self.nasty = nasty
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
        """`work` is done at the server, by nobody else's turn; what it raises is the answer."""
        self._trouble()
        if self.up and self.nasty.asks_nothing:
            await asyncio.sleep(0)  # let others run first, as a store behind a thread or a socket does
            if self._dead:
                raise Closed("the metadata store is closed")
            if not self.up:
                raise ConnectionLost("the connection to the metadata store broke")
            return work()
        if not self.up and self._known:
            self._server.count("refused while away")
            await asyncio.sleep(self._drawn(self.nasty.delay_s))
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
        self._arrives_s = max(self._arrives_s, now + self._drawn(self.nasty.delay_s))
        age, fate = self._age, self._fate(writes)
        self._server.later(self._arrives_s - now, lambda: self._arrive(work, answer, age, fate, writes))

    def _arrive(
        self, work: Callable[[], object], answer: asyncio.Future[object], age: int, fate: str, writes: bool
    ) -> None:
        if age != self._age:
            if writes and self._chance(self.nasty.late):
                self._happen_late(work)
            return
        if fate:
            self._server.count(fate)
            self._tell_later(answer, TimedOut("the metadata store did not answer"))
        if fate == "answers lost, not applied":
            if writes and self._chance(self.nasty.late):
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
            self._answers_s = max(self._answers_s, now + self._drawn(self.nasty.delay_s))
            self._server.later(self._answers_s - now, lambda: self._answer(answer, age, result, error))

    def _answer(self, answer: asyncio.Future[object], age: int, result: object, error: MagnetarError | None) -> None:
        if answer.done() or age != self._age:
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(result)

    def _happen_late(self, work: Callable[[], object]) -> None:
        """The caller knows of nothing any more; the request was on its way."""

        def arrive() -> None:
            self._server.count("writes applied late")
            try:
                work()
            except MagnetarError:
                pass  # refused, and nobody is there to hear it

        self._server.later(self._drawn(self.nasty.late_s), arrive)

    def _tell_later(self, answer: asyncio.Future[object], error: MagnetarError) -> None:
        def tell() -> None:
            if not answer.done():
                answer.set_exception(error)

        self._server.later(self._drawn(self.nasty.lost_s), tell)

    def _fate(self, writes: bool) -> str:
        if writes and self._chance(self.nasty.lost_applied):
            return "answers lost, applied"
        return "answers lost, not applied" if self._chance(self.nasty.lost_dropped) else ""

    def _trouble(self) -> None:
        """What may befall the link at any operation."""
        if not self.up:
            return
        if self._chance(self.nasty.disconnect):
            told = not self._chance(self.nasty.unnoticed)
            self.disconnect(told=told, seconds=self._drawn(self.nasty.away_s))
        elif self._chance(self.nasty.expire):
            self.expire(told=True)
        elif self._chance(self.nasty.expire_untold):
            self.expire(told=False)

    # The connection

    def disconnect(self, *, told: bool, seconds: float | None = None) -> None:
        """Not `told`: the handle notices within `notice_s`. It is back after `seconds`, or when asked."""
        if not self.up:
            return
        self._server.count("disconnections" if told else "disconnections unnoticed")
        self.up, self._known = False, False
        self._age += 1
        self._feed.cut()
        age, session = self._age, self.session
        if told:
            self._notice(age)
        else:
            self._later(self._drawn(self.nasty.notice_s), lambda: self._notice(age))
        self._later(self.nasty.session_s * GIVE_UP, lambda: self._give_up(age))
        self._server.later(self.nasty.session_s, lambda: self._time_out(age, session))
        if seconds is not None:
            self._later(seconds, lambda: self.connect(age))

    def connect(self, age: int | None = None) -> None:
        """Back, in the same session if it still is one for both sides."""
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
        """Another session; events are heard again."""
        self._fail(ConnectionLost("the connection to the metadata store broke"))
        self.session = self._server.new_session()
        self.up, self._given_up, self._expired_untold = True, False, False
        self._age += 1
        self._tell(Session.RECONNECTED)
        self._tell(Session.REESTABLISHED)
        self._feed.join()

    # The session

    def expire(self, *, told: bool) -> None:
        """The server ends the session: its ephemerals are gone, and everybody but an untold owner hears of it."""
        if not self._server.lives(self.session):
            return
        if told:
            self._server.count("sessions expired")
            self.disconnect(told=True)
            self._server.end_session(self.session)
            self._lose()
            age = self._age
            self._later(self._drawn(self.nasty.away_s), lambda: self.connect(age))
            return
        self._server.count("sessions expired untold")
        self._feed.cut()
        self._expired_untold = True
        session = self.session
        self._server.end_session(session)
        self._later(self._drawn(self.nasty.learn_s), lambda: self.learn(session))

    def learn(self, session: str | None = None) -> None:
        """An untold owner finds out."""
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
        """An ephemeral was to be put in a session that the server does not know: that is how an owner learns it too."""
        session = self.session
        self._later(0, lambda: self.learn(session))
        return NotReady("the session has expired")

    def die(self) -> None:
        """The process is gone, without a word: the session ends by its time."""
        self._age += 1
        session, self._dead, self.up = self.session, True, False
        self._feed.cut()
        if session:
            self._server.later(self.nasty.session_s, lambda: self._server.end_session(session))

    def close(self) -> None:
        """In order: whoever still waits is told."""
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
            self._server.later(self.nasty.session_s, lambda: self._time_out(age, session))
            return
        self._server.count("sessions timed out")
        self._server.end_session(session)

    def _tell(self, session: Session) -> None:
        """In the handle's own context, whoever brought it about; the dead are told nothing."""
        life = self._context.get(LIFE)
        if life is not None and life.dead:
            return
        self._context.copy().run(self._listeners.tell_session, session)

    def _later(self, delay_s: float, work: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(delay_s, work, context=self._context)

    def _drawn(self, bound_s: float) -> float:
        return self._server.rng.uniform(0, bound_s) if bound_s else 0.0

    def _chance(self, of: float) -> bool:
        return bool(of) and self._server.rng.random() < of

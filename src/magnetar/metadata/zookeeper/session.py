"""The session with ZooKeeper as a machine: which server to dial, when to ping, when the session is lost.

Events go in with the time, effects come out; the client carries them out. A session survives its connections: the next
server gets its id and password. It is lost when a server says so, or when no server was heard for GIVE_UP_SHARE of its
time: the machine then forgets it, although the server may keep its ephemerals a little longer. The last change that was
seen (zxid) is never forgotten: a server that is behind it refuses the connection, so no read goes back in time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

from magnetar.base.errors import InvalidTransition
from magnetar.base.limits import ZOOKEEPER_CONNECT_S_MIN, ZOOKEEPER_REDIAL_S_MAX, ZOOKEEPER_REDIAL_S_MIN
from magnetar.metadata.store import Session
from magnetar.metadata.zookeeper.address import Server
from magnetar.metadata.zookeeper.messages import ConnectResponse

SILENCE_SHARE = 2 / 3  # of the session's time: a connection without any byte for so long is dropped
PING_SHARE = 1 / 3  # a connection that sends nothing for so long sends a ping
GIVE_UP_SHARE = 5 / 6  # a client that reached no server for so long calls its session lost, as Pulsar


class Phase(Enum):
    WAITING = auto()  # for the time of the next dial
    DIALLING = auto()
    GREETING = auto()  # connected, and the server has not accepted the session yet
    ATTACHED = auto()
    CLOSED = auto()


# Events


@dataclass(frozen=True, slots=True)
class Started:
    pass


@dataclass(frozen=True, slots=True)
class SocketOpened:
    pass


@dataclass(frozen=True, slots=True)
class SocketLost:
    """Or never opened."""


@dataclass(frozen=True, slots=True)
class Greeted:
    response: ConnectResponse


@dataclass(frozen=True, slots=True)
class Ticked:
    """The time of `wake_at` has come."""


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The caller calls the session lost."""


@dataclass(frozen=True, slots=True)
class Closed:
    pass


Event: TypeAlias = Started | SocketOpened | SocketLost | Greeted | Ticked | GivenUp | Closed


# Effects


@dataclass(frozen=True, slots=True)
class Dial:
    server: Server


@dataclass(frozen=True, slots=True)
class Drop:
    """The socket, or the dial under way. No event answers it."""


@dataclass(frozen=True, slots=True)
class Greet:
    last_zxid: int
    timeout_ms: int
    session: int
    password: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Attach:
    """Requests may be sent: credentials and watches first, because the server keeps neither with a session."""


@dataclass(frozen=True, slots=True)
class Ping:
    pass


@dataclass(frozen=True, slots=True)
class Announce:
    session: Session


@dataclass(frozen=True, slots=True)
class Resync:
    """Events may have been lost."""


Effect: TypeAlias = Dial | Drop | Greet | Attach | Ping | Announce | Resync


class SessionMachine:
    def __init__(self, servers: Sequence[Server], timeout_s: float, draw: Callable[[], float]) -> None:
        """`servers` in the order of dialling. `draw`: a number from 0 to 1 for the waits between rounds."""
        self.phase = Phase.WAITING
        self.session = 0
        self.last_zxid = 0
        self.timeout_s = timeout_s  # as the server granted it
        self._servers = list(servers)
        self._wanted_s = timeout_s
        self._draw = draw
        self._password = b""
        self._next = 0  # index of the server to dial
        self._failures = 0  # dials in a row without a session that lasted
        self._attached_at = 0.0
        self._asked = 0  # session of the greeting under way
        self._attached_once = False
        self._lost = False  # announced, and no new session yet
        self._dial_at = 0.0
        self._accept_until = 0.0
        self._heard_at = 0.0
        self._sent_at = 0.0

    @property
    def password(self) -> bytes:
        return self._password

    @property
    def server(self) -> Server:
        """That the connection goes to, or the next dial."""
        return self._servers[self._next]

    def heard(self, now: float) -> None:
        """The server sent bytes."""
        self._heard_at = now

    def sent(self, now: float) -> None:
        self._sent_at = now

    def saw(self, zxid: int) -> None:
        self.last_zxid = max(self.last_zxid, zxid)

    def wake_at(self) -> float | None:
        """When `Ticked` is due; None: never."""
        match self.phase:
            case Phase.CLOSED:
                return None
            case Phase.ATTACHED:
                return min(self._heard_at + self.timeout_s * SILENCE_SHARE, self._sent_at + self.timeout_s * PING_SHARE)
            case Phase.WAITING:
                due = self._dial_at
            case Phase.DIALLING | Phase.GREETING:
                due = self._accept_until
        return min(due, self._give_up_at()) if self.session else due

    def handle(self, event: Event, now: float) -> list[Effect]:
        match self.phase, event:
            case Phase.CLOSED, _:
                return []
            case _, Closed():
                self.phase = Phase.CLOSED
                return []
            case Phase.WAITING, Started():
                self._dial_at = now
                return self._dial(now)
            case Phase.DIALLING, SocketOpened():
                self.phase, self._asked = Phase.GREETING, self.session
                return [Greet(self.last_zxid, round(self._wanted_s * 1000), self.session, self._password)]
            case Phase.GREETING, Greeted(response):
                return self._greeted(response, now)
            case Phase.ATTACHED, SocketLost():
                return self._disconnected(now)
            case Phase.DIALLING | Phase.GREETING, SocketLost():
                return self._failed(now)
            case _, GivenUp():
                dropped: list[Effect] = [Drop(), *self._disconnected(now)] if self.phase is Phase.ATTACHED else []
                return dropped + self._lose()
            case _, Ticked():
                return self._ticked(now)
            case _, SocketLost():
                return []  # of a socket that was dropped
            case phase, _:
                raise InvalidTransition(f"the session of ZooKeeper met {event} while {phase.name}")

    def validate(self) -> None:
        if self.phase is Phase.ATTACHED:
            assert self.session != 0, "attached without a session"
            assert not self._lost, "a new session ends the loss of the old one"
        assert not (self._lost and self.session), "a lost session is forgotten"
        assert 0 <= self._next < len(self._servers)

    def _ticked(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if self.phase is Phase.ATTACHED:
            if now >= self._heard_at + self.timeout_s * SILENCE_SHARE:
                return [Drop(), *self._disconnected(now)]
            if now >= self._sent_at + self.timeout_s * PING_SHARE:
                self._sent_at = now
                effects.append(Ping())
            return effects
        if self.session and now >= self._give_up_at():
            effects += self._lose()
        if self.phase is Phase.WAITING and now >= self._dial_at:
            effects += self._dial(now)
        elif self.phase in (Phase.DIALLING, Phase.GREETING) and now >= self._accept_until:
            effects += [Drop(), *self._failed(now)]
        return effects

    def _greeted(self, response: ConnectResponse, now: float) -> list[Effect]:
        if self._asked != self.session:  # it was given up since: the server's answer is about the old one
            return [Drop(), *self._redial(now)]
        if response.timeout_ms <= 0 or response.session == 0:
            if not self._asked:
                return [Drop(), *self._failed(now)]
            return [Drop(), *self._lose(), *self._redial(now)]  # of the same server: it answers
        self.phase = Phase.ATTACHED
        self.session, self._password = response.session, response.password
        self.timeout_s = response.timeout_ms / 1000
        self._attached_at = now
        self._heard_at = self._sent_at = now
        effects: list[Effect] = [Attach()]
        if self._attached_once:
            effects.append(Announce(Session.RECONNECTED))
            if self._lost:
                effects.append(Announce(Session.REESTABLISHED))
            effects.append(Resync())
        self._attached_once, self._lost = True, False
        return effects

    def _disconnected(self, now: float) -> list[Effect]:
        """A server that drops what it accepts counts as one that accepts nothing: every session costs watches."""
        if now - self._attached_at < ZOOKEEPER_REDIAL_S_MAX:
            return [Announce(Session.CONNECTION_LOST), *self._failed(now)]
        self._failures = 0
        self._turn()
        return [Announce(Session.CONNECTION_LOST), *self._redial(now)]

    def _failed(self, now: float) -> list[Effect]:
        """The next server immediately; a wait after each round through all of them."""
        self._turn()
        self._failures += 1
        if self._failures % len(self._servers):
            return self._redial(now)
        self.phase = Phase.WAITING
        wait_s = ZOOKEEPER_REDIAL_S_MIN + self._draw() * (ZOOKEEPER_REDIAL_S_MAX - ZOOKEEPER_REDIAL_S_MIN)
        self._dial_at = now + wait_s
        return []

    def _lose(self) -> list[Effect]:
        """The id and the password are forgotten, the last zxid is not."""
        if not self.session:
            return []
        self.session, self._password, self._lost = 0, b"", True
        return [Announce(Session.LOST)]

    def _redial(self, now: float) -> list[Effect]:
        self.phase, self._dial_at = Phase.WAITING, now
        return self._dial(now)

    def _dial(self, now: float) -> list[Effect]:
        self.phase = Phase.DIALLING
        self._accept_until = now + max(ZOOKEEPER_CONNECT_S_MIN, self._wanted_s / len(self._servers))
        return [Dial(self._servers[self._next])]

    def _turn(self) -> None:
        self._next = (self._next + 1) % len(self._servers)

    def _give_up_at(self) -> float:
        return self._heard_at + self.timeout_s * GIVE_UP_SHARE

"""The session machine of ZooKeeper: events with their time go in, effects come out."""

from __future__ import annotations

import random

import pytest

from magnetar.base.errors import InvalidTransition
from magnetar.metadata.store import Session
from magnetar.metadata.zookeeper.address import Server
from magnetar.metadata.zookeeper.messages import ConnectResponse
from magnetar.metadata.zookeeper.session import (
    Announce,
    Attach,
    Closed,
    Dial,
    Drop,
    Effect,
    Event,
    GivenUp,
    Greet,
    Greeted,
    Phase,
    Ping,
    Resync,
    SessionMachine,
    SocketLost,
    SocketOpened,
    Started,
    Ticked,
)

A, B, C = (Server(name, 2181) for name in "abc")
ACCEPTED = Greeted(ConnectResponse(9000, 77, b"password"))
RENEWED = Greeted(ConnectResponse(9000, 78, b"other"))
EXPIRED = Greeted(ConnectResponse(0, 0, bytes(16)))
LOST, GONE = Announce(Session.CONNECTION_LOST), Announce(Session.LOST)
BACK, NEW = Announce(Session.RECONNECTED), Announce(Session.REESTABLISHED)


class Driven:
    """A machine and its clock; it checks itself after every event."""

    def __init__(self, *servers: Server) -> None:
        self.machine = SessionMachine(servers or (A, B, C), 9.0, lambda: 0.0)
        self.now = 100.0

    def do(self, *events: Event) -> list[Effect]:
        effects: list[Effect] = []
        for event in events:
            effects = self.machine.handle(event, self.now)
            self.machine.validate()
        return effects

    def pass_s(self, seconds: float) -> list[Effect]:
        self.now += seconds
        return self.do(Ticked())

    def next(self) -> list[Effect]:
        """Lets the clock go on to the time that the machine asked for."""
        due = self.machine.wake_at()
        assert due is not None
        return self.pass_s(due - self.now)


@pytest.fixture
def attached() -> Driven:
    driven = Driven()
    driven.do(Started(), SocketOpened())
    assert driven.do(ACCEPTED) == [Attach()]
    return driven


def test_first_session_is_asked_without_id() -> None:
    driven = Driven()
    assert driven.do(Started()) == [Dial(A)]
    assert driven.do(SocketOpened()) == [Greet(0, 9000, 0, b"")]
    assert driven.do(ACCEPTED) == [Attach()]
    assert (driven.machine.session, driven.machine.timeout_s) == (77, 9.0)


def test_idle_connection_pings_after_third_of_time(attached: Driven) -> None:
    assert attached.pass_s(2.9) == []
    assert attached.pass_s(0.1) == [Ping()]
    attached.machine.heard(attached.now)
    assert attached.pass_s(2.0) == []
    attached.machine.sent(attached.now)
    assert attached.pass_s(2.0) == []
    assert attached.pass_s(1.0) == [Ping()]


def test_silent_connection_is_dropped_after_two_thirds_of_time(attached: Driven) -> None:
    assert attached.next() == [Ping()]
    assert attached.pass_s(3.0) == [Drop(), LOST, Dial(B)]


def test_next_server_gets_session_and_last_change(attached: Driven) -> None:
    attached.machine.saw(5)
    attached.machine.saw(3)
    assert attached.do(SocketLost()) == [LOST, Dial(B)]
    assert attached.do(SocketOpened()) == [Greet(5, 9000, 77, b"password")]
    assert attached.do(ACCEPTED) == [Attach(), BACK, Resync()]


def test_expired_session_is_replaced_at_same_server(attached: Driven) -> None:
    attached.machine.saw(5)
    attached.do(SocketLost(), SocketOpened())
    assert attached.do(EXPIRED) == [Drop(), GONE, Dial(B)]
    assert attached.do(SocketOpened()) == [Greet(5, 9000, 0, b"")]
    assert attached.do(RENEWED) == [Attach(), BACK, NEW, Resync()]
    assert attached.machine.session == 78


def test_servers_are_dialled_in_turn_with_wait_per_round(attached: Driven) -> None:
    attached.pass_s(1)
    assert attached.do(SocketLost()) == [LOST, Dial(B)]
    assert attached.do(SocketLost()) == [Dial(C)]
    assert attached.do(SocketLost()) == [Dial(A)]
    assert attached.do(SocketLost()) == []
    assert attached.machine.phase is Phase.WAITING
    assert attached.next() == [Dial(B)]


def test_servers_that_drop_what_they_accept_are_dialled_with_waits(attached: Driven) -> None:
    assert attached.do(SocketLost()) == [LOST, Dial(B)]
    assert attached.do(SocketLost()) == [Dial(C)]
    assert attached.do(SocketLost()) == []
    assert attached.machine.phase is Phase.WAITING


def test_server_that_does_not_accept_in_time_is_left(attached: Driven) -> None:
    attached.do(SocketLost(), SocketOpened())
    assert attached.pass_s(2.9) == []
    assert attached.pass_s(0.1) == [Drop(), Dial(C)]


def test_session_without_server_is_given_up_and_forgotten(attached: Driven) -> None:
    attached.machine.saw(9)
    attached.do(SocketLost())
    seen: list[Effect] = []
    while GONE not in seen:
        seen = attached.next()
        if any(isinstance(effect, Dial) for effect in seen):
            attached.do(SocketLost())
    assert attached.now == pytest.approx(107.5, abs=0.01)
    assert attached.machine.session == 0
    while not any(isinstance(effect, Dial) for effect in attached.next()):
        pass
    assert attached.do(SocketOpened()) == [Greet(9, 9000, 0, b"")]


def test_answer_about_session_given_up_meanwhile_is_not_taken(attached: Driven) -> None:
    attached.do(SocketLost(), SocketOpened())
    assert attached.do(GivenUp()) == [GONE]
    assert attached.do(ACCEPTED) == [Drop(), Dial(B)]
    assert attached.do(SocketOpened()) == [Greet(0, 9000, 0, b"")]
    assert attached.do(RENEWED) == [Attach(), BACK, NEW, Resync()]


def test_giving_up_attached_session_drops_its_connection(attached: Driven) -> None:
    assert attached.do(GivenUp()) == [Drop(), LOST, Dial(B), GONE]
    attached.do(SocketOpened())
    assert attached.do(RENEWED) == [Attach(), BACK, NEW, Resync()]


def test_server_that_refuses_new_sessions_is_left() -> None:
    driven = Driven()
    driven.do(Started(), SocketOpened())
    assert driven.do(EXPIRED) == [Drop(), Dial(B)]


def test_single_server_that_refuses_is_not_dialled_without_wait() -> None:
    driven = Driven(A)
    driven.do(Started())
    assert driven.do(SocketLost()) == []
    assert driven.next() == [Dial(A)]


def test_nothing_follows_end(attached: Driven) -> None:
    attached.do(Closed())
    assert attached.machine.wake_at() is None
    for event in (SocketLost(), Ticked(), ACCEPTED, GivenUp(), Closed()):
        assert attached.do(event) == []


def test_event_that_does_not_fit_is_bug(attached: Driven) -> None:
    with pytest.raises(InvalidTransition):
        attached.do(ACCEPTED)


@pytest.mark.parametrize("seed", range(200))
def test_any_story_ends_attached_once_servers_accept(seed: int) -> None:
    """Losses are announced before returns, and a new session exactly after a lost one."""
    rng = random.Random(seed)
    driven = Driven(*(A, B, C)[: rng.randint(1, 3)])
    machine = driven.machine
    effects, told, sessions = driven.do(Started()), [], 77

    def take(found: list[Effect]) -> None:
        told.extend(effect.session for effect in found if isinstance(effect, Announce))

    take(effects)
    for step in range(120):
        calm = step > 80
        match machine.phase:
            case Phase.WAITING:
                take(driven.next())
            case Phase.DIALLING:
                take(driven.do(SocketOpened() if calm or rng.random() < 0.5 else SocketLost()))
            case Phase.GREETING:
                what = "accept" if calm else rng.choice(["accept", "expired", "lost", "time"])
                if what == "accept":
                    if not machine._asked:
                        sessions += 1
                    take(driven.do(Greeted(ConnectResponse(9000, machine._asked or sessions, b"p"))))
                elif what == "time":
                    take(driven.next())
                else:
                    take(driven.do(EXPIRED if what == "expired" else SocketLost()))
            case Phase.ATTACHED:
                if calm:
                    machine.heard(driven.now)
                    take(driven.pass_s(0.1))
                else:
                    take(driven.do(SocketLost()) if rng.random() < 0.5 else driven.next())
    assert machine.phase is Phase.ATTACHED
    state = Session.RECONNECTED
    for said in told:
        match said:
            case Session.CONNECTION_LOST:
                assert state in (Session.RECONNECTED, Session.REESTABLISHED)
            case Session.LOST:
                assert state in (Session.CONNECTION_LOST, Session.LOST)
            case Session.RECONNECTED:
                assert state in (Session.CONNECTION_LOST, Session.LOST)
            case Session.REESTABLISHED:
                assert state is Session.RECONNECTED
        state = said

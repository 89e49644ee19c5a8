"""The stream consumers of a subscription, by name: connected, expected back, or gone.

A session outlives its connection by the grace period and its controller by another one (H-F11): a new controller takes
all consumers for disconnected and gives each a fresh grace period. Generations distinguish the connections of one name.
So the late end of an old connection has no effect (H-F7), and the newest of two wins (H-F9). Time comes with the
events; the actor runs the timers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from magnetar.base import validation
from magnetar.base.limits import CONSUMER_GRACE_S
from magnetar.scalable.record.subscription import Member

GRACE_MS = int(CONSUMER_GRACE_S * 1000)


@dataclass(frozen=True, slots=True)
class ConsumerSession:
    name: str
    generation: int
    connection: str = ""  # "": disconnected
    until_ms: int = 0  # while disconnected: how long it is waited for
    shares: bool = False  # it knows entry buckets


# Events


@dataclass(frozen=True, slots=True)
class Registered:
    """`connected`: whether the connection is still there now that the registration is done (H-F8). `resume`: the
    session that goes on over the same connection, under a new leader; 0: a new one."""

    name: str
    connection: str
    now_ms: int
    connected: bool = True
    resume: int = 0
    shares: bool = False


@dataclass(frozen=True, slots=True)
class Disconnected:
    name: str
    generation: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class Departed:
    """It said so: by its own command, or by closing a segment it was to read to the end."""

    name: str
    generation: int


@dataclass(frozen=True, slots=True)
class GraceExpired:
    name: str
    generation: int
    now_ms: int


Event = Registered | Disconnected | Departed | GraceExpired


# Effects


@dataclass(frozen=True, slots=True)
class StoreMembers:
    """What follows is done only when this is durable."""

    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class ArmGrace:
    """Come back with `GraceExpired` at this time."""

    name: str
    generation: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Supersede:
    """Inform this connection that a newer one has its name: it must stop."""

    name: str
    connection: str
    generation: int


@dataclass(frozen=True, slots=True)
class PushPlan:
    """Send this consumer its assignment; other consumers are not disturbed."""

    name: str


@dataclass(frozen=True, slots=True)
class Reassign:
    """Members have come or gone."""


Effect = StoreMembers | ArmGrace | Supersede | PushPlan | Reassign


@dataclass(frozen=True, slots=True)
class Sessions:
    sessions: tuple[ConsumerSession, ...] = ()  # by name
    generation: int = 0  # the highest given out
    grace_ms: int = GRACE_MS

    @property
    def members(self) -> tuple[str, ...]:
        """Who takes part in the plan: the expected ones too."""
        return tuple(one.name for one in self.sessions)

    @property
    def sharing(self) -> frozenset[str]:
        """Those of them that know entry buckets."""
        return frozenset(one.name for one in self.sessions if one.shares)

    def find(self, name: str) -> ConsumerSession | None:
        return next((one for one in self.sessions if one.name == name), None)


Step = tuple[Sessions, tuple[Effect, ...]]


def restore(members: tuple[Member, ...], *, now_ms: int, grace_ms: int = GRACE_MS) -> Step:
    """A new controller: everybody is disconnected and has a grace period from now."""
    sessions = tuple(
        ConsumerSession(one.name, one.generation, until_ms=now_ms + grace_ms, shares=one.shares) for one in members
    )
    state = Sessions(sessions, max((one.generation for one in members), default=0), grace_ms)
    return state, tuple(ArmGrace(one.name, one.generation, one.until_ms) for one in sessions)


def step(state: Sessions, event: Event) -> Step:
    after, effects = _step(state, event)
    if validation.enabled:
        validate(after)
    return after, effects


def validate(state: Sessions) -> None:
    names = [one.name for one in state.sessions]
    assert names == sorted(set(names)), "sessions are in the order of their names, one for each"
    generations = [one.generation for one in state.sessions]
    assert len(set(generations)) == len(generations), "no generation is given out twice"
    assert max(generations, default=0) <= state.generation, "the highest generation is remembered"
    assert not any(one.connection and one.until_ms for one in state.sessions), "only a disconnected session expires"


def _step(state: Sessions, event: Event) -> Step:
    session = state.find(event.name)
    match event:
        case Registered():
            return _register(state, session, event)
        case _ if session is None or session.generation != event.generation:
            return state, ()  # of an older connection, or of one that is gone (H-F7)
        case Disconnected(now_ms=now_ms):
            waiting = replace(session, connection="", until_ms=now_ms + state.grace_ms)
            return _with(state, waiting), (ArmGrace(session.name, session.generation, waiting.until_ms),)
        case Departed():
            return _without(state, session)
        case GraceExpired(now_ms=now_ms):
            return _without(state, session) if not session.connection and now_ms >= session.until_ms else (state, ())


def _register(state: Sessions, registered: ConsumerSession | None, event: Registered) -> Step:
    if event.resume and (registered is None or registered.generation != event.resume):
        return state, ()  # ended, or taken over: a new session must be the consumer's own decision
    generation = event.resume or state.generation + 1
    session = ConsumerSession(event.name, generation, event.connection, shares=event.shares)
    if not event.connected:
        session = replace(session, connection="", until_ms=event.now_ms + state.grace_ms)
    after = replace(_with(state, session), generation=max(state.generation, generation))
    changed = registered is None or registered.shares != event.shares
    effects: list[Effect] = [] if event.resume and not changed else [_store(after)]
    if registered is not None and registered.connection and registered.connection != event.connection:
        effects.append(Supersede(event.name, registered.connection, generation))
    if not event.connected:
        effects.append(ArmGrace(event.name, generation, session.until_ms))
    if changed:
        effects.append(Reassign())
    if registered is not None:
        effects.append(PushPlan(event.name))
    return after, tuple(effects)


def _without(state: Sessions, gone: ConsumerSession) -> Step:
    after = replace(state, sessions=tuple(one for one in state.sessions if one is not gone))
    return after, (_store(after), Reassign())


def _with(state: Sessions, session: ConsumerSession) -> Sessions:
    others = [one for one in state.sessions if one.name != session.name]
    return replace(state, sessions=tuple(sorted([*others, session], key=lambda one: one.name)))


def _store(state: Sessions) -> StoreMembers:
    return StoreMembers(tuple(Member(one.name, one.generation, one.shares) for one in state.sessions))

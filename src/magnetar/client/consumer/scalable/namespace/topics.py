"""Which topics a consumer of a namespace has open: all that are there, each until it is gone.

Every topic is opened, a few at a time; one that fails, at first or later, is closed and tried again with back-off for
as long as the namespace has it. One that is gone is closed and forgotten; one that was made anew is closed first and
then opened again. Once every topic of the first list was open, or was refused once, it has begun; what comes after that
is newer than the consumer. Decides only: events and the time in, effects out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from magnetar.base.errors import MagnetarError
from magnetar.base.limits import CLIENT_BACKOFF_S_MIN, FOLLOW_BACKOFF_S_MAX, SUBSCRIBES_AT_ONCE_MAX

# Events


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """What went is applied before what came: a name in both is another topic."""

    gone: tuple[str, ...]
    come: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicOpened:
    topic: str


@dataclass(frozen=True, slots=True)
class TopicFailed:
    """It was not opened, or cannot go on."""

    topic: str
    error: MagnetarError


@dataclass(frozen=True, slots=True)
class TopicClosed:
    topic: str


@dataclass(frozen=True, slots=True)
class TimePassed:
    pass


Event: TypeAlias = TopicsChanged | TopicOpened | TopicFailed | TopicClosed | TimePassed

# Effects


@dataclass(frozen=True, slots=True)
class OpenTopic:
    """Answer: TopicOpened or TopicFailed. `newer`: it came after the consumer had begun."""

    topic: str
    newer: bool


@dataclass(frozen=True, slots=True)
class CloseTopic:
    """Answer: TopicClosed. It may be one that is still being opened."""

    topic: str


Effect: TypeAlias = OpenTopic | CloseTopic


class State(Enum):
    WAITING = auto()  # for its turn, or to be tried again
    OPENING = auto()
    OPEN = auto()
    CLOSING = auto()


@dataclass(slots=True)
class _Held:
    newer: bool
    state: State = State.WAITING
    wanted: bool = True  # CLOSING: to be opened again after that
    tried: bool = False  # it was open once, or refused once
    at: float = 0.0  # WAITING: not before
    backoff_s: float = CLIENT_BACKOFF_S_MIN
    error: MagnetarError | None = None  # why it is not open


class TopicSet:
    """`topics` are those that exist here, in whatever state."""

    def __init__(self, opening_max: int = SUBSCRIBES_AT_ONCE_MAX) -> None:
        self.topics: dict[str, _Held] = {}
        self.begun = False
        self._listed = False
        self._opening_max = opening_max

    @property
    def failing(self) -> dict[str, MagnetarError]:
        """Topics of the namespace that are not open, and why."""
        found = sorted(self.topics.items())
        return {topic: held.error for topic, held in found if held.wanted and held.error is not None}

    @property
    def due(self) -> float | None:
        """When TimePassed is wanted next: not while there is no room to open more."""
        if self._room <= 0:
            return None
        return min((one.at for one in self.topics.values() if one.state is State.WAITING and one.at), default=None)

    def handle(self, event: Event, now: float) -> list[Effect]:
        effects: list[Effect] = []
        match event:
            case TopicsChanged(gone=gone, come=come):
                effects = [effect for topic in gone for effect in self._leave(topic)]
                for topic in come:
                    self._come(topic)
                self._listed = True
            case TopicOpened(topic=topic):
                self._opened(topic)
            case TopicFailed(topic=topic, error=error):
                effects = self._failed(topic, error, now)
            case TopicClosed(topic=topic):
                self._closed(topic)
            case TimePassed():
                pass
        effects += self._open(now)
        if self._listed and all(one.tried for one in self.topics.values() if one.wanted):
            self.begun = True
        return effects

    @property
    def _room(self) -> int:
        return self._opening_max - sum(one.state is State.OPENING for one in self.topics.values())

    def _come(self, topic: str) -> None:
        held = self.topics.get(topic)
        if held is None:
            self.topics[topic] = _Held(self.begun)
        elif held.state is State.CLOSING:  # the one before it is on its way out
            self.topics[topic] = _Held(self.begun, State.CLOSING)

    def _leave(self, topic: str) -> list[Effect]:
        held = self.topics.get(topic)
        if held is None:
            return []
        held.wanted = False
        if held.state is State.WAITING:
            del self.topics[topic]
        elif held.state is not State.CLOSING:
            held.state = State.CLOSING
            return [CloseTopic(topic)]
        return []

    def _open(self, now: float) -> list[Effect]:
        room = self._room
        effects: list[Effect] = []
        for topic in sorted(self.topics):
            held = self.topics[topic]
            if len(effects) < room and held.state is State.WAITING and held.at <= now:
                held.state = State.OPENING
                held.at = 0.0
                effects.append(OpenTopic(topic, held.newer))
        return effects

    def _opened(self, topic: str) -> None:
        held = self.topics.get(topic)
        if held is not None and held.state is State.OPENING:
            held.state = State.OPEN
            held.tried = True
            held.newer = True  # gone and opened again, it may be another one of that name: nothing of it is skipped
            held.error = None
            held.backoff_s = CLIENT_BACKOFF_S_MIN

    def _failed(self, topic: str, error: MagnetarError, now: float) -> list[Effect]:
        held = self.topics.get(topic)
        if held is None or held.state not in (State.OPENING, State.OPEN):
            return []
        held.state = State.CLOSING
        held.tried = True
        held.error = error
        held.at = now + held.backoff_s
        held.backoff_s = min(held.backoff_s * 2, FOLLOW_BACKOFF_S_MAX)
        return [CloseTopic(topic)]

    def _closed(self, topic: str) -> None:
        held = self.topics.get(topic)
        if held is None or held.state is not State.CLOSING:
            return
        if held.wanted:
            held.state = State.WAITING
        else:
            del self.topics[topic]

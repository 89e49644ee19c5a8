"""Decides which topics a consumer of a namespace has open: all existing ones, each until it is deleted.

Every topic is opened, a few at a time. A topic that fails, at first or later, is closed and retried with back-off while
the namespace has it. A deleted topic is closed and dropped. A topic that was created again is closed first and then
reopened. The consumer has begun once every topic of the first list was open or refused once; later topics are newer
than the consumer. Pure decisions: events and the time in, effects out.
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
    """Deletions apply before creations: a name in both is another topic."""

    gone: tuple[str, ...]
    come: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TopicOpened:
    topic: str


@dataclass(frozen=True, slots=True)
class TopicFailed:
    """The topic was not opened, or cannot continue."""

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
    """Answer: TopicOpened or TopicFailed. `newer`: it was created after the consumer had begun."""

    topic: str
    newer: bool


@dataclass(frozen=True, slots=True)
class CloseTopic:
    """Answer: TopicClosed. The topic may still be opening."""

    topic: str


Effect: TypeAlias = OpenTopic | CloseTopic


class State(Enum):
    WAITING = auto()  # for its turn or its retry
    OPENING = auto()
    OPEN = auto()
    CLOSING = auto()


@dataclass(slots=True)
class _TrackedTopic:
    newer: bool
    state: State = State.WAITING
    wanted: bool = True  # CLOSING: open it again afterwards
    tried: bool = False  # it was open once, or refused once
    at: float = 0.0  # WAITING: earliest time
    backoff_s: float = CLIENT_BACKOFF_S_MIN
    error: MagnetarError | None = None  # the reason why it is not open


class TopicSet:
    """`topics` are all known topics, in any state."""

    def __init__(self, opening_max: int = SUBSCRIBES_AT_ONCE_MAX) -> None:
        self.topics: dict[str, _TrackedTopic] = {}
        self.begun = False
        self._listed = False
        self._opening_max = opening_max

    @property
    def failing(self) -> dict[str, MagnetarError]:
        """Topics of the namespace that are not open, and their errors."""
        topics = sorted(self.topics.items())
        return {topic: held.error for topic, held in topics if held.wanted and held.error is not None}

    @property
    def due(self) -> float | None:
        """The time of the next TimePassed; None while no more topics may be opened."""
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
            self.topics[topic] = _TrackedTopic(self.begun)
        elif held.state is State.CLOSING:  # its predecessor is still closing
            self.topics[topic] = _TrackedTopic(self.begun, State.CLOSING)

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
            held.newer = True  # deleted and reopened, it may be another topic of that name: skip none of its messages
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

"""Decides which producers may publish to a topic: the four access modes, the queue for exclusive access, and the epoch.

A machine of values: `join` and `leave` in; grants, refusals and producers to close out. Every new grant of exclusive
access raises the topic's epoch. The caller must make the epoch durable BEFORE it answers or closes any producer
(`persist` says so). If that fails, the caller closes the producers all the same and calls `leave`; the number stays
used up, since it may have been stored. A producer that returns with an epoch below the topic's is fenced permanently.
The machine pings no connection: if a refusal depends on a rival that may be dead, `holder` names it, and the caller may
evict it with `leave` and ask again.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import IntEnum

from magnetar.base import validation
from magnetar.base.errors import Fenced, MagnetarError, ProducerBusy
from magnetar.base.limits import PRODUCER_WAITERS_MAX

NO_EPOCH = -1  # a topic that never had an exclusive producer


class Mode(IntEnum):
    """Numbers of the wire."""

    SHARED = 0
    EXCLUSIVE = 1
    WAIT_FOR_EXCLUSIVE = 2
    EXCLUSIVE_WITH_FENCING = 3


@dataclass(frozen=True, slots=True)
class Request:
    """One PRODUCER command, and from then on the producer itself. `topic_epoch` is what it was granted before, if it
    comes back.
    """

    name: str
    mode: Mode
    connection: Hashable
    producer_id: int
    epoch: int = 0
    topic_epoch: int | None = None

    def succeeds(self, other: Request) -> bool:
        """The same producer of the same connection, asking again."""
        same = (self.name, self.connection, self.producer_id) == (other.name, other.connection, other.producer_id)
        return same and self.epoch > other.epoch


@dataclass(frozen=True, slots=True)
class Granted:
    """`epoch` is None for a shared producer; `replaced` is an older self to be dropped without a word to the client."""

    epoch: int | None = None
    persist: bool = False
    replaced: Request | None = None


@dataclass(frozen=True, slots=True)
class GrantedAfterClosing:
    """Make the epoch durable, close every producer of `close`, answer every waiter of `fail` with ProducerFenced, then
    answer.
    """

    epoch: int
    close: list[Request]
    fail: list[Request]
    persist: bool = True


@dataclass(frozen=True, slots=True)
class Queued:
    """Answer with producer_ready=false; `leave` of another will grant it. `replaced` is its older self in the queue."""

    replaced: Request | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    error: MagnetarError
    holder: Request | None = None

    @property
    def code(self) -> int:
        return self.error.wire_code


Answer = Granted | GrantedAfterClosing | Queued | Refused


class ProducerAccess:
    """The machine of one topic. `epoch` starts from the epoch stored with the topic, or inherited from its parent."""

    def __init__(self, epoch: int = NO_EPOCH, waiters_max: int = PRODUCER_WAITERS_MAX) -> None:
        self.epoch = epoch
        self._waiters_max = waiters_max
        self._producers: dict[str, Request] = {}
        self._exclusive: Request | None = None  # then it is the only producer
        self._waiters: list[Request] = []  # not empty only while there are producers

    @property
    def fence(self) -> int:
        """The epoch a successor of this topic starts from."""
        return self.epoch

    def inherit(self, epoch: int) -> None:
        """Takes over the epoch of the previous topic: a producer that was fenced there stays fenced."""
        self.epoch = max(self.epoch, epoch)

    def holds(self, request: Request) -> bool:
        """Whether it is a producer of the topic."""
        return self._producers.get(request.name) == request

    @property
    def producers(self) -> list[Request]:
        return list(self._producers.values())

    @property
    def waiters(self) -> list[Request]:
        return list(self._waiters)

    @property
    def exclusive(self) -> Request | None:
        return self._exclusive

    def validate(self) -> None:
        assert all(name == producer.name for name, producer in self._producers.items())
        assert self._producers or not self._waiters, "a producer waits only while another one holds the topic"
        assert len(self._waiters) <= self._waiters_max, "waiters are bounded"
        if self._exclusive is not None:
            assert self.producers == [self._exclusive], "an exclusive producer is the only one"

    def join(self, request: Request) -> Answer:
        answer = self._join(request)
        if validation.enabled:
            self.validate()
        return answer

    def _join(self, request: Request) -> Answer:
        if request.mode is not Mode.SHARED and request.topic_epoch is not None and request.topic_epoch < self.epoch:
            return Refused(Fenced("another producer has exclusive access to the topic since then", epoch=self.epoch))
        rival = self._producers.get(request.name)
        if rival is not None and request.mode is rival.mode and request.succeeds(rival):
            return self._replace(rival, request)
        match request.mode:
            case Mode.SHARED:
                return self._join_shared(request, rival)
            case Mode.EXCLUSIVE:
                return self._join_exclusive(request, rival)
            case Mode.WAIT_FOR_EXCLUSIVE:
                return self._join_waiting(request, rival)
            case Mode.EXCLUSIVE_WITH_FENCING:
                return self._join_fencing(request)

    def leave(self, producer: Request) -> list[tuple[Request, int]]:
        """A producer or waiter is gone: the waiter that is granted now, with its epoch to be made durable first. One
        already replaced or unknown changes nothing.
        """
        granted: list[tuple[Request, int]] = []
        if producer in self._waiters:
            self._waiters.remove(producer)
        elif self._producers.get(producer.name) == producer:
            del self._producers[producer.name]
            self._exclusive = None
            if not self._producers and self._waiters:
                waiter = self._waiters.pop(0)
                granted.append((waiter, self._grant(waiter)))
        if validation.enabled:
            self.validate()
        return granted

    def _join_shared(self, request: Request, rival: Request | None) -> Answer:
        if self._exclusive is not None:
            return _busy("the topic has an exclusive producer", self._exclusive)
        if self._waiters:
            return _busy("a producer is waiting for exclusive access to the topic", self._waiters[0])
        if rival is not None:
            return _busy("a producer with this name is connected", rival)
        self._producers[request.name] = request
        return Granted()

    def _join_exclusive(self, request: Request, rival: Request | None) -> Answer:
        if not self._producers:
            return self._grant_alone(request)
        if self._is_back(request, rival):
            return _busy("an older connection of this producer is still open: try again", rival)
        return Refused(Fenced("another producer is connected to the topic"), next(iter(self._producers.values())))

    def _join_waiting(self, request: Request, rival: Request | None) -> Answer:
        if not self._producers:
            return self._grant_alone(request)
        if self._is_back(request, rival):
            return _busy("an older connection of this producer is still open: try again", rival)
        for index, waiter in enumerate(self._waiters):
            if request.succeeds(waiter):
                self._waiters[index] = request
                return Queued(replaced=waiter)
        if len(self._waiters) >= self._waiters_max:
            return _busy("too many producers are waiting for exclusive access to the topic", self._waiters[0])
        if request.topic_epoch == self.epoch:
            # The last exclusive producer comes back behind shared ones: it goes first, because a grant to another
            # waiter would fence it.
            self._waiters.insert(0, request)
        else:
            self._waiters.append(request)
        return Queued()

    def _join_fencing(self, request: Request) -> Answer:
        if not self._producers:
            return self._grant_alone(request)
        close, fail = self.producers, self.waiters
        self._producers.clear()
        self._waiters.clear()
        return GrantedAfterClosing(self._grant(request), close, fail)

    def _is_back(self, request: Request, rival: Request | None) -> bool:
        """It names the epoch it was granted and is still the holder: its old connection is most likely dead. Fencing
        would end it.
        """
        return rival is not None and rival is self._exclusive and request.topic_epoch == self.epoch

    def _replace(self, rival: Request, request: Request) -> Answer:
        self._producers[request.name] = request
        if self._exclusive is not rival:
            return Granted(replaced=rival)
        self._exclusive = request
        return Granted(self.epoch, replaced=rival)

    def _grant_alone(self, request: Request) -> Granted:
        """The topic has no producer. A returning last holder keeps its epoch: no other was exclusive in between."""
        if request.topic_epoch is not None and request.topic_epoch == self.epoch:
            self._producers[request.name] = self._exclusive = request
            return Granted(self.epoch)
        return Granted(self._grant(request), persist=True)

    def _grant(self, request: Request) -> int:
        self.epoch += 1
        self._producers[request.name] = self._exclusive = request
        return self.epoch


def _busy(what: str, holder: Request | None) -> Refused:
    return Refused(ProducerBusy(what), holder)

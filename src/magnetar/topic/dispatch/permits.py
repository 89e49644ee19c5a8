"""Which consumer of a Shared subscription gets the next entries.

Consumers with permits take turns within the best priority level that has any, a handful of entries a turn; the next
level gets what the better one cannot take. Permits and the cap on unacknowledged messages count messages: an entry
goes out whole while both are positive, so permits can turn negative. Chunks of one message stay with one consumer. It
only assigns: sending, and taking the permits, is the caller's, before it asks again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from magnetar.base.limits import CHUNK_OWNERS_MAX, SHARED_SHARE_ENTRIES_MAX


class Unacked(Protocol):
    """The unacknowledged messages of a consumer (`redelivery.UnackedMessages`)."""

    messages: int


class PermitHolder(Protocol):
    """The view of a consumer that this module needs; `unacked_max` 0 means no limit."""

    priority: int
    permits: int
    unacked_max: int

    @property
    def ready(self) -> bool: ...

    @property
    def pending(self) -> Unacked: ...


class Chunk(NamedTuple):
    """An entry that is part of a message: `uuid` names the message."""

    uuid: str
    last: bool


R = TypeVar("R", bound=PermitHolder)


class _Level(Generic[R]):
    __slots__ = ("consumers", "next", "priority")

    def __init__(self, priority: int) -> None:
        self.priority = priority
        self.consumers: list[R] = []
        self.next = 0  # index of the consumer that is served next


class SharedChooser(Generic[R]):
    def __init__(
        self, share_entries_max: int = SHARED_SHARE_ENTRIES_MAX, chunk_owners_max: int = CHUNK_OWNERS_MAX
    ) -> None:
        self._share = share_entries_max
        self._chunk_owners_max = chunk_owners_max
        self._levels: list[_Level[R]] = []  # best first
        self._chunk_owners: dict[str, R] = {}  # messages in the middle of their delivery, oldest first

    def add(self, consumer: R) -> None:
        for level in self._levels:
            if level.priority == consumer.priority:
                break
        else:
            level = _Level(consumer.priority)
            self._levels.append(level)
            self._levels.sort(key=lambda each: each.priority)
        level.consumers.append(consumer)

    def remove(self, consumers: Collection[R]) -> None:
        """Messages in chunks that they had begun start over at the consumer that gets their first chunk next."""
        gone = {id(consumer) for consumer in consumers}
        for level in list(self._levels):
            before = level.consumers
            level.consumers = [consumer for consumer in before if id(consumer) not in gone]
            if len(level.consumers) == len(before):
                continue
            level.next -= sum(id(consumer) in gone for consumer in before[: level.next])
            if level.next == len(level.consumers):
                level.next = 0  # the next consumer and all behind it are gone
            if not level.consumers:
                self._levels.remove(level)
        for uuid in [uuid for uuid, owner in self._chunk_owners.items() if id(owner) in gone]:
            del self._chunk_owners[uuid]

    def may_have(self, uuid: str) -> bool:
        """True if a chunk of this message can be sent now: its consumer has room, or no consumer has begun it."""
        owner = self._chunk_owners.get(uuid)
        return owner is None or (owner.ready and _room(owner) > 0)

    def assign(
        self, counts: Sequence[int], start: int = 0, chunks: Sequence[Chunk | None] | None = None
    ) -> list[tuple[R | None, int, int]]:
        """Entries from `start` on, `counts[i]` messages each, as (consumer, start, stop) slices in order, until all
        are assigned or no consumer has room. Entries of a slice without consumer are chunks: their consumer has no room
        now, and they must be tried again later.
        """
        if chunks is None:
            return self._assign(counts, start)
        return self._assign_chunks(counts, start, chunks)

    def _assign(self, counts: Sequence[int], at: int) -> list[tuple[R | None, int, int]]:
        out: list[tuple[R | None, int, int]] = []
        total = len(counts)
        for level in self._levels:
            if at == total:
                break
            at = self._assign_level(level, counts, at, out)
        return out

    def _assign_level(
        self, level: _Level[R], counts: Sequence[int], at: int, out: list[tuple[R | None, int, int]]
    ) -> int:
        """The index where the level's consumers had to stop. The first round asks them in turn while entries remain."""
        consumers, index, total = level.consumers, level.next, len(counts)
        unasked = len(consumers)
        again: deque[tuple[int, R, int]] = deque()
        while at < total and (unasked or again):
            if unasked:
                turn, consumer = index, consumers[index]
                index = (index + 1) % len(consumers)
                unasked -= 1
                if not consumer.ready:
                    continue
                room = _room(consumer)
            else:
                turn, consumer, room = again.popleft()
            level.next = (turn + 1) % len(consumers)
            start = at
            end = min(at + self._share, total) if unasked or again else total  # alone, it needs no turns
            while at < end and room > 0:
                room -= counts[at]
                at += 1
            _append(out, consumer, start, at)
            if room > 0:
                again.append((turn, consumer, room))
        return at

    def _assign_chunks(
        self, counts: Sequence[int], start: int, chunks: Sequence[Chunk | None]
    ) -> list[tuple[R | None, int, int]]:
        """One entry at a time: rare, and a chunk is large."""
        out: list[tuple[R | None, int, int]] = []
        lines = deque((level, _line(level)) for level in self._levels)
        rooms = {id(consumer): room for _, line in lines for _, consumer, room in line}
        turn: R | None = None
        turn_left = 0
        for at in range(start, len(counts)):
            chunk = chunks[at]
            owner = self._chunk_owners.get(chunk.uuid) if chunk is not None else None
            if owner is None:
                if turn is None or turn_left == 0 or rooms[id(turn)] <= 0:
                    turn = _next(lines, rooms)
                    turn_left = self._share
                if turn is None:
                    break
                consumer = turn
                turn_left -= 1
            elif rooms.get(id(owner), 0) > 0:
                consumer = owner
            else:
                _append(out, None, at, at + 1)
                continue
            rooms[id(consumer)] -= counts[at]
            _append(out, consumer, at, at + 1)
            if chunk is not None:
                self._own(chunk, consumer)
        return out

    def _own(self, chunk: Chunk, consumer: R) -> None:
        if chunk.last:
            self._chunk_owners.pop(chunk.uuid, None)
            return
        self._chunk_owners[chunk.uuid] = consumer
        if len(self._chunk_owners) > self._chunk_owners_max:
            del self._chunk_owners[next(iter(self._chunk_owners))]


def _line(level: _Level[R]) -> deque[tuple[int, R, int]]:
    """Who can take something, in order of turns, with how many messages."""
    consumers = level.consumers
    order = [*range(level.next, len(consumers)), *range(level.next)]
    return deque((index, consumers[index], _room(consumers[index])) for index in order if consumers[index].ready)


def _room(consumer: PermitHolder) -> int:
    if consumer.unacked_max <= 0:
        return consumer.permits
    return min(consumer.permits, consumer.unacked_max - consumer.pending.messages)


def _next(lines: deque[tuple[_Level[R], deque[tuple[int, R, int]]]], rooms: dict[int, int]) -> R | None:
    """The next consumer with room. Removes levels that have none."""
    while lines:
        level, line = lines[0]
        for _ in range(len(line)):
            index, consumer, _ = line[0]
            line.rotate(-1)
            if rooms[id(consumer)] > 0:
                level.next = (index + 1) % len(level.consumers)
                return consumer
        lines.popleft()
    return None


def _append(out: list[tuple[R | None, int, int]], consumer: R | None, start: int, stop: int) -> None:
    """Add a slice, or lengthen the last one where the same consumer goes on."""
    if start == stop:
        return
    if out and out[-1][0] is consumer and out[-1][2] == start:
        out[-1] = (consumer, out[-1][1], stop)
    else:
        out.append((consumer, start, stop))

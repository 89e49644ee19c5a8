"""Remembers which consumer has the beginning of a message in chunks: the rest goes there even if its keys moved on.

Keys, or buckets of them, move to another consumer when their delivered entries are acknowledged. A consumer cannot
acknowledge a message of which it has only some chunks: if the rest waited for that, it would wait permanently (H-F19).
So the places of such a message stay with the consumer that has its beginning until the last chunk was sent. Pure: it
knows places by number and consumers by an opaque key.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Generic, TypeVar

from magnetar.base.limits import CHUNK_OWNERS_MAX

K = TypeVar("K", bound=Hashable)


class ChunkAffinity(Generic[K]):
    __slots__ = ("_max", "_messages", "_owners")

    def __init__(self, messages_max: int = CHUNK_OWNERS_MAX) -> None:
        self._max = messages_max
        self._messages: dict[str, int] = {}  # those in the middle of their delivery, oldest first: the place of each
        self._owners: dict[int, K] = {}  # of those places

    def __bool__(self) -> bool:
        return bool(self._owners)

    def owner(self, places: Iterable[int]) -> K | None:
        """The consumer that keeps the first of these places that is kept."""
        return next((self._owners[place] for place in places if place in self._owners), None)

    def sent(self, place: int, consumer: K, uuid: str, *, last: bool) -> bool:
        """A chunk went out. True if its place is free to change hands now."""
        if last:
            return self._messages.pop(uuid, None) is not None and self._settle(place)
        self._messages[uuid] = place
        self._owners[place] = consumer
        if len(self._messages) > self._max:
            return self._settle(self._messages.pop(next(iter(self._messages))))
        return False

    def freed(self, place: int) -> bool:
        """All entries of the place are settled: a message that began there begins again. True if a consumer kept it."""
        if self._owners.pop(place, None) is None:
            return False
        self._messages = {uuid: at for uuid, at in self._messages.items() if at != place}
        return True

    @property
    def places(self) -> list[int]:
        return list(self._owners)

    def left(self, consumers: Collection[K]) -> None:
        gone = set(consumers)
        for place in [place for place, owner in self._owners.items() if owner in gone]:
            self.freed(place)

    def clear(self) -> None:
        self._messages.clear()
        self._owners.clear()

    def _settle(self, place: int) -> bool:
        if place in self._messages.values():
            return False
        return self._owners.pop(place, None) is not None

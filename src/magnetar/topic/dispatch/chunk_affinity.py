"""Who has the beginning of a message in chunks: the rest of it goes there, although its keys have another owner by now.

Keys, or buckets of them, change hands when what was out of them is acknowledged. A message of which some chunks are out
is acknowledged by nobody: were the rest to wait for that, it would wait for good (H-F19). So the places of such a
message stay with whoever has begun it until its last chunk is out. Pure: it knows places by number and consumers by an
opaque key.
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
        """Of the first of these places that somebody keeps."""
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
        """Nothing of the place is out any more: whatever was begun there begins anew. True if somebody kept it."""
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

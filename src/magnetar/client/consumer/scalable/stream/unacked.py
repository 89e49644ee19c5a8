"""The unacknowledged messages of one segment that a stream consumer handed out, by their stamps.

Pure decisions. A binary search finds the highest id up to a stamp, so that reading the id of every message of a long
backlog is cheap (H-R5). Ids may decrease, because brokers redeliver; values that depend on a removed id are recomputed
once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

COMPACT_MIN = 1_024  # acknowledged items kept at the front of the lists before they are removed


class Comparable(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...

    def __le__(self, other: Any, /) -> bool: ...


Id = TypeVar("Id", bound=Comparable)


class Outstanding(Generic[Id]):
    __slots__ = ("_head", "_highest", "_ids", "_stamps")

    def __init__(self) -> None:
        self._head = 0  # of the lists; items before it are acknowledged
        self._stamps: list[int] = []
        self._ids: list[Id] = []
        self._highest: list[Id] = []  # the highest id from the head to each item

    def __len__(self) -> int:
        return len(self._stamps) - self._head

    def __iter__(self) -> Iterator[tuple[int, Id]]:
        return zip(self._stamps[self._head :], self._ids[self._head :], strict=True)

    @property
    def newest(self) -> Id | None:
        """The id with the highest stamp."""
        return self._ids[-1] if len(self) else None

    @property
    def stamps(self) -> list[int]:
        return self._stamps[self._head :]

    def append(self, stamp: int, id: Id) -> None:
        before = self._highest[-1] if len(self) else id
        self._stamps.append(stamp)
        self._ids.append(id)
        self._highest.append(id if before < id else before)

    def remove_newest(self, stamp: int) -> None:
        """Remove the newest message if it has this stamp."""
        if len(self) and self._stamps[-1] == stamp:
            del self._stamps[-1], self._ids[-1], self._highest[-1]

    def highest(self, stamp: int) -> Id | None:
        """The highest id up to this stamp; None without messages up to it."""
        end = bisect_right(self._stamps, stamp, self._head)
        return self._highest[end - 1] if end > self._head else None

    def take_until(self, stamp: int) -> list[Id]:
        """Remove and return everything up to this stamp."""
        end = bisect_right(self._stamps, stamp, self._head)
        ids = self._ids[self._head : end]
        self._head = end
        if self._head >= COMPACT_MIN and self._head * 2 >= len(self._stamps):
            del self._stamps[: self._head], self._ids[: self._head], self._highest[: self._head]
            self._head = 0
        self._raise_again()
        return ids

    def remove_up_to(self, id: Id) -> None:
        """Remove all ids up to this one, regardless of their stamps."""
        self._set([one for one in self if not one[1] <= id])

    def remove(self, ids: Sequence[Id]) -> None:
        self._set([one for one in self if one[1] not in ids])

    def _set(self, kept: list[tuple[int, Id]]) -> None:
        self._head, self._stamps, self._ids, self._highest = 0, [], [], []
        for stamp, id in kept:
            self.append(stamp, id)

    def _raise_again(self) -> None:
        """Recompute the highest ids after a removal, up to the first id that is higher than all remaining ones before
        it."""
        before: Id | None = None
        for index in range(self._head, len(self._ids)):
            id = self._ids[index]
            if before is None or before < id:
                before = id
            if self._highest[index] is before:
                return
            self._highest[index] = before

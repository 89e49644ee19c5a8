"""The last ids of something that happened, as plain numbers in one block of memory.

A thousand int objects would lie wherever memory was free when each was made, and keep as many pages of topics that have
long left. Looking one up goes through all of them: only for what is rare.
"""

from __future__ import annotations

from array import array


class RecentIds:
    __slots__ = ("_ids", "_next", "_size")

    def __init__(self, size: int) -> None:
        self._ids = array("Q")  # ids of the wire are unsigned, 64 bits
        self._next = 0
        self._size = size

    def add(self, id: int) -> None:
        """In the place of the oldest one when there are `size` of them."""
        if len(self._ids) < self._size:
            self._ids.append(id)
        else:
            self._ids[self._next] = id
            self._next = (self._next + 1) % self._size

    def __contains__(self, id: int) -> bool:
        return id in self._ids

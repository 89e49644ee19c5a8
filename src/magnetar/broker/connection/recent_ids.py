"""The ids of recent events, as plain numbers in one block of memory.

A thousand int objects would be spread over the heap and keep pages in memory that otherwise only unloaded topics used.
A search reads all of them, so this is for rare events only.
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
        """Adds an id; at `size` ids it replaces the oldest one."""
        if len(self._ids) < self._size:
            self._ids.append(id)
        else:
            self._ids[self._next] = id
            self._next = (self._next + 1) % self._size

    def __contains__(self, id: int) -> bool:
        return id in self._ids

"""Decides when freed memory is returned to the operating system: after many topics were unloaded.

The decision is a pure function, called periodically. Returning memory stops everything else for a moment, which is
longer the more topics stay. So it requires many unloaded topics and waits until unloading has settled. It does not wait
without limit: unloading that continues causes a return too, and memory of later unloads is returned in a second pass.
All unloaded topics count, also those that were loaded briefly, for example to be deleted.
"""

from __future__ import annotations

from magnetar.base.limits import DEPARTURE_LOOKS_MAX, TOPICS_GONE_MANY


class MemoryReturnPolicy:
    def __init__(self) -> None:
        self._returned = 0  # departures whose memory was returned
        self._before = 0  # departures at the last look
        self._waited = 0  # looks since enough had left
        self._owed = False  # returned while more left: once more at the end

    def look(self, left: int, loaded: int) -> bool:
        """Whether to return memory now: `left` topics were unloaded since the start, `loaded` are in memory."""
        ended = left == self._before
        self._before = left
        if left - self._returned < max(TOPICS_GONE_MANY, loaded // 4) and not (ended and self._owed):
            return False
        if not ended and self._waited < DEPARTURE_LOOKS_MAX:
            self._waited += 1
            return False
        self._owed = not ended
        self._returned = left
        self._waited = 0
        return True

"""When so many topics have left memory that the system should get it back: a decision, looked at now and then.

Pure. Returning freed memory stops everything else for a moment, the longer the more topics stay, so many must have left
for it, and it waits until the leaving has ended; but one that does not end is not waited for for ever, and its end is
returned as well. All that left count, also those that came for a moment only, as a topic does to be deleted.
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
        """Whether to give memory back now: `left` topics have left since the start, `loaded` are in memory."""
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

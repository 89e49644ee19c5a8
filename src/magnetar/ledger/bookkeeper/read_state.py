"""The decisions of one read: which bookie is asked, and when a second one is asked too.

The bookies of the write set are asked one after the other, those in quarantine last. If an answer takes long, the next
bookie is asked as well, and the first good answer counts. An answer that the entry is absent is kept apart from an
error, because only absence on every bookie says that the entry is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import Enum, auto

from magnetar.base.errors import InvalidTransition


class Outcome(Enum):
    ABSENT = auto()
    FAILED = auto()
    DAMAGED = auto()


class ReadState:
    def __init__(self, bookies: Sequence[str]) -> None:
        """In the order of `order`."""
        self._left = list(reversed(bookies))
        self._waiting: dict[str, None] = {}
        self.outcomes: dict[str, Outcome] = {}
        self.done = False

    def next(self) -> str | None:
        """The next bookie to ask: at the beginning, and when an answer takes long. None: all were asked."""
        if self.done or not self._left:
            return None
        bookie = self._left.pop()
        self._waiting[bookie] = None
        return bookie

    def succeeded(self, bookie: str) -> bool:
        """Whether this is the first good answer."""
        self._waiting.pop(bookie, None)
        if self.done:
            return False
        self.done = True
        return True

    def failed(self, bookie: str, outcome: Outcome) -> str | None:
        """The bookie to ask instead, if no other answer is awaited or one is left."""
        if bookie not in self._waiting:
            raise InvalidTransition("a bookie answered that was not asked", bookie=bookie)
        del self._waiting[bookie]
        self.outcomes[bookie] = outcome
        return self.next()

    @property
    def exhausted(self) -> bool:
        """Every bookie was asked and none had the entry."""
        return not self.done and not self._left and not self._waiting

    @property
    def result(self) -> Outcome:
        """The reason of an exhausted read: an error leaves open whether the entry exists."""
        outcomes = set(self.outcomes.values())
        for outcome in (Outcome.FAILED, Outcome.DAMAGED):
            if outcome in outcomes:
                return outcome
        return Outcome.ABSENT


def order(write_set: Sequence[str], quarantined: Collection[str], preferred: str | None = None) -> list[str]:
    """The order in which bookies are asked. `preferred`: the one that answered last, so that its cache reads ahead."""
    return sorted(
        write_set, key=lambda bookie: (bookie in quarantined, bookie != preferred)
    )  # stable: the write set's own order

"""Entries that were handed to the wire and not answered yet, in the order they must be stored.

Answers come in that order: the oldest is answered or nothing is. After a new attach everything pending is written
again, oldest first; what was given up meanwhile is not. Decides only: bytes, clocks and callbacks are the publisher's.
"""

from __future__ import annotations

from collections import deque

from magnetar.base.errors import InvalidTransition
from magnetar.client.producer.fields import Done


class ChunkedSend:
    """A message in chunks: its parts share their fate."""

    __slots__ = ("first",)

    def __init__(self) -> None:
        self.first: tuple[int, int] | None = None  # where its first chunk is stored


class PendingSend:
    """One entry. `size` and `count` are what it holds of the client's budget; `writes` how often it was written with an
    outcome that is not known.
    """

    __slots__ = (
        "count",
        "deadline",
        "dones",
        "frame",
        "highest",
        "last",
        "over",
        "sequence",
        "size",
        "whole",
        "writes",
    )

    def __init__(
        self,
        frame: bytes,
        sequence: int,
        highest: int,
        *,
        count: int,
        size: int,
        deadline: float,
        dones: list[tuple[int, Done]],
        whole: ChunkedSend | None = None,
        last: bool = True,
    ) -> None:
        self.frame = frame
        self.sequence = sequence
        self.highest = highest
        self.count = count
        self.size = size
        self.deadline = deadline
        self.dones = dones
        self.whole = whole
        self.last = last  # the last chunk, or no chunk
        self.writes = 0
        self.over = False  # answered or given up: not to be written any more


class Pending:
    def __init__(self) -> None:
        self._ops: deque[PendingSend] = deque()
        self._unwritten: deque[PendingSend] = deque()

    def __len__(self) -> int:
        return len(self._ops)

    @property
    def newest(self) -> PendingSend | None:
        return self._ops[-1] if self._ops else None

    @property
    def deadline(self) -> float | None:
        """Of the oldest, which is the earliest."""
        return self._ops[0].deadline if self._ops else None

    def push(self, op: PendingSend) -> None:
        self._ops.append(op)
        self._unwritten.append(op)

    def next_write(self) -> PendingSend | None:
        """The next entry to write on the present attachment, marked as written; None if all are."""
        while self._unwritten:
            op = self._unwritten.popleft()
            if not op.over:
                op.writes += 1
                return op
        return None

    def rewind(self) -> None:
        """A new attachment: everything that waits is to be written again, in order."""
        self._unwritten = deque(self._ops)

    def answered(self, sequence: int) -> PendingSend | None:
        """The entry a receipt is for; None for one that was given up before. A receipt for what is not the oldest is
        `InvalidTransition`: the broker and we no longer agree, and the connection has to go.
        """
        if not self._ops:
            return None
        op = self._ops[0]
        if op.sequence <= sequence <= op.highest and op.writes:
            self._ops.popleft()
            op.over = True
            return op
        if sequence < op.sequence:
            return None
        raise InvalidTransition("a receipt for what is not the oldest", sequence=sequence, oldest=op.sequence)

    def refused(self, sequence: int) -> list[PendingSend]:
        """The entry the broker refused for good, with all chunks of its message; none if it was given up before."""
        for op in self._ops:
            if op.sequence <= sequence <= op.highest:
                op.writes -= 1
                found = [op] if op.whole is None else [other for other in self._ops if other.whole is op.whole]
                self._take(found)
                return found
        return []

    def expired(self, now: float) -> list[PendingSend]:
        """Those whose time is up, oldest first. Chunks of one message share a deadline and so come together."""
        found: list[PendingSend] = []
        while self._ops and self._ops[0].deadline <= now:
            op = self._ops.popleft()
            op.over = True
            found.append(op)
        return found

    def drained(self) -> list[PendingSend]:
        """All of them: nobody will answer any more."""
        found = list(self._ops)
        self._take(found)
        return found

    def _take(self, found: list[PendingSend]) -> None:
        for op in found:
            op.over = True
        self._ops = deque(op for op in self._ops if not op.over)

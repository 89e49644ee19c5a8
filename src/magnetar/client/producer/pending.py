"""The entries that were accepted for writing and have no receipt yet, in the order of storing.

Receipts arrive in that order: only the oldest entry can be answered. After a new attach every pending entry is written
again, oldest first, except those that were given up. Pure decisions: the publisher owns bytes, clocks and callbacks.
"""

from __future__ import annotations

from collections import deque

from magnetar.base.errors import InvalidTransition
from magnetar.client.producer.fields import Done


class ChunkedSend:
    """A chunked message: its chunks succeed or fail together."""

    __slots__ = ("first",)

    def __init__(self) -> None:
        self.first: tuple[int, int] | None = None  # the position of its first chunk


class PendingSend:
    """One entry. `size` and `count` are its share of the client's memory limit; `writes` is the number of writes with
    an unknown outcome.
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
        self.last = last  # the last chunk, or not a chunk
        self.writes = 0
        self.over = False  # answered or given up: do not write it again


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
        """The deadline of the oldest entry, which is the earliest."""
        return self._ops[0].deadline if self._ops else None

    def push(self, op: PendingSend) -> None:
        self._ops.append(op)
        self._unwritten.append(op)

    def next_write(self) -> PendingSend | None:
        """The next entry to write on the present attachment, marked as written; None if all are written."""
        while self._unwritten:
            op = self._unwritten.popleft()
            if not op.over:
                op.writes += 1
                return op
        return None

    def rewind(self) -> None:
        """A new attachment begins: every pending entry is written again, in order."""
        self._unwritten = deque(self._ops)

    def answered(self, sequence: int) -> PendingSend | None:
        """The entry that a receipt acknowledges; None if it was given up before. A receipt that skips the oldest entry
        raises `InvalidTransition`: client and broker disagree, and the publisher drops the connection.
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
        raise InvalidTransition(
            "the receipt is not for the oldest pending entry", sequence=sequence, oldest=op.sequence
        )

    def refused(self, sequence: int) -> list[PendingSend]:
        """The entry that the broker refused finally, with all chunks of its message; empty if it was given up
        before."""
        for op in self._ops:
            if op.sequence <= sequence <= op.highest:
                op.writes -= 1
                refused = [op] if op.whole is None else [other for other in self._ops if other.whole is op.whole]
                self._take(refused)
                return refused
        return []

    def expired(self, now: float) -> list[PendingSend]:
        """The entries past their deadline, oldest first. Chunks of one message share a deadline and expire together."""
        expired: list[PendingSend] = []
        while self._ops and self._ops[0].deadline <= now:
            op = self._ops.popleft()
            op.over = True
            expired.append(op)
        return expired

    def drained(self) -> list[PendingSend]:
        """All entries: no receipt will arrive for them."""
        drained = list(self._ops)
        self._take(drained)
        return drained

    def _take(self, sends: list[PendingSend]) -> None:
        for op in sends:
            op.over = True
        self._ops = deque(op for op in self._ops if not op.over)

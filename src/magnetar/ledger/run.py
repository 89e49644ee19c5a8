"""A run: consecutive entries as one buffer. The unit in which the data path appends, stores, reads and pushes.

Plain slots and lists, no dataclass: this file is on the path of every message. A run never spans two ledgers.
"""

from __future__ import annotations

from magnetar.base.ids import Position


class Run:
    """Entry i is `body[offsets[i]:offsets[i + 1]]` and holds `counts[i]` messages; `offsets` has one more item than
    there are entries.

    `ledger` and `first` are -1 until the run is stored; entry i then has the position (ledger, first + i). Never
    changed after that.
    """

    __slots__ = ("body", "counts", "first", "ledger", "messages", "offsets", "size")

    def __init__(
        self, body: bytes, offsets: list[int], counts: list[int], messages: int, ledger: int = -1, first: int = -1
    ) -> None:
        self.body = body
        self.offsets = offsets
        self.counts = counts
        self.messages = messages  # sum(counts)
        self.size = offsets[-1] - offsets[0] if offsets else 0  # bytes of its entries
        self.ledger = ledger
        self.first = first

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def last(self) -> int:
        return self.first + len(self.counts) - 1

    def entry(self, index: int) -> bytes:
        return self.body[self.offsets[index] : self.offsets[index + 1]]

    def position(self, index: int) -> Position:
        return Position(self.ledger, self.first + index)

    def slice(self, start: int, stop: int) -> Run:
        """Entries [start, stop) as a run over the same body: no copy."""
        counts = self.counts[start:stop]
        return Run(self.body, self.offsets[start : stop + 1], counts, sum(counts), self.ledger, self.first + start)


def run_of(entries: list[bytes], counts: list[int] | None = None) -> Run:
    """A run from separate entries, one message each unless counted: for what is off the hot path."""
    offsets = [0]
    for entry in entries:
        offsets.append(offsets[-1] + len(entry))
    messages = counts if counts is not None else [1] * len(entries)
    return Run(b"".join(entries), offsets, messages, sum(messages))

"""The arithmetic of a chain of ledgers: the next entry, the number of entries between two, the nearest existing
position.

Pure: values in, values out; no store is asked. A chain holds its ledgers in ascending order; only the last one
grows. `floor` is the last entry of the newest ledger that was dropped, so that `last` never moves backwards when
everything has been consumed and trimmed. Every function accepts positions that do not exist (trimmed, past the end of
their ledger, or of an unknown ledger), and reads them as places between the existing entries.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from magnetar.base.ids import BEFORE_ALL, Position


class LedgerSpan:
    """One ledger of a chain. `closed_ms` 0 means that it is still written (or was, by an owner that did not come
    back).
    """

    __slots__ = ("bytes", "closed_ms", "entries", "extra", "ledger", "messages")

    def __init__(
        self,
        ledger: int,
        entries: int = 0,
        bytes: int = 0,
        messages: int = 0,
        *,
        closed_ms: int = 0,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.ledger = ledger
        self.entries = entries
        self.bytes = bytes
        self.messages = messages
        self.closed_ms = closed_ms
        self.extra = extra or {}  # fields of the record that this version does not know

    def closed(self, now_ms: int) -> LedgerSpan:
        return LedgerSpan(
            self.ledger, self.entries, self.bytes, self.messages, closed_ms=max(1, now_ms), extra=self.extra
        )

    def __repr__(self) -> str:
        return f"Link({self.ledger}, entries={self.entries}, closed_ms={self.closed_ms})"


class Chain:
    """Ledgers in order. `links` is read by everybody and replaced only by `install`; only `grow` changes a link."""

    __slots__ = ("_before", "_bytes_before", "_ids", "_last", "_messages_before", "floor", "links")

    def __init__(self, links: Sequence[LedgerSpan] = (), floor: Position | None = None) -> None:
        self.install(links, floor)

    def install(self, links: Sequence[LedgerSpan], floor: Position | None = None) -> None:
        self.links = list(links)
        self.floor = floor
        self._ids = [link.ledger for link in self.links]
        assert all(low < high for low, high in pairwise(self._ids)), "ledgers of a chain ascend"
        self._before = []
        total = 0
        for link in self.links:
            self._before.append(total)
            total += link.entries
        self._bytes_before = sum(link.bytes for link in self.links[:-1])
        self._messages_before = sum(link.messages for link in self.links[:-1])
        self._last: Position | None = self._find_last()

    def grow(self, entries: int, bytes: int, messages: int) -> None:
        """Adds these numbers of confirmed entries, bytes and messages to the last ledger."""
        link = self.links[-1]
        link.entries += entries
        link.bytes += bytes
        link.messages += messages
        self._last = None

    @property
    def last(self) -> Position:
        """The last entry; `floor` if none is retained. Made when it is read: a chain grows with every run."""
        if self._last is None:
            link = self.links[-1]
            self._last = Position(link.ledger, link.entries - 1)
        return self._last

    @property
    def entries(self) -> int:
        """Of all ledgers together, as are `bytes` and `messages`: only the last one grows."""
        return self._before[-1] + self.links[-1].entries if self.links else 0

    @property
    def bytes(self) -> int:
        return self._bytes_before + self.links[-1].bytes if self.links else 0

    @property
    def messages(self) -> int:
        return self._messages_before + self.links[-1].messages if self.links else 0

    def link(self, ledger: int) -> LedgerSpan | None:
        if self.links and self.links[-1].ledger == ledger:
            return self.links[-1]
        index = bisect_left(self._ids, ledger)
        return self.links[index] if index < len(self._ids) and self._ids[index] == ledger else None

    @property
    def first(self) -> Position:
        """The first retained entry; where the next one will be when there is none."""
        return self.clamp(BEFORE_ALL)

    @property
    def end(self) -> Position:
        """Just past the last entry. When the last ledger is full or closed the next entry comes in a ledger not
        known yet; `clamp` of this position finds it then.
        """
        if self.links:
            return Position(self._ids[-1], self.links[-1].entries)
        return Position(self.floor.ledger, self.floor.entry + 1) if self.floor is not None else Position(-1, 0)

    def has(self, position: Position) -> bool:
        if position[1] < 0:
            return False
        link = self.link(position[0])
        return link is not None and position[1] < link.entries

    def can_be_next(self, position: Position) -> bool:
        """Whether a reader may stand here, with this to be read next: an entry, one that was trimmed, just past the
        last of a ledger. The beginning of a ledger that is not listed may have been there, empty; behind one that is
        still written it was not.
        """
        ledger, entry = position
        if self.floor is not None and Position(ledger, entry - 1) <= self.floor:
            return True
        link = self.link(ledger)
        if link is not None:
            return entry <= link.entries
        return entry <= 0 and (not self.links or ledger < self._ids[-1] or self.links[-1].closed_ms > 0)

    def clamp(self, position: Position) -> Position:
        """The first existing entry at or after, or `end`."""
        ledger, entry = position
        index = bisect_left(self._ids, ledger)
        if index < len(self._ids) and self._ids[index] == ledger:
            if max(0, entry) < self.links[index].entries:
                return position if entry >= 0 else Position(ledger, 0)
            index += 1
        while index < len(self._ids):
            if self.links[index].entries:
                return Position(self._ids[index], 0)
            index += 1
        return self.end

    def at_or_before(self, position: Position) -> Position:
        """The last existing entry at or before, or the place before the first: `(first ledger, -1)`, `floor`, or
        BEFORE_ALL.
        """
        ledger, entry = position
        index = bisect_right(self._ids, ledger) - 1
        if index >= 0 and self._ids[index] == ledger:
            if entry >= 0 and self.links[index].entries:
                return Position(ledger, min(entry, self.links[index].entries - 1))
            index -= 1
        while index >= 0:
            if self.links[index].entries:
                return Position(self._ids[index], self.links[index].entries - 1)
            index -= 1
        if self.links:
            return Position(self.clamp(BEFORE_ALL).ledger, -1)
        return self.floor if self.floor is not None else BEFORE_ALL

    def after(self, position: Position) -> Position:
        return self.clamp(Position(position[0], position[1] + 1))

    def before(self, position: Position) -> Position:
        return self.at_or_before(Position(position[0], position[1] - 1))

    def rank(self, position: Position) -> int:
        """How many retained entries stand at or before this position."""
        ledger, entry = position
        index = bisect_right(self._ids, ledger) - 1
        if index < 0:
            return 0
        inside = entry + 1 if self._ids[index] == ledger else self.links[index].entries
        return self._before[index] + max(0, min(inside, self.links[index].entries))

    def nth(self, index: int) -> Position:
        """The retained entry that has `index` retained entries before it; `end` past the last."""
        if index >= self.entries:
            return self.end
        at = bisect_right(self._before, max(0, index)) - 1
        while not self.links[at].entries:  # empty links share their prefix with the next one
            at += 1
        return Position(self._ids[at], max(0, index) - self._before[at])

    def entries_between(self, start: Position, end: Position) -> int:
        """Entries in (start, end]."""
        return max(0, self.rank(end) - self.rank(start))

    def _find_last(self) -> Position:
        for link in reversed(self.links):
            if link.entries:
                return Position(link.ledger, link.entries - 1)
        if self.floor is not None:
            return self.floor
        return Position(self._ids[0], -1) if self._ids else BEFORE_ALL

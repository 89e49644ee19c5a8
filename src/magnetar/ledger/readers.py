"""The open readers of one managed ledger: few, the least recently used goes.

A reader of a ledger that is still written knows its end as of its opening, so one that ends too early is opened
again; a closed ledger that still seems too short was left open by a crash between the record and the writer, and is
recovered. It trusts the chain about how many entries there are.
"""

from __future__ import annotations

from magnetar.base.errors import NoSuchEntry
from magnetar.base.limits import LEDGER_READERS_MAX
from magnetar.ledger.chain import LedgerSpan
from magnetar.ledger.store import LedgerStore, Reader


class Readers:
    __slots__ = ("_ledgers", "_open")

    def __init__(self, ledgers: LedgerStore) -> None:
        self._ledgers = ledgers
        self._open: dict[int, Reader] = {}  # in order of use

    async def at(self, link: LedgerSpan, entry: int) -> Reader:
        """A reader of this ledger that reaches the entry."""
        reader = self._open.get(link.ledger)
        if reader is not None and reader.last_entry >= entry and len(self._open) == 1:
            return reader
        self._open.pop(link.ledger, None)
        if reader is None or reader.last_entry < entry:
            reader = await self._ledgers.open(link.ledger, recover=False)
        if reader.last_entry < entry and link.closed_ms:
            reader = await self._ledgers.open(link.ledger, recover=True)
        if reader.last_entry < entry:
            raise NoSuchEntry("a ledger ends before an entry that was confirmed", ledger=link.ledger, entry=entry)
        self._open[link.ledger] = reader
        if len(self._open) > LEDGER_READERS_MAX:
            del self._open[next(iter(self._open))]
        return reader

    def known(self, ledger: int) -> Reader | None:
        """The one that is open, wherever it ends."""
        return self._open.get(ledger)

    def forget(self, ledger: int) -> None:
        self._open.pop(ledger, None)

    def clear(self) -> None:
        self._open.clear()

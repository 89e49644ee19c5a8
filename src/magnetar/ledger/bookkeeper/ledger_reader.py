"""A reader of one ledger up to the last entry that is known to be acknowledged when the reader was opened."""

from __future__ import annotations

import asyncio

from magnetar.base.errors import InvalidRange, MagnetarError, NoSuchEntry, NoSuchLedger, NotReady
from magnetar.ledger.bookkeeper import wire
from magnetar.ledger.bookkeeper.digest import NO_ENTRY, Digest, Entry
from magnetar.ledger.bookkeeper.entry_reads import EntryReads
from magnetar.ledger.bookkeeper.ledger_handle import Services
from magnetar.ledger.bookkeeper.ledger_metadata import LedgerMetadata
from magnetar.ledger.bookkeeper.wire import Code


class LedgerReader:
    def __init__(self, ledger: int, metadata: LedgerMetadata, last_entry: int, length: int, services: Services) -> None:
        self.ledger = ledger
        self.metadata = metadata
        self.last_entry = last_entry
        self.length = length  # of the payloads up to `last_entry`
        self._services = services
        self._reads = EntryReads(ledger, metadata, services)

    @property
    def sealed(self) -> bool:
        return self.metadata.is_closed

    async def read(self, first: int, last: int, bytes_max: int) -> list[Entry]:
        """Consecutive entries from `first`, at least one, at most up to `last` and, past the first entry, `bytes_max`.
        NoSuchEntry: `first` is past the last entry. NoSuchLedger: it was deleted."""
        if first < 0 or last < first:
            raise InvalidRange("a read must have 0 <= first <= last", first=first, last=last)
        if first > self.last_entry:
            raise NoSuchEntry("the entry is past the end of the ledger", ledger=self.ledger, entry=first)
        try:
            return await self._reads.read(first, min(last, self.last_entry), bytes_max)
        except NoSuchEntry as error:
            await self._services.catalog.read(self.ledger)  # NoSuchLedger
            raise NotReady("no bookie has an acknowledged entry", **error.facts) from None


async def open_reader(ledger: int, metadata: LedgerMetadata, services: Services) -> LedgerReader:
    """Of a sealed ledger, or up to the last entry that the bookies of an open one know as acknowledged."""
    if metadata.is_closed:
        return LedgerReader(ledger, metadata, metadata.last_entry, metadata.length, services)
    last_entry = max(await _known_lac(ledger, metadata, services), metadata.last_segment.first_entry - 1)
    length = 0
    if last_entry != NO_ENTRY:
        try:
            length = (await EntryReads(ledger, metadata, services).entry(last_entry)).length
        except NoSuchEntry:
            raise NoSuchLedger("the bookies do not have the ledger any more", ledger=ledger) from None
    return LedgerReader(ledger, metadata, last_entry, length, services)


async def _known_lac(ledger: int, metadata: LedgerMetadata, services: Services) -> int:
    """The highest end that a bookie of the last segment knows. NotReady: none of them answers."""
    digest = Digest(ledger, metadata.digest, metadata.password)

    async def ask(bookie: str) -> int | None:
        try:
            response = await services.bookies.read(bookie, ledger, NO_ENTRY)
            if response.code in wire.ABSENT:
                return NO_ENTRY
            return digest.check(response.body).lac if response.code == Code.OK else None
        except MagnetarError:
            return None

    answers = await asyncio.gather(*(ask(bookie) for bookie in metadata.last_segment.bookies))
    lacs = [lac for lac in answers if lac is not None]
    if not lacs:
        raise NotReady("no bookie of the open ledger answers", ledger=ledger)
    return max(lacs)

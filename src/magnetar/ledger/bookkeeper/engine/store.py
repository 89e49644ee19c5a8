"""The contract of `ledger/store.py` on BookKeeper: runs in, runs out, over the client of this package.

Every entry is stored with its own and the cumulative counts, because bookies have no index of messages. A recovery in
this process first ends the writer of this process, so its runs in flight fail as Fenced and may be in the ledger.
Ledgers that are open when the store is closed stay open: a recovery seals them. Other programs may share the bookies:
their ledgers are listed only if their custom metadata fit.
"""

from __future__ import annotations

import asyncio
from functools import partial
from weakref import WeakValueDictionary

from magnetar.base.errors import Closed, Fenced, NoSuchLedger
from magnetar.base.limits import BOOKKEEPER_LISTED_AT_ONCE_MAX, BOOKKEEPER_METADATA_READS_MAX, ENSEMBLE_MAX
from magnetar.ledger.bookkeeper.client import BookKeeperClient
from magnetar.ledger.bookkeeper.digest import NO_ENTRY
from magnetar.ledger.bookkeeper.engine.counted_entry import BLOCK_BYTES_MAX, CountOf, one_message
from magnetar.ledger.bookkeeper.engine.reader import BookKeeperReader
from magnetar.ledger.bookkeeper.engine.shared_ledger import SharedLedger
from magnetar.ledger.bookkeeper.engine.writer import BookKeeperWriter
from magnetar.ledger.bookkeeper.ledger_metadata import LedgerMetadata
from magnetar.ledger.bookkeeper.ledger_reader import LedgerReader
from magnetar.ledger.store import LedgerInfo, Quorum

Ids = list[int]


class BookKeeperLedgers:
    """`count_of` counts the messages of an entry that another program stored without counts."""

    def __init__(self, client: BookKeeperClient, count_of: CountOf = one_message) -> None:
        """The client is open; it is the store's from now on."""
        self.client = client
        self._count_of = count_of
        self._shared: WeakValueDictionary[int, SharedLedger] = WeakValueDictionary()
        self._writers: dict[int, BookKeeperWriter] = {}  # that are not closed
        self._closed = False

    @property
    def entry_bytes_max(self) -> int:
        return self.client.entry_bytes_max - BLOCK_BYTES_MAX

    @property
    def copies_max(self) -> int:
        return ENSEMBLE_MAX

    async def create(self, custom: dict[str, str], quorum: Quorum | None = None) -> BookKeeperWriter:
        self._check()
        handle = await self.client.create_ledger({key: value.encode() for key, value in custom.items()}, quorum)
        if self._closed:
            await handle.abandon()
            self._check()
        shared = self._state(handle.ledger, NO_ENTRY, handle.metadata)
        ended = partial(self._writers.pop, handle.ledger, None)
        writer = BookKeeperWriter(handle, shared, entry_bytes_max=self.entry_bytes_max, ended=ended)
        self._writers[writer.ledger] = writer
        return writer

    async def open(self, ledger: int, *, recover: bool) -> BookKeeperReader:
        self._check()
        writer = self._writers.get(ledger)
        if writer is None:
            entries = await self.client.open_ledger(ledger, recover=recover)
        elif recover:
            writer.fail(Fenced("the ledger was recovered by a newer owner", ledger=ledger))
            await writer.handle.abandon()
            entries = await self.client.open_ledger(ledger, recover=True)
        else:
            entries = self.client.reader(ledger, writer.handle.metadata, writer.lac)
        shared = self._state(ledger, entries.last_entry, entries.metadata)
        shared.check()
        return BookKeeperReader(shared, partial(self._entries, shared), self._count_of)

    async def delete(self, ledger: int) -> None:
        self._check()
        await self.client.delete_ledger(ledger)
        shared = self._shared.get(ledger)
        if shared is not None:
            shared.deleted = True
        writer = self._writers.get(ledger)
        if writer is not None:
            writer.fail(NoSuchLedger("the ledger was deleted", ledger=ledger))
            await writer.handle.abandon()

    async def info(self, ledger: int) -> LedgerInfo:
        self._check()
        metadata = await self.client.ledger_metadata(ledger)
        shared = self._shared.get(ledger)
        last_entry = metadata.last_entry if metadata.is_closed or shared is None else shared.last_entry
        return LedgerInfo(ledger, metadata.is_closed, last_entry, _custom(metadata))

    async def list(self, custom: dict[str, str], *, after: int = -1, limit: int | None = None) -> Ids:
        self._check()
        ledgers: Ids = []
        while limit is None or len(ledgers) < limit:
            page = await self.client.list_ledgers(after=after, limit=BOOKKEEPER_LISTED_AT_ONCE_MAX)
            if not page:
                break
            after = page[-1]
            ledgers += await self._matching(page, custom) if custom else page
        return ledgers[:limit]

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for writer in list(self._writers.values()):
            writer.fail(Closed("the ledger store is closed", ledger=writer.ledger))
        await self.client.close()

    # Inside

    def _state(self, ledger: int, last_entry: int, metadata: LedgerMetadata) -> SharedLedger:
        shared = self._shared.get(ledger)
        if shared is None:
            shared = self._shared[ledger] = SharedLedger(ledger, last_entry, metadata)
        else:
            shared.extend(last_entry, metadata)
        return shared

    def _entries(self, shared: SharedLedger) -> LedgerReader:
        """The reader of the client up to the known end, at the bookies as they are known now."""
        writer = self._writers.get(shared.ledger)
        metadata = shared.metadata if writer is None else writer.handle.metadata
        return self.client.reader(shared.ledger, metadata, shared.last_entry)

    async def _matching(self, page: Ids, custom: dict[str, str]) -> Ids:
        """Of these ledgers, those with all of these pairs. One that was deleted since the listing has none."""
        matching: Ids = []
        for start in range(0, len(page), BOOKKEEPER_METADATA_READS_MAX):
            part = page[start : start + BOOKKEEPER_METADATA_READS_MAX]
            answers = await asyncio.gather(*(self._custom_of(ledger) for ledger in part))
            matching += [ledger for ledger, own in zip(part, answers, strict=True) if custom.items() <= own.items()]
        return matching

    async def _custom_of(self, ledger: int) -> dict[str, str]:
        try:
            return _custom(await self.client.ledger_metadata(ledger))
        except NoSuchLedger:
            return {}

    def _check(self) -> None:
        if self._closed:
            raise Closed("the ledger store is closed")


def _custom(metadata: LedgerMetadata) -> dict[str, str]:
    """Values of another program that are not text are replaced in parts, and equal none of ours."""
    return {key: value.decode(errors="replace") for key, value in metadata.custom.items()}

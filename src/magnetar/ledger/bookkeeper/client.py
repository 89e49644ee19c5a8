"""The client of BookKeeper: creates, opens, recovers, deletes and lists ledgers.

It keeps its metadata through any `MetadataStore` in BookKeeper's own layout. The record of a ledger is written before
its first entry, because bookies delete entries of ledgers without a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from magnetar.base.errors import BadVersion, Busy
from magnetar.base.limits import BOOKKEEPER_CREATE_TRIES_MAX
from magnetar.ledger.bookkeeper import wire
from magnetar.ledger.bookkeeper.bookies import Bookies
from magnetar.ledger.bookkeeper.catalog import LedgerCatalog
from magnetar.ledger.bookkeeper.config import BookKeeperConfig
from magnetar.ledger.bookkeeper.digest import Digest
from magnetar.ledger.bookkeeper.ledger_handle import LedgerHandle, Services
from magnetar.ledger.bookkeeper.ledger_metadata import LedgerMetadata, Segment
from magnetar.ledger.bookkeeper.ledger_reader import LedgerReader, open_reader
from magnetar.ledger.bookkeeper.recovery import recover as recover_ledger
from magnetar.ledger.store import Quorum
from magnetar.metadata.store import MetadataStore
from magnetar.runtime.runtime import Runtime

TOKEN_BITS = 63


class BookKeeperClient:
    def __init__(self, metadata: MetadataStore, runtime: Runtime, config: BookKeeperConfig | None = None) -> None:
        """Use `open` before anything else. The store stays the caller's."""
        self.config = config or BookKeeperConfig()
        self.catalog = LedgerCatalog(metadata, runtime, self.config.root)
        self.bookies = Bookies(metadata, runtime, self.config)
        self._runtime = runtime
        self._services = Services(self.catalog, self.bookies, runtime, self.config)
        self._handles: dict[int, LedgerHandle] = {}

    @property
    def entry_bytes_max(self) -> int:
        """The largest payload of an entry."""
        overhead = Digest(0, self.config.digest, b"").overhead
        return self.config.frame_bytes_max - wire.ADD_OVERHEAD - overhead

    async def open(self) -> None:
        """NotReady: the cluster of bookies was never initialized."""
        await self.catalog.open()

    async def create_ledger(self, custom: Mapping[str, bytes], quorum: Quorum | None = None) -> LedgerHandle:
        """A new ledger with an id that no ledger of the cluster had before. NotEnoughNodes."""
        quorum = quorum or self.config.quorum
        for _ in range(BOOKKEEPER_CREATE_TRIES_MAX):
            bookies = await self.bookies.ensemble(quorum)
            ledger = await self.catalog.next_id()
            metadata = LedgerMetadata(
                quorum=quorum,
                segments=(Segment(0, bookies),),
                digest=self.config.digest,
                password=self.config.password,
                custom=dict(custom),
                ctime_ms=self._runtime.wall(),
                token=self._runtime.rng("bookkeeper").getrandbits(TOKEN_BITS),
            )
            try:
                version = await self.catalog.create(ledger, metadata)
            except BadVersion:
                continue  # a client with ids of its own has it
            ended = partial(self._handles.pop, ledger, None)
            handle = LedgerHandle(ledger, metadata, version, self._services, ended)
            self._handles[ledger] = handle
            return handle
        raise Busy("other clients use every new ledger id: try again")

    async def open_ledger(self, ledger: int, *, recover: bool) -> LedgerReader:
        """`recover`: fences and seals. Without it, an open ledger is read up to its last known acknowledged entry."""
        if recover:
            metadata = await recover_ledger(ledger, self._services)
        else:
            metadata, _ = await self.catalog.read(ledger)
        return await open_reader(ledger, metadata, self._services)

    def reader(self, ledger: int, metadata: LedgerMetadata, last_entry: int) -> LedgerReader:
        """Up to an end that the caller knows: of a ledger that this process writes, or has opened before."""
        return LedgerReader(ledger, metadata, last_entry, 0, self._services)

    async def delete_ledger(self, ledger: int) -> None:
        """Idempotent. Bookies give the space back at their next collection."""
        await self.catalog.delete(ledger)

    async def ledger_metadata(self, ledger: int) -> LedgerMetadata:
        """NoSuchLedger if there is none."""
        return (await self.catalog.read(ledger))[0]

    async def list_ledgers(self, *, after: int = -1, limit: int | None = None) -> list[int]:
        """Ids of all ledgers of the cluster above `after`, ascending."""
        return await self.catalog.list(after=after, limit=limit)

    async def close(self) -> None:
        """Ends without sealing the open ledgers: their writers do that before."""
        for handle in list(self._handles.values()):
            await handle.abandon()
        await self.bookies.close()

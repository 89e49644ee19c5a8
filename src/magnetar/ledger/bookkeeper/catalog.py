"""The records of BookKeeper in a metadata store: ids of ledgers, their metadata, the layout of the cluster.

Every change of a ledger is a compare-and-set. A record that a client creates has a random token, so the client
recognizes its own record after an answer that did not arrive. It does not talk to bookies, and it never deletes the
parent of the ids: its sequence would begin again, and bookies refuse an id that they once forgot.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from uuid import UUID

from magnetar.base.errors import BadVersion, Misuse, NoSuchLedger, NotBuilt, NotFound, NotReady
from magnetar.base.limits import BOOKKEEPER_LISTED_AT_ONCE_MAX
from magnetar.ledger.bookkeeper import ledger_metadata
from magnetar.ledger.bookkeeper.ledger_metadata import LedgerMetadata
from magnetar.metadata import paths
from magnetar.metadata.paths import LEDGER_SHORT_MAX
from magnetar.metadata.put_checked import put_checked
from magnetar.metadata.store import ABSENT, MetadataStore
from magnetar.runtime.runtime import Runtime

LAYOUT_VERSION = "2"
_PACKAGE = "org.apache.bookkeeper.meta."
HIERARCHICAL = f"{_PACKAGE}HierarchicalLedgerManagerFactory"
LONG = f"{_PACKAGE}LongHierarchicalLedgerManagerFactory"
LEGACY = f"{_PACKAGE}LegacyHierarchicalLedgerManagerFactory"
_ID = "ID-"
_HIGH = "HOB-"
_HIGH_MAX = 2**31 - 1
_SHORT = ((2, 4, 4), LEDGER_SHORT_MAX)  # digits of each level
_LONG = ((3, 4, 4, 4, 4), 2**63)
_DIGITS = re.compile(r"\d+")


class LedgerCatalog:
    def __init__(self, store: MetadataStore, runtime: Runtime, root: str = paths.LEDGERS) -> None:
        self._store = store
        self._runtime = runtime
        self._root = root
        self._long = False  # ids below 2^31 - 1 have the long form of their path too
        self._overflown = False  # the short ids are used up

    async def open(self) -> None:
        """NotReady: the cluster was never initialized. NotBuilt: its layout is not supported."""
        node = await self._store.fresh(paths.ledger_layout(self._root))
        if node is None:
            raise NotReady("the ledgers have no layout: initialize the cluster of bookies first", root=self._root)
        lines = node.value.decode(errors="replace").split("\n")
        name = lines[1].partition(":")[0] if len(lines) > 1 else ""
        if name not in (HIERARCHICAL, LONG, LEGACY):
            raise NotBuilt("this layout of ledgers is not supported: use the hierarchical one", layout=name or lines[0])
        self._long = name == LONG
        if await self._store.get(paths.ledger_ids(self._root)) is None:
            await self._put_once(paths.ledger_ids(self._root), b"")

    async def initialize(self) -> None:
        """A new cluster: bookies start once these records exist. Repeating it changes nothing."""
        await self._put_once(self._root, b"")
        await self._put_once(paths.bookies(self._root), b"")
        await self._put_once(paths.bookies_readonly(self._root), b"")
        instance = UUID(int=self._runtime.rng("bookkeeper").getrandbits(128), version=4)
        await self._put_once(paths.ledger_instance(self._root), str(instance).encode())
        await self._put_once(paths.ledger_ids(self._root), b"")
        await self._put_once(paths.ledger_layout(self._root), f"{LAYOUT_VERSION}\n{HIERARCHICAL}:1".encode())

    # Ledgers

    async def next_id(self) -> int:
        """An id that no ledger of this cluster had before."""
        while not self._overflown:
            number = await self._draw(paths.ledger_ids(self._root))
            if number is not None and number < LEDGER_SHORT_MAX:
                return number
            self._overflown = True
        parent = paths.ledger_ids_long(self._root)
        high = await self._high(parent)
        while high <= _HIGH_MAX:
            folder = f"{parent}/{_HIGH}{high:010d}"
            await self._put_once(folder, b"")
            number = await self._draw(folder)
            if number is not None:
                return high << 32 | number
            high += 1
        raise Misuse("the ids of ledgers are used up")

    async def create(self, ledger: int, metadata: LedgerMetadata) -> int:
        """The version of the new record. BadVersion: the ledger exists."""
        stat = await put_checked(self._store, self._path(ledger), ledger_metadata.encode(metadata), expected=ABSENT)
        return stat.version

    async def read(self, ledger: int) -> tuple[LedgerMetadata, int]:
        """The metadata as they are now, and their version."""
        node = await self._store.fresh(self._path(ledger))
        if node is None:
            raise NoSuchLedger("the ledger does not exist", ledger=ledger)
        return ledger_metadata.decode(node.value), node.stat.version

    async def replace(self, ledger: int, metadata: LedgerMetadata, version: int) -> int:
        """The new version. BadVersion: another client changed or deleted the record. Unknown: it may have happened."""
        value = ledger_metadata.encode(metadata)
        return (await put_checked(self._store, self._path(ledger), value, expected=version)).version

    async def delete(self, ledger: int) -> None:
        try:
            await self._store.delete(self._path(ledger))
        except NotFound:
            pass

    async def list(self, *, after: int = -1, limit: int | None = None) -> list[int]:
        """Ids above `after`, ascending."""
        ledgers: list[int] = []
        if limit is not None and limit <= 0:
            return ledgers
        async for ledger in self._walk(after):
            ledgers.append(ledger)
            if len(ledgers) == limit:
                break
        return ledgers

    # Inside

    def _path(self, ledger: int) -> str:
        return paths.ledger(ledger, self._root, long=self._long)

    async def _put_once(self, path: str, value: bytes) -> None:
        if await self._store.get(path) is not None:
            return
        try:
            await put_checked(self._store, path, value, expected=ABSENT)
        except BadVersion:
            pass  # another client was faster

    async def _draw(self, parent: str) -> int | None:
        """The next number of a sequence. None: the sequence is used up."""
        stat = await self._store.put(f"{parent}/{_ID}", b"", ephemeral=True, sequential=True)
        await self._store.delete(stat.path)
        digits = stat.path.rpartition(_ID)[2]
        return int(digits) if _DIGITS.fullmatch(digits) and int(digits) <= _HIGH_MAX else None

    async def _high(self, parent: str) -> int:
        """The newest sequence of long ids."""
        highs = [
            int(name.removeprefix(_HIGH))
            for name in await self._store.children(parent)
            if name.startswith(_HIGH) and _DIGITS.fullmatch(name.removeprefix(_HIGH))
        ]
        return max(highs, default=1)

    async def _walk(self, after: int) -> AsyncIterator[int]:
        for widths, end in (_SHORT, _LONG):
            if after + 1 < end:
                async for ledger in self._below(self._root, "", widths, after):
                    yield ledger

    async def _below(self, path: str, digits: str, widths: tuple[int, ...], after: int) -> AsyncIterator[int]:
        """Ledgers with ids that begin with `digits`; folders that hold none above `after` are not read."""
        width, deeper = widths[0], widths[1:]
        last: str | None = None
        more = True
        while more:
            page = await self._store.names(path, after=last, limit=BOOKKEEPER_LISTED_AT_ONCE_MAX)
            more = page.more and bool(page.names)
            for name in page.names:
                last = name
                part = name if deeper else name.removeprefix("L")
                if len(part) != width or not _DIGITS.fullmatch(part):
                    continue
                number = digits + part
                if int(number.ljust(len(number) + sum(deeper), "9")) <= after:
                    continue
                if not deeper:
                    yield int(number)
                    continue
                async for ledger in self._below(f"{path}/{name}", number, deeper, after):
                    yield ledger

"""Snapshots of small states (acknowledgements, deduplication), each an entry of a small ledger that a metadata
record points to.

The newest complete snapshot counts; one that is torn, damaged or cut short is skipped for the one before it. A long
ledger is rolled over: new ledger, whole snapshot, then the pointer by compare-and-set, then the old ledger is deleted.
A crash between any two steps leaves the old state or the new one, and at most an orphan that is swept. Opening fences
the previous writer. The module does not know the meaning of a snapshot, and refuses those of a newer version with an
error that names the remedy.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import google_crc32c
import msgspec

from magnetar.base.errors import (
    BadVersion,
    Closed,
    Corrupt,
    Fenced,
    MagnetarError,
    NoSuchLedger,
    NotFound,
    NotReady,
    Outcome,
    Refused,
)
from magnetar.base.limits import (
    SNAPSHOT_DOUBTS_MAX,
    SNAPSHOT_ENTRY_BYTES_MAX,
    SNAPSHOT_LEDGER_BYTES_MAX,
    SNAPSHOT_LEDGER_ENTRIES_MAX,
)
from magnetar.ledger.orphans import snapshot_custom
from magnetar.ledger.record import decode_record
from magnetar.ledger.run import run_of
from magnetar.ledger.store import LedgerStore, Quorum, Reader, Writer
from magnetar.metadata.put_checked import put_checked
from magnetar.metadata.store import ABSENT, MetadataStore, Node
from magnetar.observe.log import get

Offload = Callable[[Callable[[], list[bytes]]], Awaitable[list[bytes]]]

log = get("snapshots")

VERSION = 1  # of an entry, and of the record
MAGIC = b"MGSN"
_HEADER = struct.Struct("<4sB3xIIQI")  # magic, version, part, parts, sequence, crc32c of the rest
_RESERVED = {"kind", "snapshot"}


class SnapshotLog:
    """Made by `open`. One call of `append`, `amend`, `fold` or `delete` at a time: others wait.

    An interrupted call may leave the record ahead of this object; run them in tasks that no caller cancels.
    """

    def __init__(self, path: str, kind: str, ledgers: LedgerStore, metadata: MetadataStore, token: str) -> None:
        self.path = path
        self.kind = kind
        self.fields: dict[str, Any] = {}  # of the record; not ours to understand
        self.last: bytes | None = None  # the newest complete snapshot when it was opened
        self.created = False
        self.damaged = False  # there should be a snapshot, and none can be read
        self.entries_max = SNAPSHOT_LEDGER_ENTRIES_MAX
        self.bytes_max = SNAPSHOT_LEDGER_BYTES_MAX
        self._ledgers = ledgers
        self._metadata = metadata
        self._token = token
        self._quorum: Callable[[], Quorum | None] = _default_quorum
        self._version = ABSENT
        self._ledger: int | None = None
        self._writer: Writer | None = None
        self._entries = 0
        self._bytes = 0
        self._sequence = 0
        self._failed: MagnetarError | None = None
        self._doubts: list[bytes] = []  # records whose write had no answer: each may be stored, now or later
        self._doubtful = False  # read the record before the next write
        self._lock = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        path: str,
        *,
        kind: str,
        ledgers: LedgerStore,
        metadata: MetadataStore,
        token: str,
        create: Mapping[str, Any] | None = None,
        claim: bool = False,
        record: Node | None = None,
        quorum: Callable[[], Quorum | None] | None = None,
    ) -> SnapshotLog:
        """The log whose record is at `path`; a missing one is made with the fields of `create`, or is NotFound.
        `record`: the node at `path` if the caller has just read it.
        `quorum`: of each new ledger, asked when it is created.
        `claim`: also write the record, so that an owner before us that has no ledger open cannot. Fenced: that owner
        was faster, open it again."""
        opened = cls(path, kind, ledgers, metadata, token)
        opened._quorum = quorum or _default_quorum
        node = record or await metadata.get(path)
        if node is None:
            if create is None:
                raise NotFound("no snapshots found", path=path)
            opened.created = True
            await opened._commit(None, dict(create))
        else:
            opened._version = node.stat.version
            await opened._load(node.value)
            if claim:
                await opened._commit(opened._ledger, opened.fields)
        return opened

    @property
    def pointed(self) -> bool:
        """Whether the record points to a ledger."""
        return self._ledger is not None

    async def append(
        self, snapshot: bytes, fields: Mapping[str, Any] | None = None, offload: Offload | None = None
    ) -> None:
        """Durable when it returns. `fields` go into the record when it is written anyway. `offload`: runs the checksums
        of a large snapshot in a thread."""
        async with self._lock:
            await self._check()
            self._sequence += 1
            cut = partial(split, snapshot, self._sequence)
            entries = cut() if offload is None else await offload(cut)
            size = sum(map(len, entries))
            full = self._entries + len(entries) > self.entries_max or self._bytes + size > max(self.bytes_max, 4 * size)
            if self._writer is None or (full and self._entries):
                await self._roll(entries, {**self.fields, **(fields or {})})
            else:
                await self._write(self._writer, entries)
            self._entries += len(entries)
            self._bytes += size

    async def amend(self, fields: Mapping[str, Any]) -> None:
        """Add or replace fields of the record."""
        async with self._lock:
            await self._check()
            await self._commit(self._ledger, {**self.fields, **fields})

    async def fold(self, fields: Mapping[str, Any]) -> None:
        """The record says it all: no snapshot, and no ledger, is needed any more."""
        async with self._lock:
            await self._check()
            old = self._ledger
            await self._commit(None, {**self.fields, **fields})
            self._writer = None
            if old is not None:
                await self._drop(old)

    async def close(self) -> None:
        async with self._lock:
            writer, self._writer = self._writer, None
            if self._failed is None:
                self._failed = Closed("these snapshots are closed", path=self.path)
            if writer is not None:
                try:
                    await writer.close()
                except MagnetarError as error:
                    log.warning("ledger_close_failed", path=self.path, ledger=writer.ledger, error=str(error))

    def abandon(self) -> None:
        """Writes nothing more; a write in flight may still succeed, if no new owner has fenced it."""
        if self._failed is None:
            self._failed = Closed("another owner took over these snapshots: look the topic up again", path=self.path)

    async def delete(self) -> None:
        """Deletes the record, then the ledger. A repeated call succeeds."""
        async with self._lock:
            if isinstance(self._failed, Fenced):
                raise self._failed
            if self._doubtful:
                await self._settle()
            self._failed = Closed("these snapshots are deleted", path=self.path)
            self._writer = None
            try:
                await self._metadata.delete(self.path, expected=self._version)
            except NotFound:
                pass
            except BadVersion as error:
                raise self._fenced() from error
            if self._ledger is not None:
                await self._drop(self._ledger)

    # Inside

    async def _load(self, value: bytes) -> None:
        record = decode_record(self.path, value, VERSION)
        try:
            pointer = record.get("snapshot")
            self._ledger = None if pointer is None else int(pointer["ledger"])
            kind = record.get("kind", self.kind)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise Corrupt("the record of a snapshot ledger cannot be read", path=self.path) from error
        if kind != self.kind:
            raise Refused(f"expected a record of {self.kind}, got {kind}", path=self.path)
        self.fields = {name: field for name, field in record.items() if name not in _RESERVED}
        if self._ledger is None:
            return
        try:
            reader = await self._ledgers.open(self._ledger, recover=True)
            snapshot = await newest(reader)
        except NoSuchLedger:
            snapshot = None
        if snapshot is None:
            self.damaged = True
            log.error("snapshot_ledger_lost", path=self.path, ledger=self._ledger)
        else:
            self.last, self._sequence = snapshot

    async def _roll(self, entries: list[bytes], fields: dict[str, Any]) -> None:
        old = self._ledger
        writer = await self._ledgers.create(snapshot_custom(self.path), self._quorum())
        named = False  # whether a record may name the new ledger
        try:
            await self._write(writer, entries)
            named = True
            await self._commit(writer.ledger, fields)
        except MagnetarError as error:
            if not named or error.outcome is Outcome.DEFINITE:
                await self._drop(writer.ledger)
            raise
        self._writer = writer
        self._entries = self._bytes = 0
        if old is not None:
            await self._drop(old)

    async def _write(self, writer: Writer, entries: list[bytes]) -> None:
        written: asyncio.Future[MagnetarError | None] = asyncio.get_running_loop().create_future()

        def done(first: int, error: MagnetarError | None) -> None:
            if not written.done():
                written.set_result(error)

        writer.append(run_of(entries), done)
        error = await written
        if error is None:
            return
        if writer is self._writer:
            self._writer = None  # dead: the next snapshot goes to a new ledger
        if isinstance(error, Fenced):
            self._failed = error
        raise error

    async def _commit(self, ledger: int | None, fields: dict[str, Any]) -> None:
        record: dict[str, Any] = {**fields, "v": VERSION, "by": self._token, "kind": self.kind}
        if ledger is not None:
            record["snapshot"] = {"ledger": ledger}
        value = msgspec.json.encode(record)
        try:
            stat = await put_checked(self._metadata, self.path, value, expected=self._version)
        except BadVersion as error:
            if not self._doubts:
                self._failed = self._fenced()
                raise self._failed from error
            self._doubtful = True  # perhaps ours, that came late
            raise NotReady(
                "an earlier write of this owner changed the record late: try again", path=self.path
            ) from error
        except MagnetarError as error:
            if error.outcome is Outcome.INDEFINITE:
                self._doubts = [*self._doubts[1 - SNAPSHOT_DOUBTS_MAX :], value]
                self._doubtful = True
            raise
        self._version = stat.version
        self._ledger = ledger
        self.fields = fields
        self._doubts.clear()  # they expected a version that is gone

    async def _settle(self) -> None:
        """After a write without an answer: reads the stored record. If it is one of ours, work continues from it; any
        other belongs to a new owner. The next snapshot goes to a new ledger, whose record then settles late writes."""
        node = await self._metadata.fresh(self.path)
        version = ABSENT if node is None else node.stat.version
        if version != self._version:
            if node is None or node.value not in self._doubts:
                self._failed = self._fenced()
                raise self._failed
            record = decode_record(self.path, node.value, VERSION)
            pointer = record.get("snapshot")
            self._version = version
            self._ledger = None if pointer is None else int(pointer["ledger"])
            self.fields = {name: field for name, field in record.items() if name not in _RESERVED}
        self._writer = None
        self._doubtful = False

    async def _drop(self, ledger: int) -> None:
        try:
            await self._ledgers.delete(ledger)
        except MagnetarError as error:
            log.warning("ledger_deletion_failed", path=self.path, ledger=ledger, error=str(error))

    async def _check(self) -> None:
        if self._failed is not None:
            raise self._failed
        if self._doubtful:
            await self._settle()

    def _fenced(self) -> Fenced:
        return Fenced("another owner has changed this record", wire_code=6, path=self.path)


def split(snapshot: bytes, sequence: int, entry_bytes_max: int = SNAPSHOT_ENTRY_BYTES_MAX) -> list[bytes]:
    """One snapshot as the entries of one run."""
    parts = max(1, -(-len(snapshot) // entry_bytes_max))
    return [
        _seal(part, parts, sequence, snapshot[part * entry_bytes_max : (part + 1) * entry_bytes_max])
        for part in range(parts)
    ]


def unseal(entry: bytes) -> tuple[int, int, int, bytes]:
    """(part, parts, sequence, payload) of an entry; Corrupt when its bytes lie, Refused when it is newer than we
    are.
    """
    if len(entry) < _HEADER.size:
        raise Corrupt("a snapshot entry is too short")
    magic, version, part, parts, sequence, crc = _HEADER.unpack_from(entry)
    if magic != MAGIC or crc != google_crc32c.value(entry[: _HEADER.size - 4] + entry[_HEADER.size :]):
        raise Corrupt("a snapshot entry is damaged")
    if version > VERSION:
        raise Refused(
            f"a snapshot has format version {version}, this node reads up to {VERSION}: start a node of the "
            "version that wrote it",
            version=version,
        )
    if part >= parts:
        raise Corrupt("a snapshot entry has a wrong part number")
    return part, parts, sequence, entry[_HEADER.size :]


def _default_quorum() -> Quorum | None:
    return None


async def newest(reader: Reader) -> tuple[bytes, int] | None:
    """The last complete snapshot of a ledger and its sequence."""
    at = reader.last_entry
    while at >= 0:
        snapshot = await _ending_at(reader, at)
        if snapshot is not None:
            return snapshot
        at -= 1
    return None


async def _ending_at(reader: Reader, last: int) -> tuple[bytes, int] | None:
    try:
        part, parts, sequence, payload = unseal(await _entry(reader, last))
        if part != parts - 1 or parts > last + 1:
            return None
        payloads = [payload]
        for back in range(1, parts):
            before = unseal(await _entry(reader, last - back))
            if before[:3] != (parts - 1 - back, parts, sequence):
                return None
            payloads.append(before[3])
    except Corrupt as error:
        log.warning("snapshot_skipped", ledger=reader.ledger, entry=last, error=str(error))
        return None
    return b"".join(reversed(payloads)), sequence


async def _entry(reader: Reader, entry: int) -> bytes:
    return bytes((await reader.read(entry, entry, 1)).entry(0))


def _seal(part: int, parts: int, sequence: int, payload: bytes) -> bytes:
    header = _HEADER.pack(MAGIC, VERSION, part, parts, sequence, 0)[:-4]
    return header + struct.pack("<I", google_crc32c.value(header + payload)) + payload

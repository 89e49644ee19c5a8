"""A bookie in Python: the second wire protocol over `create_server`, entries in memory, and faults on demand.

It keeps ledgers over restarts, as a disk does; entries that were not synced when it crashed are lost, and were not
acknowledged. It never checks a digest, as real bookies. `conflicts` records an entry that came with other bytes than
before: a client must never send them, because real bookies differ in which version they keep.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from magnetar.ledger.bookkeeper.registration import Address, registration
from magnetar.ledger.bookkeeper.wire import FENCE, KEY_BYTES, RECOVERY_ADD, Code, Operation
from magnetar.metadata import paths
from magnetar.metadata.store import MetadataStore

_HEAD = struct.Struct(">BBH")
_LENGTH = struct.Struct(">I")
_IDS = struct.Struct(">qq")
_BATCH = struct.Struct(">qqqiq")
_ANSWER = struct.Struct(">iqq")
_BATCH_ANSWER = struct.Struct(">iqqq")


@dataclass(slots=True)
class StoredLedger:
    key: bytes | None = field(default=None, repr=False)  # pinned by its first use
    fenced: bool = False
    entries: dict[int, bytes] = field(default_factory=dict, repr=False)


@dataclass(slots=True)
class BookieFaults:
    delay_s: float = 0.0  # of every answer
    silent: bool = False  # takes requests and answers none: a process that is suspended
    read_only: bool = False
    code: Code | None = None  # the answer to every add
    read_code: Code | None = None  # the answer to every read
    batch_reads: bool = True  # False: an older bookie, which drops the connection at the unknown operation
    sync_s: float = 0.0  # until an entry is on the disk and acknowledged
    damaged: bool = False  # answers have a flipped bit in the last byte of their entry


class FakeBookie:
    def __init__(self, address: Address, *, frame_bytes_max: int = 5_242_880) -> None:
        self.address = address
        self.id = f"{address.host}:{address.port}"
        self.frame_bytes_max = frame_bytes_max
        self.faults = BookieFaults()
        self.ledgers: dict[int, StoredLedger] = {}
        self.conflicts: list[tuple[int, int]] = []
        self.requests: Counter[Operation] = Counter()
        self.fencing_reads = 0
        self._connections: dict[BookieSession, None] = {}
        self._server: asyncio.Server | Any = None
        self._unsynced: dict[tuple[int, int], None] = {}
        self._life = 0

    async def start(self) -> None:
        self._life += 1
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: BookieSession(self), self.address.host, self.address.port)
        if not self.address.port:
            self.address = Address(self.address.host, self._server.sockets[0].getsockname()[1])
            self.id = f"{self.address.host}:{self.address.port}"

    async def register(self, store: MetadataStore, root: str = paths.LEDGERS) -> None:
        parent = paths.bookies_readonly(root) if self.faults.read_only else paths.bookies(root)
        await store.put(f"{parent}/{self.id}", registration(self.id, self.address), ephemeral=True)

    async def unregister(self, store: MetadataStore, root: str = paths.LEDGERS) -> None:
        await store.delete(f"{paths.bookies(root)}/{self.id}")

    def crash(self) -> None:
        """Ends without a word. Entries that are not synced are lost; `start` begins the next life."""
        self._life += 1
        if self._server is not None:
            self._server.close()
            self._server = None
        for ledger, entry in self._unsynced:
            self.ledgers[ledger].entries.pop(entry, None)
        self._unsynced.clear()
        self.cut()

    def cut(self) -> None:
        """Breaks every connection."""
        for session in list(self._connections):
            session.abort()

    def collect(self, ledger: int) -> None:
        """The garbage collection of a ledger without metadata: later adds are refused as fenced."""
        self.ledgers[ledger] = StoredLedger(fenced=True)

    # Requests

    def handle(self, session: BookieSession, frame: bytes) -> None:
        _, number, flags = _HEAD.unpack_from(frame)
        operation = Operation(number)
        self.requests[operation] += 1
        if operation is Operation.BATCH_READ and not self.faults.batch_reads:
            session.abort()
            return
        body = frame[_HEAD.size :]
        delay_s = self.faults.delay_s
        match operation:
            case Operation.ADD:
                code, ledger, entry = self._add(body, flags)
                data = _ANSWER.pack(code, ledger, entry)
                if code == Code.OK and self.faults.sync_s:
                    self._unsynced[ledger, entry] = None
                    delay_s += self.faults.sync_s
            case Operation.READ:
                data = self._read(body, flags)
            case Operation.BATCH_READ:
                data = self._batch(body)
            case Operation.AUTH:
                data = b"\x0a\x12AuthDisabledPlugin\x12\x00"
        if self.faults.silent:
            return
        answer = _LENGTH.pack(_HEAD.size + len(data)) + _HEAD.pack(2, operation, 0) + data
        if not delay_s:
            session.answer(answer)
            return
        asyncio.get_running_loop().call_later(delay_s, self._later, session, answer, self._life)

    def _later(self, session: BookieSession, answer: bytes, life: int) -> None:
        if life != self._life:
            return
        if answer[_LENGTH.size + 1] == Operation.ADD:
            _, ledger, entry = _ANSWER.unpack_from(answer, _LENGTH.size + _HEAD.size)
            self._unsynced.pop((ledger, entry), None)
        session.answer(answer)

    def _add(self, body: bytes, flags: int) -> tuple[int, int, int]:
        key, entry_body = body[:KEY_BYTES], body[KEY_BYTES:]
        ledger, entry = _IDS.unpack_from(entry_body)
        if self.faults.code is not None:
            return self.faults.code, ledger, entry
        if self.faults.read_only:
            return Code.READ_ONLY, ledger, entry
        stored = self.ledgers.setdefault(ledger, StoredLedger())
        if not self._admits(stored, key):
            return Code.UNAUTHORIZED, ledger, entry
        if stored.fenced and not flags & RECOVERY_ADD:
            return Code.FENCED, ledger, entry
        if stored.entries.setdefault(entry, entry_body) != entry_body:
            self.conflicts.append((ledger, entry))
        return Code.OK, ledger, entry

    def _read(self, body: bytes, flags: int) -> bytes:
        ledger, entry = _IDS.unpack_from(body)
        if self.faults.read_code is not None:
            return _ANSWER.pack(self.faults.read_code, ledger, entry)
        stored = self.ledgers.get(ledger)
        if flags & FENCE:
            self.fencing_reads += 1
            is_new = stored is None
            stored = self.ledgers.setdefault(ledger, StoredLedger())
            if not self._admits(stored, body[_IDS.size :]):
                return _ANSWER.pack(Code.UNAUTHORIZED, ledger, entry)
            stored.fenced = True
            if is_new:
                return _ANSWER.pack(Code.NO_ENTRY, ledger, entry)
        if stored is None:
            return _ANSWER.pack(Code.NO_LEDGER, ledger, entry)
        number = max(stored.entries, default=-1) if entry == -1 else entry
        data = stored.entries.get(number)
        if data is None:
            return _ANSWER.pack(Code.NO_ENTRY, ledger, entry)
        return _ANSWER.pack(Code.OK, ledger, entry) + self._sent(data)

    def _batch(self, body: bytes) -> bytes:
        ledger, first, request, entries_max, bytes_max = _BATCH.unpack_from(body)
        stored = self.ledgers.get(ledger)
        code = self.faults.read_code
        if code is None and stored is None:
            code = Code.NO_LEDGER
        if code is None and stored is not None and first not in stored.entries:
            code = Code.NO_ENTRY
        if code is not None or stored is None:
            return _BATCH_ANSWER.pack(code or Code.NO_LEDGER, ledger, first, request)
        parts = [_BATCH_ANSWER.pack(Code.OK, ledger, first, request)]
        size = _HEAD.size + _BATCH_ANSWER.size
        for entry in range(first, first + entries_max):
            data = stored.entries.get(entry)
            if data is None or (entry > first and size + _LENGTH.size + len(data) > bytes_max):
                break
            parts += [_LENGTH.pack(len(data)), self._sent(data)]
            size += _LENGTH.size + len(data)
        return b"".join(parts)

    def _admits(self, stored: StoredLedger, key: bytes) -> bool:
        if stored.key is None:
            stored.key = key
        return stored.key == key

    def _sent(self, data: bytes) -> bytes:
        return data[:-1] + bytes([data[-1] ^ 1]) if self.faults.damaged else data


class BookieSession(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, bookie: FakeBookie) -> None:
        self._bookie = bookie
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._bookie._connections[self] = None

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received)
            if length > self._bookie.frame_bytes_max:
                self.abort()
                return
            end = _LENGTH.size + length
            if len(self._received) < end:
                return
            frame = bytes(self._received[_LENGTH.size : end])
            del self._received[:end]
            self._bookie.handle(self, frame)

    def connection_lost(self, error: Exception | None) -> None:
        self._bookie._connections.pop(self, None)

    def answer(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

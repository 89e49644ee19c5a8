"""Engines that report false results: a checker that does not catch them checks nothing.

Only tests inject them; the product has no such switch.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.ledger import snapshots
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.ledger.run import Run, run_of
from magnetar.ledger.store import Done, Quorum, Writer
from simulation.environment.disk import SimulatedFiles
from simulation.environment.inodes import Inode

_MARK = struct.Struct("<qq")
_MARK_AT = 3  # behind version, tag and length of the first section of a cursor's snapshot


class UnsyncedFiles(SimulatedFiles):
    """A disk that reports a sync and does not sync."""

    def sync(self, inode: Inode, path: str) -> None:
        self._count()
        self.syncs += 1


class LedgerStoreProxy:
    """A ledger store in front of the real one; it passes on everything that a subclass does not change."""

    def __init__(self, engine: LocalLedgers) -> None:
        self._engine = engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


class EarlyConfirmWriter:
    """Confirms immediately, and writes later."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._next = 0
        self.ledger = writer.ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def append(self, run: Run, done: Done) -> None:
        first, self._next = self._next, self._next + len(run)
        run.ledger, run.first = self.ledger, first
        loop = asyncio.get_running_loop()
        loop.call_soon(done, first, None)
        loop.call_later(0.02, self._writer.append, run, _nobody)


class EarlyConfirmLedgers(LedgerStoreProxy):
    async def create(self, custom: dict[str, str], quorum: Quorum | None = None) -> Any:
        return EarlyConfirmWriter(await self._engine.create(custom, quorum))


class OverstatingWriter:
    """Snapshots of cursors claim entries beyond what was acknowledged."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self.ledger = writer.ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def append(self, run: Run, done: Done) -> None:
        _, _, sequence, payload = snapshots.unseal(run.entry(0))
        ledger, entry = _MARK.unpack_from(payload, _MARK_AT)
        lie = payload[:_MARK_AT] + _MARK.pack(ledger, entry + 2) + payload[_MARK_AT + _MARK.size :]
        self._writer.append(run_of(snapshots.split(lie, sequence)), done)


class OverstatingLedgers(LedgerStoreProxy):
    async def create(self, custom: dict[str, str], quorum: Quorum | None = None) -> Any:
        writer = await self._engine.create(custom, quorum)
        cursor = custom.get("component") == "snapshots" and "dedup" not in custom["node"]
        return OverstatingWriter(writer) if cursor else writer


def _nobody(first: int, error: MagnetarError | None) -> None:
    pass

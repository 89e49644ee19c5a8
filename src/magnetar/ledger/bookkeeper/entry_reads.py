"""Reads of entries from bookies: one bookie after the other, a second one when the first is slow.

A batch read asks one bookie for consecutive entries; it is used where every bookie has every entry and the bookie knows
it, else single reads are pipelined. No payload leaves here before its digest was checked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from magnetar.base.errors import Corrupt, MagnetarError, NoSuchEntry, NotReady, Unavailable, Unknown
from magnetar.base.limits import BOOKKEEPER_BATCH_ENTRIES_MAX, BOOKKEEPER_READ_ENTRIES_MAX
from magnetar.ledger.bookkeeper import wire
from magnetar.ledger.bookkeeper.bookies import error_of
from magnetar.ledger.bookkeeper.digest import Digest, Entry
from magnetar.ledger.bookkeeper.ledger_handle import Services
from magnetar.ledger.bookkeeper.ledger_metadata import LedgerMetadata
from magnetar.ledger.bookkeeper.read_state import Outcome, ReadState, order
from magnetar.ledger.bookkeeper.wire import Code
from magnetar.runtime.runtime import Owner

T = TypeVar("T")


class EntryReads:
    def __init__(self, ledger: int, metadata: LedgerMetadata, services: Services) -> None:
        self.ledger = ledger
        self.metadata = metadata
        self._services = services
        self._digest = Digest(ledger, metadata.digest, metadata.password)
        self._preferred: str | None = None  # the bookie of the last batch

    async def read(self, first: int, last: int, bytes_max: int) -> list[Entry]:
        """Consecutive entries from `first`, at least one, up to `last` or `bytes_max`."""
        quorum = self.metadata.quorum
        batches = [self._services.bookies.batches(bookie) for bookie in self.metadata.write_set(first)]
        if last > first and quorum.ensemble == quorum.write and any(each is not False for each in batches):
            return await self._from_any(first, partial(self._batch, first=first, last=last, bytes_max=bytes_max))
        return await self._singles(first, last, bytes_max)

    async def entry(self, number: int) -> Entry:
        return await self._from_any(number, partial(self._single, entry=number))

    async def _singles(self, first: int, last: int, bytes_max: int) -> list[Entry]:
        entries: list[Entry] = []
        size = 0
        at = first
        ahead = 1  # doubles: the size of an entry is not known before the first
        while at <= last and (not entries or size < bytes_max):
            end = min(last, at + ahead - 1)
            reads = [self.entry(number) for number in range(at, end + 1)]
            for entry in await asyncio.gather(*reads, return_exceptions=True):
                if isinstance(entry, BaseException):
                    if entries:
                        return entries
                    raise entry
                if entries and size + len(entry.payload) > bytes_max:
                    return entries
                entries.append(entry)
                size += len(entry.payload)
            at = end + 1
            fit = max(1, (bytes_max - size) * len(entries) // max(size, 1))
            ahead = min(ahead * 2, fit, BOOKKEEPER_READ_ENTRIES_MAX)
        return entries

    async def _single(self, bookie: str, *, entry: int) -> Entry:
        response = await self._services.bookies.read(bookie, self.ledger, entry)
        self._check(response.code, bookie, entry)
        return self._digest.check(response.body, entry)

    async def _batch(self, bookie: str, *, first: int, last: int, bytes_max: int) -> list[Entry]:
        """From one bookie. A bookie that does not know batch reads sends single entries."""
        bookies, config = self._services.bookies, self._services.config
        if bookies.batches(bookie) is False:
            return [await self._single(bookie, entry=first)]
        segment_end = self._segment_end(first, last)
        count = min(segment_end - first + 1, BOOKKEEPER_BATCH_ENTRIES_MAX)
        overhead = count * (self._digest.overhead + wire.BATCH_ENTRY_OVERHEAD) + wire.BATCH_OVERHEAD
        size = min(bytes_max + overhead, config.frame_bytes_max)
        try:
            response = await bookies.batch_read(bookie, self.ledger, first, entries_max=count, bytes_max=size)
            if response.code in (Code.BAD_REQUEST, Code.BAD_VERSION):
                raise error_of(response.code, bookie, self.ledger, first)
        except (Unavailable, Unknown):
            if bookies.batches(bookie):
                raise
            bookies.know_batches(bookie, False)
            return [await self._single(bookie, entry=first)]
        bookies.know_batches(bookie, True)
        self._check(response.code, bookie, first)
        entries: list[Entry] = []
        taken = 0
        for step, body in enumerate(wire.batch(response.body)[:count]):
            entry = self._digest.check(body, first + step)
            if entries and taken + len(entry.payload) > bytes_max:
                break
            entries.append(entry)
            taken += len(entry.payload)
        if not entries:
            raise Corrupt("a bookie answered a batch read without an entry", bookie=bookie, ledger=self.ledger)
        self._preferred = bookie
        return entries

    def _segment_end(self, first: int, last: int) -> int:
        """The last entry up to `last` with the same bookies as `first`."""
        later = [each.first_entry - 1 for each in self.metadata.segments if each.first_entry > first]
        return min([last, *later])

    def _check(self, code: int, bookie: str, entry: int) -> None:
        if code in wire.ABSENT:
            raise NoSuchEntry("the bookie does not have the entry", bookie=bookie, ledger=self.ledger, entry=entry)
        if code != Code.OK:
            raise error_of(code, bookie, self.ledger, entry)

    async def _from_any(self, entry: int, ask: Callable[[str], Awaitable[T]]) -> T:
        """The first good answer of a bookie of the entry."""
        services = self._services
        bookies = order(self.metadata.write_set(entry), services.bookies.quarantined(), self._preferred)
        state = ReadState(bookies)
        owner = Owner("bookkeeper")
        tasks: dict[asyncio.Task[T | MagnetarError], str] = {}
        errors: list[MagnetarError] = []

        def begin(bookie: str | None) -> None:
            if bookie is not None:
                tasks[services.runtime.spawn(owner, _settled(ask(bookie)))] = bookie

        try:
            begin(state.next())
            while tasks:
                done, _ = await asyncio.wait(
                    tasks, timeout=services.config.speculate_s, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    begin(state.next())
                for task in [task for task in tasks if task in done]:
                    bookie = tasks.pop(task)
                    result = task.result()
                    if not isinstance(result, MagnetarError):
                        state.succeeded(bookie)
                        return result
                    errors.append(result)
                    outcome = _outcome(result)
                    if outcome is Outcome.FAILED:
                        services.bookies.failed(bookie)
                    begin(state.failed(bookie, outcome))
        finally:
            await owner.close()
        raise self._failure(state.result, entry, errors)

    def _failure(self, outcome: Outcome, entry: int, errors: list[MagnetarError]) -> MagnetarError:
        if outcome is Outcome.ABSENT:
            return NoSuchEntry("no bookie has the entry", ledger=self.ledger, entry=entry)
        if outcome is Outcome.DAMAGED:
            return next(error for error in errors if isinstance(error, Corrupt))
        why = "; ".join(sorted({error.what for error in errors}))
        return NotReady("no bookie sent the entry", ledger=self.ledger, entry=entry, why=why)


def _outcome(error: MagnetarError) -> Outcome:
    if isinstance(error, NoSuchEntry):
        return Outcome.ABSENT
    return Outcome.DAMAGED if isinstance(error, Corrupt) else Outcome.FAILED


async def _settled(answer: Awaitable[T]) -> T | MagnetarError:
    try:
        return await answer
    except MagnetarError as error:
        return error

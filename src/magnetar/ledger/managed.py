"""A managed ledger: ledgers chained into one endless list of entries, owned by one broker at a time.

Opening it fences the previous writer. It reads across ledgers, finds by time, counts, terminates, trims and deletes.
The arithmetic is in `chain.py`, the writing in `appender.py`, the record in `ledger/record.py`. It refuses to guess:
missing bytes that the record promises are an error, never a gap. It trusts the record's compare-and-set for ownership
and the ledger store for durability.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from magnetar.base.errors import Closed, Corrupt, Fenced, MagnetarError, NoSuchLedger, TopicNotFound
from magnetar.base.ids import Position
from magnetar.ledger.appender import LedgerAppender, ManagedConfig
from magnetar.ledger.chain import Chain, LedgerSpan
from magnetar.ledger.clock import Clock, WallClock
from magnetar.ledger.open_ledger import Appended
from magnetar.ledger.orphans import erase
from magnetar.ledger.readers import Readers
from magnetar.ledger.record import LedgerRecord
from magnetar.ledger.retention import Rule, droppable
from magnetar.ledger.run import Run
from magnetar.ledger.store import LedgerStore, Quorum, Reader
from magnetar.ledger.tail import Tail
from magnetar.metadata.store import MetadataStore
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime

log = get("ledger")
T = TypeVar("T")

__all__ = ["ManagedConfig", "ManagedLedger"]


class ManagedLedger:
    """Made by `open`. Positions that do not exist are welcome as arguments: they are read as places between entries."""

    __slots__ = (
        "_appender",
        "_book",
        "_owner",
        "_readers",
        "_tail",
        "append",
        "chain",
        "clock",
        "config",
        "ledgers",
        "metadata",
        "path",
        "runtime",
    )

    def __init__(
        self,
        book: LedgerRecord,
        *,
        ledgers: LedgerStore,
        metadata: MetadataStore,
        runtime: Runtime,
        config: ManagedConfig,
    ) -> None:
        self.path = book.path
        self.ledgers = ledgers
        self.metadata = metadata
        self.runtime = runtime
        self.config = config
        self.chain: Chain = book.chain
        self.clock: Clock = config.clock or WallClock(runtime.wall)
        self._book = book
        self._tail = Tail()
        self._readers = Readers(ledgers)
        self._owner = Owner(f"managed ledger {book.path}", _ended)
        self._appender = LedgerAppender(
            book, ledgers=ledgers, runtime=runtime, config=config, owner=self._owner, tail=self._tail
        )
        # `done(run, error)` is called on the loop, in the order of the calls, never inside this one.
        self.append: Callable[[Run, Appended], None] = self._appender.append

    @classmethod
    async def open(
        cls,
        path: str,
        *,
        ledgers: LedgerStore,
        metadata: MetadataStore,
        runtime: Runtime,
        config: ManagedConfig,
        create: bool = True,
    ) -> ManagedLedger:
        """Fences the previous writer and fixes the end of the list. Fenced: another opener was faster, or is opening
        now. TopicNotFound: no record exists and `create` is False. An interrupted deletion is finished first."""
        token = f"{runtime.rng('managed ledger').getrandbits(64):016x}"
        book = await LedgerRecord.load(path, metadata, token, create=create)
        if book.deleting:
            doomed = [link.ledger for link in book.chain.links]
            await erase(path, doomed, book.version, ledgers=ledgers, metadata=metadata)
            if not create:
                raise TopicNotFound("topic not found", path=path)
            book = await LedgerRecord.load(path, metadata, token, create=True)
        managed = cls(book, ledgers=ledgers, metadata=metadata, runtime=runtime, config=config)
        await managed._recover()
        return managed

    # What there is

    @property
    def properties(self) -> Mapping[str, str]:
        return self._book.properties

    @property
    def created_ms(self) -> int:
        return self._book.created_ms

    @property
    def terminated(self) -> Position | None:
        return self._book.terminated

    @property
    def failed(self) -> MagnetarError | None:
        """Why no run is taken any more: Fenced, Sealed, Closed, or the error of a store."""
        return self._appender.refusal

    @property
    def quorum(self) -> Quorum | None:
        """The copies of entries in the next ledger, of cursors too; a ledger that is written keeps its own."""
        return self._appender.quorum

    @quorum.setter
    def quorum(self, quorum: Quorum | None) -> None:
        self._appender.quorum = quorum

    @property
    def last(self) -> Position:
        """The last confirmed entry. Never moves back, not even when that entry is trimmed (see `has`)."""
        return self.chain.last

    @property
    def first(self) -> Position:
        return self.chain.first

    @property
    def entries(self) -> int:
        return self.chain.entries

    @property
    def bytes(self) -> int:
        return self.chain.bytes

    @property
    def messages(self) -> int:
        return self.chain.messages

    def after(self, position: Position) -> Position:
        return self.chain.after(position)

    def before(self, position: Position) -> Position:
        return self.chain.before(position)

    def next_valid(self, position: Position) -> Position:
        """The first retained entry at or after, or just past the last."""
        return self.chain.clamp(position)

    clamp = next_valid

    def has(self, position: Position) -> bool:
        return self.chain.has(position)

    def entries_between(self, start: Position, end: Position) -> int:
        """Entries in (start, end]."""
        return self.chain.entries_between(start, end)

    # Writing

    async def prepare(self) -> None:
        """Be ready for the first run: it waits for the disk and for nothing else."""
        await self.finish(self._appender.prepare())

    async def terminate(self, *, properties: Mapping[str, str] | None = None) -> Position:
        """Durable when it returns, with these properties added in the same write; again is the same answer. An error
        that is not Unavailable leaves the topic failed, because the end may be written."""
        return await self.finish(self._appender.terminate(properties))

    async def set_properties(self, properties: Mapping[str, str], *, remove: Iterable[str] = ()) -> None:
        """Add or replace these, and take away those named in `remove`; the others stay."""
        await self.finish(self._book.rename(properties, remove))

    async def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for work that runs to its end even if the caller gives up. Half of a compare-and-set would leave memory
        behind its record, and the next one would look like a fenced owner.
        """
        return await self.wait(self.start(work))

    async def wait(self, task: asyncio.Task[T]) -> T:
        """For work started here, by any number of callers: one of them giving up does not stop it."""
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if task.cancelled() and caller is not None and not caller.cancelling():
                raise Closed(
                    "the topic was closed before the operation finished: look it up again", path=self.path
                ) from None
            raise

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Work that belongs to this topic and ends with it."""
        return self.runtime.spawn(self._owner, work)

    # Reading

    def keep_tail(self, keep: bool = True) -> None:
        """False: no client has read here yet, so only a few runs stay in memory."""
        self._tail.wanted = keep

    def cached(self, start: Position, bytes_max: int, entries_max: int) -> Run | None:
        """Entries from exactly `start`, from memory and without waiting; None when they are not in memory."""
        return self._tail.read(start, bytes_max, entries_max)

    async def read(self, start: Position, bytes_max: int, entries_max: int) -> Run | None:
        """Entries from the first retained one at or after `start`, of one ledger; None when there is none yet."""
        while True:
            start = self.chain.clamp(start)
            link = self.chain.link(start.ledger)
            if link is None or start.entry >= link.entries:
                return None
            run = self._tail.read(start, bytes_max, entries_max)
            if run is not None:
                return run
            last = min(start.entry + entries_max, link.entries) - 1
            try:
                reader = await self._readers.at(link, last)
                return await reader.read(start.entry, last, bytes_max)
            except NoSuchLedger:
                self._readers.forget(start.ledger)
                if self.chain.link(start.ledger) is not None:
                    raise  # not trimmed: the ledger must exist

    async def find(self, publish_time_ms: int) -> Position:
        """The first entry published at or after this time, by halving; just past the last when there is none."""
        snapshot = Chain(_frozen(self.chain.links), self.chain.floor)
        low, high = 0, snapshot.entries
        while low < high:
            middle = (low + high) // 2
            run = await self.read(snapshot.nth(middle), 1, 1)
            if run is not None and self.config.publish_time_of(run.entry(0)) < publish_time_ms:
                low = middle + 1
            else:
                high = middle
        return self.chain.clamp(snapshot.nth(low))

    async def count(self, start: Position, end: Position) -> tuple[int, int]:
        """(messages, bytes) of the entries in [start, end]: whole ledgers from the record, parts from the index."""
        messages = size = 0
        for link in list(self.chain.links):
            low = max(start.entry, 0) if link.ledger == start.ledger else 0
            high = min(end.entry, link.entries - 1) if link.ledger == end.ledger else link.entries - 1
            if not start.ledger <= link.ledger <= end.ledger or low > high:
                continue
            if low == 0 and high == link.entries - 1:
                some = link.messages, link.bytes
            else:
                some = await (await self._readers.at(link, high)).count(low, high)
            messages += some[0]
            size += some[1]
        return messages, size

    async def reader(self, link: LedgerSpan, entry: int) -> Reader:
        """A reader of one ledger that reaches this entry, for measurements."""
        return await self._readers.at(link, entry)

    def known_reader(self, ledger: int) -> Reader | None:
        """The same reader if it is already open, wherever it ends."""
        return self._readers.known(ledger)

    # Ending

    def passed(self, upto: Position) -> bool:
        """Whether a whole ledger lies at or before this."""
        links = [link for link in self.chain.links if link.entries]
        return bool(links) and Position(links[0].ledger, links[0].entries - 1) <= upto

    async def trim(self, upto: Position, rule: Rule) -> int:
        """Drop ledgers that lie wholly at or before `upto` (the lowest mark of all cursors) and that the rule allows.
        The record first, then the ledgers: what a crash leaves between is swept. Returns how many were dropped."""
        return await self.finish(self._trim(upto, rule))

    async def _trim(self, upto: Position, rule: Rule) -> int:
        await self._appender.rotate()
        count = droppable(self.chain.links, upto, rule, sealed=self.terminated is not None)
        if not count:
            return 0
        gone = self.chain.links[:count]
        floor = Position(gone[-1].ledger, gone[-1].entries - 1)
        names = {link.ledger for link in gone}
        await self._book.commit(lambda links: [link for link in links if link.ledger not in names], floor=floor)
        for link in gone:
            self._readers.forget(link.ledger)
            await self._drop(link.ledger)
        return count

    async def close(self) -> None:
        """Confirms the given runs, then releases the ledger; pending runs are answered before it returns."""
        await self._appender.close()
        await self._let_go()

    async def abandon(self) -> None:
        """Releases the ledger without a write: another broker owns it. Pending runs fail before this returns."""
        self._appender.abandon(Closed("the topic has another owner: look it up again", path=self.path))
        await self._let_go()

    async def delete(self) -> None:
        """Deletes the ledgers, the cursors with their data, and the record. The record is marked first: the next opener
        after a crash finishes the work. A repeated call succeeds."""
        self._appender.abandon(Closed("the topic is deleted", path=self.path))
        await self._let_go()
        if not self._book.deleting:
            try:
                await self._book.commit(deleting=True)
            except Fenced:
                if await self.metadata.get(self.path) is None:
                    return  # already deleted
                raise
        ledgers = [link.ledger for link in self.chain.links]
        await erase(self.path, ledgers, self._book.version, ledgers=self.ledgers, metadata=self.metadata)

    async def check_current(self) -> None:
        """Fenced: another owner has been here since."""
        await self._book.check_current()

    # Inside

    async def _recover(self) -> None:
        """Recovery fences earlier writers and the record's compare-and-set fences earlier owners: both are needed."""
        ends: dict[int, LedgerSpan] = {}
        for link in self.chain.links:
            if link.closed_ms:
                continue
            try:
                reader = await self.ledgers.open(link.ledger, recover=True)
            except NoSuchLedger as error:
                await self._book.check_current()  # else another owner dropped it, and our list is old
                raise Corrupt(
                    "the record names a ledger that does not exist: restore it, or delete the topic",
                    path=self.path,
                    ledger=link.ledger,
                ) from error
            entries = reader.last_entry + 1
            messages, size = await reader.count(0, entries - 1) if entries else (0, 0)
            end = LedgerSpan(link.ledger, entries, size, messages, extra=link.extra)
            ends[link.ledger] = end.closed(max(self._closed_ms(), self.clock.now_ms()))
        if not ends:
            if self.config.claim:
                await self._book.commit()  # an owner before us that has no ledger open would still make one
            return
        self.runtime.mark("ledger.recovered", path=self.path, ledgers=sorted(ends))
        await self._book.commit(lambda links: [end for link in links if (end := ends.get(link.ledger, link)).entries])
        for ledger in sorted(ends):
            if not ends[ledger].entries:
                await self._drop(ledger)

    def _closed_ms(self) -> int:
        """When the newest closed ledger ended: a clock that was set back makes no later one older."""
        return max((link.closed_ms for link in self.chain.links), default=0)

    async def _drop(self, ledger: int) -> None:
        try:
            await self.ledgers.delete(ledger)
        except MagnetarError as error:
            log.warning("ledger_deletion_failed", path=self.path, ledger=ledger, error=str(error))

    async def _let_go(self) -> None:
        await self._owner.close()
        self._readers.clear()
        self.config.tail.clear(self._tail)


def _ended(owner: str, error: BaseException) -> None:
    if not isinstance(error, MagnetarError):  # the callers got those
        log.crashed("task_failed", error, owner=owner)


def _frozen(links: list[LedgerSpan]) -> list[LedgerSpan]:
    return [LedgerSpan(link.ledger, link.entries) for link in links]

"""The writing side of a managed ledger: order, rollover, and recovery from a failed writer.

Runs are confirmed in the order in which they were given. The appender opens a ledger with the first run, rolls it over
between runs, and replaces it when its writer fails. Unconfirmed runs are then sent again, in order, into a ledger that
is in the record before it takes a byte. The record cuts the failed ledger at the last confirmed entry, so that a run
that reached the disk without an answer is not read twice. Another owner (a fence, or a changed record) ends it: all
pending runs fail, and so does every later run. It has no queue bound of its own: its callers limit the bytes in flight.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from magnetar.base.errors import Closed, Fenced, MagnetarError, Misuse, Sealed, Unavailable
from magnetar.base.ids import BEFORE_ALL, Position
from magnetar.base.limits import (
    CURSORS_ACKS_BYTES_MAX,
    LEDGER_AGE_S_MAX,
    LEDGER_AGE_S_MIN,
    LEDGER_BYTES_MAX,
    LEDGER_DEATHS_MAX,
    LEDGER_ENTRIES_MAX,
    LEDGER_ROLL_RETRY_S,
)
from magnetar.ledger.block_cache import BlockCache
from magnetar.ledger.chain import LedgerSpan
from magnetar.ledger.clock import Clock, WallClock
from magnetar.ledger.open_ledger import Appended, Limits, OpenLedger
from magnetar.ledger.orphans import data_custom
from magnetar.ledger.record import Change, LedgerRecord
from magnetar.ledger.run import Run
from magnetar.ledger.state_account import LoadedAccount, StateAccount
from magnetar.ledger.store import LedgerStore, Quorum, Writer
from magnetar.ledger.tail import Tail, TailCache
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime

log = get("ledger")


def _no_time(entry: bytes) -> int:
    return 0


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ManagedConfig:
    publish_time_of: Callable[[bytes], int] = _no_time  # milliseconds, out of an entry's bytes
    tail: TailCache = field(default_factory=TailCache)  # one for the whole broker
    blocks: BlockCache = field(default_factory=BlockCache)  # the same
    state: StateAccount = field(default_factory=StateAccount)  # of delayed and unacknowledged entries, the same
    acks: StateAccount = field(default_factory=lambda: StateAccount(CURSORS_ACKS_BYTES_MAX))  # the same
    loaded: LoadedAccount = field(default_factory=LoadedAccount)  # the same
    entries_max: int = LEDGER_ENTRIES_MAX
    bytes_max: int = LEDGER_BYTES_MAX
    age_min_s: float = LEDGER_AGE_S_MIN
    age_max_s: float = LEDGER_AGE_S_MAX
    claim: bool = False  # others share the stores: opening writes every record, so that an earlier owner cannot
    may_roll: Callable[[], bool] = _always  # False: the metadata store is away, a ledger that is due is kept for now
    clock: Clock | None = None  # the time that ledgers end at and age by; None: the wall clock


class LedgerAppender:
    __slots__ = (
        "_book",
        "_clock",
        "_config",
        "_custom",
        "_deaths",
        "_gates",
        "_late",
        "_ledgers",
        "_lock",
        "_over",
        "_owner",
        "_pen",
        "_queue",
        "_runtime",
        "_tail",
        "_turning",
        "_waiting",
        "quorum",
        "refusal",
    )

    def __init__(
        self,
        book: LedgerRecord,
        *,
        ledgers: LedgerStore,
        runtime: Runtime,
        config: ManagedConfig,
        owner: Owner,
        tail: Tail,
    ) -> None:
        self.refusal: MagnetarError | None = None  # what every later run is answered with
        self.quorum: Quorum | None = None  # of the next ledger
        self._book = book
        self._ledgers = ledgers
        self._runtime = runtime
        self._clock = config.clock or WallClock(runtime.wall)
        self._config = config
        self._custom = data_custom(book.path)
        self._tail = tail
        self._owner = owner
        self._pen: OpenLedger | None = None
        self._over: OpenLedger | None = None  # of a terminated topic: its ledger is still to be closed
        self._queue: deque[tuple[Run, Appended]] = deque()  # waiting for a writer
        self._late: deque[tuple[Run, Appended]] = deque()  # came while terminating: sealed, or queued if that fails
        self._gates = 0
        self._deaths = 0
        self._turning = False
        self._lock = asyncio.Lock()
        self._waiting: list[asyncio.Future[None]] = []
        if book.terminated is not None:
            self.refusal = _sealed(book)

    @property
    def pending(self) -> int:
        return len(self._queue) + (len(self._pen.in_flight) if self._pen is not None else 0)

    def append(self, run: Run, done: Appended) -> None:
        if not run.counts:
            raise Misuse("a run must have at least one entry", path=self._book.path)
        pen = self._pen
        if self.refusal is not None:
            asyncio.get_running_loop().call_soon(done, run, self.refusal)
        elif self._gates:
            self._late.append((run, done))
        elif pen is not None and not pen.full and not pen.dead and not self._queue:
            pen.send(run, done)
        else:
            self._queue.append((run, done))
            self._drive()

    async def terminate(self, properties: Mapping[str, str] | None) -> Position:
        """No entry is appended after the position that this writes. Earlier runs are confirmed first; runs given during
        the call wait for its outcome."""
        self._gates += 1
        try:
            await self._quiet()
            async with self._lock:
                if self._book.terminated is None:
                    self._check()
                    await self._seal(properties)
        finally:
            self._gates -= 1
            self._open_gate()
        assert self._book.terminated is not None
        return self._book.terminated

    async def prepare(self) -> None:
        """Opens the first ledger before the first append, so that the first run need not wait for it."""
        if self._pen is None and not self._turning and not self._gates and self.refusal is None:
            self._turning = True
            await self._turn(ahead=True)

    async def rotate(self) -> None:
        """Closes a ledger that is due although no run is appended, so that it can be trimmed."""
        await self._put_down_over()
        pen = self._pen
        if pen is not None and not pen.in_flight and not self._turning and not self._gates and self.due(pen):
            pen.full = True
            self._turning = True
            await self._turn()

    async def close(self) -> None:
        """Confirm what was given, close the ledger, refuse what comes. Never fails: the next owner recovers."""
        self._gates += 1
        try:
            await self._quiet()
            await self._put_down_over()
            async with self._lock:
                if self._pen is not None and self.refusal is None:
                    self.refusal = Closed("the topic is closed", path=self._book.path)
                    try:
                        await self._retire(None)
                    except MagnetarError as error:
                        log.warning("ledger_close_failed", path=self._book.path, error=str(error))
        finally:
            self.abandon(Closed("the topic is closed", path=self._book.path))
            self._gates -= 1

    def abandon(self, error: MagnetarError) -> None:
        """Fails pending runs and refuses new ones, with this error unless it has an earlier one."""
        if self.refusal is None:
            self.refusal = error
        failed = [*(self._pen.in_flight if self._pen is not None else ()), *self._queue, *self._late]
        if self._pen is not None:
            self._pen.dead = True
            self._pen.in_flight.clear()
        self._queue.clear()
        self._late.clear()
        for run, done in failed:
            done(run, self.refusal)
        self._wake()

    # Reports of the open ledger

    def due(self, pen: OpenLedger) -> bool:
        now = self._runtime.monotonic()
        age, config = now - pen.born, self._config
        if now < pen.kept_until:
            return False
        if pen.entries >= config.entries_max and age >= config.age_min_s:
            return config.may_roll()
        return (pen.bytes >= config.bytes_max or age >= config.age_max_s) and config.may_roll()

    def confirmed(self, pen: OpenLedger, run: Run, done: Appended) -> None:
        self._deaths = 0
        self._book.chain.grow(len(run.counts), run.size, run.messages)
        self._config.tail.put(self._tail, run)
        done(run, None)
        if pen.full:
            self._drive()
        if self._waiting:
            self._wake()

    def died(self, pen: OpenLedger, error: MagnetarError) -> None:
        self._queue.extendleft(reversed(pen.in_flight))
        pen.in_flight.clear()
        self._deaths += 1
        fenced = isinstance(error, Fenced)
        self._runtime.mark("ledger.fenced" if fenced else "ledger.writer_died", path=self._book.path, error=str(error))
        if fenced or self._deaths > LEDGER_DEATHS_MAX:
            self.abandon(error)
            return
        log.warning("ledger_writer_failed", path=self._book.path, ledger=pen.writer.ledger, error=str(error))
        self._drive()

    # Turning to the next ledger

    def _drive(self) -> None:
        pen = self._pen
        if self._turning or self.refusal is not None:
            return
        if pen is not None and not pen.dead and not pen.full:
            self._send_queued(pen)
            pen = self._pen
        if pen is None or pen.dead:
            needed = bool(self._queue)
        else:
            needed = pen.full and not pen.in_flight
        if needed:
            self._turning = True
            self._runtime.spawn(self._owner, self._turn())

    async def _turn(self, *, ahead: bool = False) -> None:
        try:
            async with self._lock:
                if self.refusal is None:
                    await self._roll(ahead)
        except MagnetarError as error:
            log.error("topic_recovery_failed", path=self._book.path, error=str(error))
            self.abandon(error)
        except BaseException:
            self.abandon(
                Closed("the topic was closed during a ledger rollover: look it up again", path=self._book.path)
            )
            raise
        finally:
            self._turning = False
        self._drive()

    async def _roll(self, ahead: bool) -> None:
        old, writer = self._pen, None
        try:
            if self._queue or ahead:
                writer = await self._ledgers.create(self._custom, self.quorum)
            await self._retire(writer)
        except Unavailable as error:
            if writer is not None:
                await self._delete(writer.ledger)  # nothing happened: it is in no record
            if ahead and not self._queue:
                return  # the first run tries again
            if old is None or old.dead:
                raise
            self._runtime.mark("ledger.roll_put_off", path=self._book.path)
            log.warning("ledger_roll_postponed", path=self._book.path, error=str(error))
            old.full = False
            old.kept_until = self._runtime.monotonic() + LEDGER_ROLL_RETRY_S

    async def _retire(self, writer: Writer | None) -> None:
        """Close the ledger that is written, in the record first, and go on with this writer."""
        old = self._pen
        await self._book.commit(self._ended(old, writer))
        self._pen = None if writer is None else self._new_pen(writer)
        if self._pen is not None:
            self._send_queued(self._pen)
        if old is not None:
            await self._put_down(old)

    async def _seal(self, properties: Mapping[str, str] | None) -> None:
        old, chain = self._pen, self._book.chain
        end = chain.last if chain.entries else chain.floor or BEFORE_ALL
        try:
            await self._book.commit(
                self._ended(old, None),
                terminated=end,
                properties=None if properties is None else {**self._book.properties, **properties},
            )
        except Unavailable:
            raise  # nothing happened: the topic goes on
        except BaseException as error:
            # It may be durable: no run may be acknowledged behind it (H-A8).
            self.abandon(error if isinstance(error, MagnetarError) else Closed("interrupted while terminating"))
            raise
        self._pen = None
        self.refusal = _sealed(self._book)
        if old is not None:  # closed later: the caller has others waiting, and the next write would wait for this one
            old.dead = True
            self._over = old

    def _new_pen(self, writer: Writer) -> OpenLedger:
        config = self._config
        limits = Limits(config.entries_max, config.bytes_max, config.age_max_s)
        return OpenLedger(self, writer, limits, self._runtime.monotonic)

    def _ended(self, old: OpenLedger | None, writer: Writer | None) -> Change:
        def change(links: list[LedgerSpan]) -> list[LedgerSpan]:
            if old is not None:
                last = links.pop()
                assert last.ledger == old.writer.ledger
                if last.entries:
                    before_ms = links[-1].closed_ms if links else 0  # a clock that was set back makes nothing older
                    links.append(last.closed(max(before_ms, self._clock.now_ms())))
            return links if writer is None else [*links, LedgerSpan(writer.ledger)]

        return change

    async def _put_down_over(self) -> None:
        over, self._over = self._over, None
        if over is not None:
            await self._put_down(over)

    async def _put_down(self, pen: OpenLedger) -> None:
        """The record says where this ledger ends; what is left to do can also be done by others."""
        pen.dead = True
        if self._book.chain.link(pen.writer.ledger) is None:
            await self._delete(pen.writer.ledger)
            return
        try:
            await pen.writer.close()
        except MagnetarError as error:
            log.warning("ledger_close_failed", path=self._book.path, ledger=pen.writer.ledger, error=str(error))

    async def _delete(self, ledger: int) -> None:
        try:
            await self._ledgers.delete(ledger)
        except MagnetarError as error:
            log.warning("ledger_deletion_failed", path=self._book.path, ledger=ledger, error=str(error))

    def _send_queued(self, pen: OpenLedger) -> None:
        while self._queue and not pen.full and not pen.dead:
            pen.send(*self._queue.popleft())

    # Waiting

    async def _quiet(self) -> None:
        while self.pending and self.refusal is None:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def _wake(self) -> None:
        if self.pending and self.refusal is None:
            return
        waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _open_gate(self) -> None:
        if self._gates or not self._late:
            return
        if self.refusal is not None:
            late, self._late = self._late, deque()
            for run, done in late:
                done(run, self.refusal)
            return
        self._queue.extend(self._late)
        self._late.clear()
        self._drive()

    def _check(self) -> None:
        if self.refusal is not None:
            raise self.refusal


def _sealed(book: LedgerRecord) -> Sealed:
    return Sealed("the topic is terminated", path=book.path, end=book.terminated)

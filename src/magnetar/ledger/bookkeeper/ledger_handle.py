"""The writer of one open ledger: carries out what its state machine decides.

The frame of an entry is made once and repeated byte for byte for every bookie, because bookies differ in which of two
versions they keep. The metadata of a changed ensemble are written before its first add. Callbacks come in the order of
the entries, on the loop, never inside `append`. The first failure is final: every later entry fails with the same
error, and the caller goes on in a new ledger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

from magnetar.base.errors import (
    BadVersion,
    Closed,
    Corrupt,
    Fenced,
    LimitExceeded,
    MagnetarError,
    NoSuchLedger,
    NotAuthorized,
    NotEnoughNodes,
    TimedOut,
    Unavailable,
    Unknown,
)
from magnetar.base.limits import BOOKKEEPER_METADATA_RETRY_S, BOOKKEEPER_METADATA_S, BOOKKEEPER_REPLACE_RETRY_S
from magnetar.ledger.bookkeeper import wire, write_state
from magnetar.ledger.bookkeeper.bookies import Bookies, error_of
from magnetar.ledger.bookkeeper.catalog import LedgerCatalog
from magnetar.ledger.bookkeeper.config import BookKeeperConfig
from magnetar.ledger.bookkeeper.digest import Digest, master_key
from magnetar.ledger.bookkeeper.ledger_metadata import LedgerMetadata, State
from magnetar.ledger.bookkeeper.wire import Code, Response
from magnetar.ledger.bookkeeper.write_state import Phase, WriteState
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime

log = get("bookkeeper")

Done: TypeAlias = Callable[[int, MagnetarError | None], None]  # (entry, or -1 with the error)


class Services(NamedTuple):
    """Shared by the handles of one client."""

    catalog: LedgerCatalog
    bookies: Bookies
    runtime: Runtime
    config: BookKeeperConfig


class Unacknowledged(NamedTuple):
    frame: bytes
    done: Done

    def __repr__(self) -> str:
        return f"Unacknowledged({len(self.frame)} bytes)"


class LedgerHandle:
    def __init__(
        self, ledger: int, metadata: LedgerMetadata, version: int, services: Services, ended: Callable[[], object]
    ) -> None:
        """`ended` is called when the writer ends, sealed or not."""
        self.ledger = ledger
        self.state = WriteState(metadata)
        self._metadata = metadata
        self._version = version
        self._ended = ended
        self._catalog, self._bookies, self._runtime, config = services
        self._digest = Digest(ledger, metadata.digest, metadata.password)
        self._key = master_key(metadata.password)
        self.entry_bytes_max = config.frame_bytes_max - wire.ADD_OVERHEAD - self._digest.overhead
        self._entries: dict[int, Unacknowledged] = {}  # in order
        self._error: MagnetarError | None = None
        self._owner = Owner("bookkeeper")
        self._writing = asyncio.Lock()  # of the metadata
        self._retry: asyncio.TimerHandle | None = None

    @property
    def metadata(self) -> LedgerMetadata:
        """As this writer wrote them last."""
        return self._metadata

    @property
    def lac(self) -> int:
        return self.state.lac

    @property
    def length(self) -> int:
        """Bytes of the payloads that are acknowledged."""
        return self.state.length

    def append(self, payload: bytes, done: Done) -> int:
        """The number of the new entry; -1: the ledger takes none any more, and `done` gets the reason."""
        if len(payload) > self.entry_bytes_max:
            raise LimitExceeded(
                "the entry is larger than a frame of the bookies: raise nettyMaxFrameSizeBytes there",
                bytes=len(payload),
                bytes_max=self.entry_bytes_max,
            )
        if self._error is not None:
            asyncio.get_running_loop().call_soon(done, -1, self._error)
            return -1
        entry, length = self.state.add(len(payload))
        frame = wire.add(self._key, self._digest.head(entry, self.state.lac, length, payload), payload)
        self._entries[entry] = Unacknowledged(frame, done)
        for bookie in self.state.targets(entry):
            self._send(entry, bookie)
        self._perform(self.state.due())
        return entry

    async def close(self) -> None:
        """Seals at the last acknowledged entry. Fenced: another client recovers or recovered the ledger."""
        if self.state.phase is Phase.CLOSED:
            return
        error = self._error
        self.state.close()
        self._fail(Closed("the ledger was closed", ledger=self.ledger))
        try:
            if isinstance(error, Fenced):
                raise error
            async with self._writing:
                await self._write(lambda: self._metadata.closed(self.lac, self.length))
        finally:
            await self.abandon()

    async def abandon(self) -> None:
        """Ends without a seal, as a killed process does. A recovery seals the ledger."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        self.state.die()
        self._fail(Closed("the writer of the ledger ended", ledger=self.ledger))
        await self._owner.close()
        self._ended()

    # Entries

    def _send(self, entry: int, bookie: str) -> None:
        frame = self._entries[entry].frame
        self._bookies.add(bookie, self.ledger, entry, frame, partial(self._answered, bookie, entry))

    def _answered(self, bookie: str, entry: int, response: Response | None, error: MagnetarError | None) -> None:
        if self._error is not None:
            return
        if response is None:
            assert error is not None
            self._bookie_failed(bookie, error)
        elif response.code == Code.OK:
            self._perform(self.state.stored(bookie, entry))
        elif response.code == Code.FENCED:
            self._die(Fenced("another client recovers the ledger", ledger=self.ledger, bookie=bookie, wire_code=6))
        else:
            refusal = error_of(response.code, bookie, self.ledger, entry)
            if isinstance(refusal, NotAuthorized):
                self._die(refusal)
            else:
                self._bookie_failed(bookie, refusal)

    def _bookie_failed(self, bookie: str, error: MagnetarError) -> None:
        if bookie in self.state.ensemble:
            log.warning("bookie_failed", bookie=bookie, ledger=self.ledger, error=str(error))
            self._bookies.failed(bookie)
        self._perform(self.state.failed(bookie))

    def _perform(self, effects: list[write_state.Effect]) -> None:
        for effect in effects:
            match effect:
                case write_state.Acknowledge(last):
                    self._acknowledge(last)
                case write_state.Send(entry, bookie):
                    if entry in self._entries:
                        self._send(entry, bookie)
                case write_state.ChangeEnsemble(positions):
                    self._runtime.spawn(self._owner, self._change(positions))
                case write_state.Starve():
                    self._die(NotEnoughNodes("too few bookies store entries of the ledger", ledger=self.ledger))

    def _acknowledge(self, last: int) -> None:
        while self._entries:
            entry = next(iter(self._entries))
            if entry > last:
                return
            self._entries.pop(entry).done(entry, None)

    def _die(self, error: MagnetarError) -> None:
        log.warning("ledger_writer_failed", ledger=self.ledger, error=str(error))
        self.state.die()
        self._fail(error)

    def _fail(self, error: MagnetarError) -> None:
        if self._error is None:
            self._error = error
        entries, self._entries = self._entries, {}
        for unacknowledged in entries.values():
            unacknowledged.done(-1, self._error)

    # Metadata

    async def _change(self, positions: tuple[int, ...]) -> None:
        """One ensemble change, from the choice of bookies to the machine's answer."""
        try:
            async with self._writing:
                new = await self._bookies.replacements(self._metadata.quorum, self.state.ensemble, positions)
                if self.state.phase is not Phase.CHANGING:
                    return
                if self.state.proposal(new) != self.state.segments:
                    await self._write(lambda: self._metadata.with_segments(self.state.proposal(new)))
                log.info("ledger_ensemble_changed", ledger=self.ledger, positions=positions, bookies=list(new.values()))
                self._perform(self.state.changed(new))
        except MagnetarError as error:
            if self.state.phase is Phase.CHANGING:
                self._die(error)
            return
        if self.state.has_vacancies and self._retry is None:
            self._retry = asyncio.get_running_loop().call_later(BOOKKEEPER_REPLACE_RETRY_S, self._look_again)

    def _look_again(self) -> None:
        self._retry = None
        self._perform(self.state.retry())
        if self.state.has_vacancies and self._error is None:
            self._retry = asyncio.get_running_loop().call_later(BOOKKEEPER_REPLACE_RETRY_S, self._look_again)

    async def _write(self, build: Callable[[], LedgerMetadata]) -> None:
        """Compare-and-set until the answer is known. Fenced: the ledger is not open any more."""
        end = self._runtime.monotonic() + BOOKKEEPER_METADATA_S
        doubtful = False  # whether an earlier try of ours may have happened
        while True:
            metadata = build()
            try:
                self._version = await self._catalog.replace(self.ledger, metadata, self._version)
                break
            except BadVersion:
                stored = await self._read_metadata(end)
                if doubtful and stored == metadata:
                    break
                self._rebase(stored)
            except (Unavailable, Unknown) as error:
                doubtful = doubtful or isinstance(error, Unknown)
                await self._pause(end, error)
        self._metadata = metadata

    async def _read_metadata(self, end: float) -> LedgerMetadata:
        """After a lost compare-and-set."""
        while True:
            try:
                stored, self._version = await self._catalog.read(self.ledger)
            except NoSuchLedger:
                raise Fenced("the ledger was deleted while it was written", ledger=self.ledger, wire_code=6) from None
            except (Unavailable, Unknown) as error:
                await self._pause(end, error)
            else:
                return stored

    def _rebase(self, stored: LedgerMetadata) -> None:
        """Another client changed the metadata: an older segment at most, or the ledger is not ours any more."""
        if stored.state is not State.OPEN:
            raise Fenced(
                "another client recovered the ledger", ledger=self.ledger, state=stored.state.name, wire_code=6
            )
        if not self.state.rebase(stored.segments):
            raise Corrupt("another client changed the ensemble of an open ledger", ledger=self.ledger)
        self._metadata = stored

    async def _pause(self, end: float, error: MagnetarError) -> None:
        if self._runtime.monotonic() >= end:
            what = "the metadata store did not take a change of the ledger in time"
            raise TimedOut(what, ledger=self.ledger, timeout_s=BOOKKEEPER_METADATA_S) from error
        await asyncio.sleep(BOOKKEEPER_METADATA_RETRY_S)

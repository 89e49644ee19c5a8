"""The recovery of one ledger: fences its bookies, stores the entries again that may be acknowledged, and seals it.

It carries out what `RecoveryState` decides. Entries are stored again byte for byte as they were read. A bookie that
fails during the recovery is replaced in memory only; the last compare-and-set writes the segments together with the
end. Of several recoveries at the same time one seals the ledger, and the others take its end.
"""

from __future__ import annotations

import asyncio
from functools import partial

from magnetar.base.errors import BadVersion, Busy, Corrupt, MagnetarError, NotEnoughNodes, NotReady
from magnetar.base.limits import BOOKKEEPER_RECOVERY_AHEAD_ENTRIES, BOOKKEEPER_RECOVERY_TRIES_MAX
from magnetar.ledger.bookkeeper import recovery_state, wire, write_state
from magnetar.ledger.bookkeeper.bookies import error_of
from magnetar.ledger.bookkeeper.digest import NO_ENTRY, Digest, Entry, master_key
from magnetar.ledger.bookkeeper.entry_reads import EntryReads
from magnetar.ledger.bookkeeper.ledger_handle import Services
from magnetar.ledger.bookkeeper.ledger_metadata import LedgerMetadata, State
from magnetar.ledger.bookkeeper.recovery_state import RecoveryState
from magnetar.ledger.bookkeeper.wire import Code, Response
from magnetar.ledger.bookkeeper.write_state import WriteState
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner

log = get("bookkeeper")


async def recover(ledger: int, services: Services) -> LedgerMetadata:
    """The metadata of the sealed ledger. NoSuchLedger. NotReady: too few bookies answer; a later call may succeed."""
    catalog = services.catalog
    for _ in range(BOOKKEEPER_RECOVERY_TRIES_MAX):
        metadata, version = await catalog.read(ledger)
        if metadata.is_closed:
            return metadata
        try:
            if metadata.state is not State.IN_RECOVERY:
                metadata = metadata.in_recovery()
                version = await catalog.replace(ledger, metadata, version)
            sealed = await Recovery(ledger, metadata, services).run()
            await catalog.replace(ledger, sealed, version)
        except BadVersion:
            continue  # another recovery was faster, or the old writer changed its ensemble
        log.info("ledger_recovered", ledger=ledger, last_entry=sealed.last_entry)
        return sealed
    raise Busy("other clients change the ledger during every recovery: try again", ledger=ledger)


class Recovery:
    """One try, over the metadata as they are."""

    def __init__(self, ledger: int, metadata: LedgerMetadata, services: Services) -> None:
        self._ledger = ledger
        self._metadata = metadata
        self._services = services
        self._state = RecoveryState(metadata, BOOKKEEPER_RECOVERY_AHEAD_ENTRIES)
        self._writes: WriteState | None = None
        self._digest = Digest(ledger, metadata.digest, metadata.password)
        self._key = master_key(metadata.password)
        self._owner = Owner("bookkeeper")
        self._found: dict[int, Entry] = {}
        self._bodies: dict[int, bytes] = {}  # of found entries, as they were read
        self._frames: dict[int, bytes] = {}  # of kept entries that are not stored on enough bookies yet
        self._end: int | None = None
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def run(self) -> LedgerMetadata:
        try:
            self._follow(self._state.begin())
            await self._done
        finally:
            await self._owner.close()
        writes = self._writes
        assert writes is not None
        assert self._end == writes.lac
        length = writes.length
        if writes.lac == self._state.lac != NO_ENTRY:  # nothing was kept: the length is in the last entry
            length = (await EntryReads(self._ledger, self._metadata, self._services).entry(writes.lac)).length
        return self._metadata.with_segments(writes.segments).closed(writes.lac, length)

    # Effects of the recovery

    def _follow(self, effects: list[recovery_state.Effect]) -> None:
        for effect in effects:
            match effect:
                case recovery_state.Fence(bookie):
                    self._services.runtime.spawn(self._owner, self._fence(bookie))
                case recovery_state.Begin(lac):
                    self._writes = WriteState(self._metadata, lac=lac)
                case recovery_state.ReadFenced(entry, bookie):
                    self._services.runtime.spawn(self._owner, self._read(entry, bookie))
                case recovery_state.Keep(entry):
                    self._keep(entry)
                case recovery_state.End(last):
                    self._end = last
                case recovery_state.GiveUp(entry):
                    self._fail(NotReady("too few bookies of the ledger answer", ledger=self._ledger, entry=entry))
        self._finish()

    async def _fence(self, bookie: str) -> None:
        try:
            response = await self._ask(bookie, NO_ENTRY)
            lac = NO_ENTRY if response is None else self._digest.check(response.body).lac
        except MagnetarError as error:
            self._refused(bookie, error)
            self._follow(self._state.not_fenced(bookie))
            return
        self._follow(self._state.fenced(bookie, lac))

    async def _read(self, entry: int, bookie: str) -> None:
        try:
            response = await self._ask(bookie, entry)
            checked = None if response is None else self._digest.check(response.body, entry)
        except MagnetarError as error:
            self._refused(bookie, error)
            self._follow(self._state.failed(bookie, entry))
            return
        if response is None or checked is None:
            self._follow(self._state.absent(bookie, entry))
            return
        if entry not in self._found:
            self._found[entry], self._bodies[entry] = checked, response.body
        self._follow(self._state.found(bookie, entry))

    async def _ask(self, bookie: str, entry: int) -> Response | None:
        """A read with the fence flag. None: the bookie does not have the entry, and is fenced."""
        response = await self._services.bookies.read(bookie, self._ledger, entry, self._key)
        if response.code in wire.ABSENT:
            return None
        if response.code != Code.OK:
            raise error_of(response.code, bookie, self._ledger, entry)
        return response

    def _refused(self, bookie: str, error: MagnetarError) -> None:
        log.warning("bookie_not_recovered", bookie=bookie, ledger=self._ledger, error=str(error))
        if not isinstance(error, Corrupt):
            self._services.bookies.failed(bookie)

    # Storing again

    def _keep(self, number: int) -> None:
        writes = self._writes
        assert writes is not None
        entry = self._found.pop(number)
        body = self._bodies.pop(number)
        head = self._digest.overhead
        self._frames[number] = wire.add(self._key, body[:head], body[head:], recovery=True)
        added, _ = writes.add_stored(entry.length)
        assert added == number
        for bookie in writes.targets(number):
            self._send(number, bookie)
        self._perform(writes.due())

    def _send(self, entry: int, bookie: str) -> None:
        answered = partial(self._stored, bookie, entry)
        self._services.bookies.add(bookie, self._ledger, entry, self._frames[entry], answered)

    def _stored(self, bookie: str, entry: int, response: Response | None, error: MagnetarError | None) -> None:
        writes = self._writes
        if writes is None or self._done.done():
            return
        if response is not None and response.code == Code.OK:
            self._perform(writes.stored(bookie, entry))
            return
        self._services.bookies.failed(bookie)
        self._perform(writes.failed(bookie))

    def _perform(self, effects: list[write_state.Effect]) -> None:
        for effect in effects:
            match effect:
                case write_state.Acknowledge(last):
                    for entry in [entry for entry in self._frames if entry <= last]:
                        del self._frames[entry]
                case write_state.Send(entry, bookie):
                    if entry in self._frames:
                        self._send(entry, bookie)
                case write_state.ChangeEnsemble(positions):
                    self._services.runtime.spawn(self._owner, self._change(positions))
                case write_state.Starve():
                    self._fail(NotEnoughNodes("too few bookies store the end of the ledger", ledger=self._ledger))
        self._finish()

    async def _change(self, positions: tuple[int, ...]) -> None:
        writes = self._writes
        assert writes is not None
        try:
            new = await self._services.bookies.replacements(self._metadata.quorum, writes.ensemble, positions)
        except MagnetarError as error:
            self._fail(error)
            return
        self._perform(writes.changed(new))

    def _finish(self) -> None:
        if self._done.done() or self._end is None or self._writes is None:
            return
        if self._writes.lac == self._end:
            self._done.set_result(None)

    def _fail(self, error: MagnetarError) -> None:
        if not self._done.done():
            self._done.set_exception(error)

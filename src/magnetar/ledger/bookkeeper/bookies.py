"""The bookies of a cluster: which are writable, where they listen, which of them failed lately; and their connections.

The list of bookies is read when a ledger needs some and the last list is old, so the broker does not hear of every
ledger below the same root. A bookie has one connection for adds and one for reads: a slow disk under reads does not end
the adds in flight.
"""

from __future__ import annotations

import asyncio

from magnetar.base.errors import Corrupt, MagnetarError, NotAuthorized, NotEnoughNodes, NotReady, Unavailable, Unknown
from magnetar.base.limits import BOOKKEEPER_BOOKIES_AGE_S
from magnetar.ledger.bookkeeper import placement, wire
from magnetar.ledger.bookkeeper.config import BookKeeperConfig
from magnetar.ledger.bookkeeper.connection import Answered, BookieConnection
from magnetar.ledger.bookkeeper.placement import Candidates, Quarantine
from magnetar.ledger.bookkeeper.registration import Address, address_of, address_of_id, racks_of
from magnetar.ledger.bookkeeper.wire import Code, Operation, Response
from magnetar.ledger.store import Quorum
from magnetar.metadata import paths
from magnetar.metadata.store import MetadataStore
from magnetar.runtime.runtime import Runtime

READ_ONLY = "readonly"  # the parent of the others, beside the writable ones


class Bookies:
    def __init__(self, store: MetadataStore, runtime: Runtime, config: BookKeeperConfig) -> None:
        self._store = store
        self._runtime = runtime
        self._config = config
        self._rng = runtime.rng("bookkeeper")
        self._quarantine = Quarantine()
        self._writable: list[str] = []
        self._racks: dict[str, str] = {}
        self._read_at: float | None = None
        self._adding: dict[str, BookieConnection] = {}
        self._reading: dict[str, BookieConnection] = {}
        self._batches: dict[str, bool] = {}  # whether the bookie knows batch reads, once that is known
        self._request = 0

    # The list

    async def ensemble(self, quorum: Quorum) -> tuple[str, ...]:
        """Bookies for a new ledger. NotEnoughNodes: the cluster has too few."""
        if len(await self._current()) < quorum.ensemble:
            self._read_at = None
            await self._current()
        try:
            return placement.ensemble(self._candidates(), quorum, self._rng.choice)
        except NotEnoughNodes:
            self._read_at = None
            raise

    async def replacements(
        self, quorum: Quorum, current: tuple[str, ...], positions: tuple[int, ...]
    ) -> dict[int, str]:
        """Bookies for the positions of an ensemble; fewer than positions if the cluster has fewer."""
        self._read_at = None
        try:
            await self._current()
        except (Unavailable, Unknown):
            if not self._writable:
                raise  # else the last list: the metadata store may be back when the change is written
        return placement.replacements(self._candidates(), quorum, current, positions, self._rng.choice)

    async def address(self, bookie: str) -> Address:
        """Where a bookie listens, writable or not."""
        for parent in (paths.bookies(self._config.root), paths.bookies_readonly(self._config.root)):
            node = await self._store.get(f"{parent}/{bookie}")
            if node is not None:
                return address_of(bookie, node.value)
        try:
            return address_of_id(bookie)
        except Corrupt:
            raise NotReady("the bookie is not registered", bookie=bookie) from None

    def quarantined(self) -> frozenset[str]:
        return self._quarantine.members(self._runtime.monotonic())

    def failed(self, bookie: str) -> None:
        self._quarantine.add(bookie, self._runtime.monotonic())

    def _candidates(self) -> Candidates:
        return Candidates(self._writable, self._racks, self.quarantined())

    async def _current(self) -> list[str]:
        now = self._runtime.monotonic()
        if self._read_at is None or now - self._read_at >= BOOKKEEPER_BOOKIES_AGE_S:
            names = await self._store.children(paths.bookies(self._config.root))
            racks = await self._store.get(paths.BOOKIE_RACKS)
            self._writable = [name for name in names if name != READ_ONLY]
            self._racks = {} if racks is None else racks_of(racks.value)
            self._read_at = now
        return self._writable

    # Requests

    def add(self, bookie: str, ledger: int, entry: int, frame: bytes, answered: Answered) -> None:
        self._connection(self._adding, bookie).send((Operation.ADD, ledger, entry), frame, answered)

    async def read(self, bookie: str, ledger: int, entry: int, fence_key: bytes | None = None) -> Response:
        frame = wire.read(ledger, entry, fence_key)
        return await self._ask(bookie, (Operation.READ, ledger, entry), frame)

    async def batch_read(self, bookie: str, ledger: int, first: int, *, entries_max: int, bytes_max: int) -> Response:
        self._request += 1
        frame = wire.batch_read(ledger, first, self._request, entries_max=entries_max, bytes_max=bytes_max)
        return await self._ask(bookie, (Operation.BATCH_READ, ledger, self._request), frame)

    def batches(self, bookie: str) -> bool | None:
        """Whether the bookie knows batch reads; None: not known yet."""
        return self._batches.get(bookie)

    def know_batches(self, bookie: str, supported: bool) -> None:
        self._batches[bookie] = supported

    async def _ask(self, bookie: str, key: tuple[int, int, int], frame: bytes) -> Response:
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

        def answered(response: Response | None, error: MagnetarError | None) -> None:
            if answer.done():
                return
            if response is None:
                assert error is not None
                answer.set_exception(error)
            else:
                answer.set_result(response)

        self._connection(self._reading, bookie).send(key, frame, answered)
        return await answer

    def _connection(self, connections: dict[str, BookieConnection], bookie: str) -> BookieConnection:
        connection = connections.get(bookie)
        if connection is None:
            connection = connections[bookie] = BookieConnection(bookie, self.address, self._runtime, self._config)
        return connection

    async def close(self) -> None:
        for connection in [*self._adding.values(), *self._reading.values()]:
            await connection.close()


def error_of(code: int, bookie: str, ledger: int, entry: int) -> MagnetarError:
    """The error of an answer that is neither success nor absence nor a fence."""
    if code == Code.UNAUTHORIZED:
        return NotAuthorized("the password of the ledger is wrong", bookie=bookie, ledger=ledger)
    name = Code(code).name if code in Code._value2member_map_ else str(code)
    return NotReady("a bookie refused a request", bookie=bookie, ledger=ledger, entry=entry, code=name)

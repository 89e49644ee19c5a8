"""The connection to one bookie: matching of answers, the timer, bounds, and redialling."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from magnetar.base.errors import Busy, Closed, ConnectionLost, MagnetarError, NotReady, TimedOut
from magnetar.base.limits import BOOKKEEPER_PENDING_BYTES_MAX, BOOKKEEPER_REDIAL_S_MAX
from magnetar.ledger.bookkeeper import wire
from magnetar.ledger.bookkeeper.connection import BookieConnection
from magnetar.ledger.bookkeeper.digest import Digest, DigestType, master_key
from magnetar.ledger.bookkeeper.registration import Address
from magnetar.ledger.bookkeeper.wire import Code, Operation, Response
from simulation.environment.loop import pass_time
from simulation.stores.bookie import FakeBookie
from tests.support.bookkeeper import Cluster, run_cluster

KEY = master_key(b"")
DIGEST = Digest(1, DigestType.CRC32C, b"")


@dataclass
class Calls:
    """The answers of one connection, in their order."""

    connection: BookieConnection
    responses: list[Response] = field(default_factory=list)
    errors: list[MagnetarError] = field(default_factory=list)

    def add(self, entry: int, payload: bytes = b"payload") -> None:
        frame = wire.add(KEY, DIGEST.head(entry, -1, len(payload), payload), payload)
        self.connection.send((Operation.ADD, 1, entry), frame, self._answered)

    def read(self, entry: int, *, fence: bool = False) -> None:
        self.connection.send((Operation.READ, 1, entry), wire.read(1, entry, KEY if fence else None), self._answered)

    def _answered(self, response: Response | None, error: MagnetarError | None) -> None:
        if error is not None:
            self.errors.append(error)
        else:
            assert response is not None
            self.responses.append(response)

    @property
    def count(self) -> int:
        return len(self.responses) + len(self.errors)


def calls(cluster: Cluster) -> tuple[Calls, FakeBookie]:
    bookie = next(iter(cluster.bookies.values()))

    async def address(name: str) -> Address:
        return bookie.address

    return Calls(BookieConnection(bookie.id, address, cluster.runtime, cluster.config)), bookie


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_many_requests_in_flight_get_their_answers(seed: int | None) -> None:
    async def body(cluster: Cluster) -> None:
        mine, _ = calls(cluster)
        for entry in range(100):
            mine.add(entry)
        assert mine.count == 0
        await cluster.until(lambda: mine.count == 100)
        assert [response.entry for response in mine.responses] == list(range(100))
        assert (mine.connection.pending, mine.connection.pending_bytes) == (0, 0)
        await mine.connection.close()

    run_cluster(body, seed=seed)


def test_equal_requests_are_sent_one_after_other() -> None:
    async def body(cluster: Cluster) -> None:
        mine, bookie = calls(cluster)
        mine.add(0)
        await cluster.until(lambda: mine.count == 1)
        bookie.faults.delay_s = 1.0
        mine.read(0)
        mine.read(0, fence=True)
        mine.read(0)
        await pass_time(0.5)
        assert bookie.requests[Operation.READ] == 1
        assert bookie.fencing_reads == 0
        await cluster.until(lambda: mine.count == 4)
        assert bookie.fencing_reads == 1
        await mine.connection.close()

    run_cluster(body)


def test_request_without_answer_ends_connection() -> None:
    async def body(cluster: Cluster) -> None:
        mine, bookie = calls(cluster)
        mine.add(0)
        await cluster.until(lambda: mine.count == 1)
        bookie.faults.silent = True
        began = cluster.loop.time()
        mine.add(1)
        await pass_time(1.0)
        mine.add(2)
        await cluster.until(lambda: mine.count == 3)
        assert cluster.loop.time() - began == pytest.approx(cluster.config.request_s, abs=0.1)
        assert [type(error) for error in mine.errors] == [TimedOut, TimedOut]
        bookie.faults.silent = False
        mine.add(1)
        await cluster.until(lambda: mine.count == 4)
        assert mine.responses[-1].entry == 1
        await mine.connection.close()

    run_cluster(body)


def test_timer_does_not_end_connection_with_answers() -> None:
    async def body(cluster: Cluster) -> None:
        mine, bookie = calls(cluster)
        bookie.faults.delay_s = cluster.config.request_s * 0.9
        for entry in range(20):
            mine.add(entry)
            await pass_time(1.0)
        await cluster.until(lambda: mine.count == 20)
        assert not mine.errors
        await mine.connection.close()

    run_cluster(body)


def test_broken_connection_fails_requests_in_flight_in_order() -> None:
    async def body(cluster: Cluster) -> None:
        mine, bookie = calls(cluster)
        mine.add(0)
        await cluster.until(lambda: mine.count == 1)
        bookie.faults.silent = True
        for entry in range(1, 4):
            mine.add(entry)
        await pass_time(0.1)
        bookie.cut()
        await cluster.until(lambda: mine.count == 4)
        assert [type(error) for error in mine.errors] == [ConnectionLost] * 3
        bookie.faults.silent = False
        mine.add(4)
        await cluster.until(lambda: len(mine.responses) == 2)
        await mine.connection.close()

    run_cluster(body)


def test_refusing_address_is_dialled_after_back_off() -> None:
    async def body(cluster: Cluster) -> None:
        mine, bookie = calls(cluster)
        bookie.crash()
        mine.add(0)
        await cluster.until(lambda: mine.count == 1)
        assert isinstance(mine.errors[0], NotReady)
        await bookie.start()
        mine.add(1)
        await cluster.until(lambda: mine.count == 2)
        assert isinstance(mine.errors[1], NotReady)
        await pass_time(BOOKKEEPER_REDIAL_S_MAX)
        mine.add(2)
        await cluster.until(lambda: mine.count == 3)
        assert [response.entry for response in mine.responses] == [2]
        await mine.connection.close()

    run_cluster(body)


def test_bytes_in_flight_are_bounded() -> None:
    async def body(cluster: Cluster) -> None:
        mine, bookie = calls(cluster)
        bookie.faults.silent = True
        payload = bytes(4 * 1024 * 1024)
        fit = BOOKKEEPER_PENDING_BYTES_MAX // len(payload)
        for entry in range(fit + 1):
            mine.add(entry, payload)
        await asyncio.sleep(0)
        assert [type(error) for error in mine.errors] == [Busy, Busy]
        assert mine.connection.pending_bytes <= BOOKKEEPER_PENDING_BYTES_MAX
        await mine.connection.close()

    run_cluster(body)


def test_close_fails_requests() -> None:
    async def body(cluster: Cluster) -> None:
        mine, _ = calls(cluster)
        mine.add(0)
        await mine.connection.close()
        mine.add(1)
        await pass_time(0.1)
        assert [type(error) for error in mine.errors] == [Closed, Closed]

    run_cluster(body)


def test_frame_above_limit_of_bookie_breaks_connection() -> None:
    async def body(cluster: Cluster) -> None:
        mine, bookie = calls(cluster)
        bookie.frame_bytes_max = 1_000
        mine.add(0, bytes(2_000))
        await cluster.until(lambda: mine.count == 1)
        assert isinstance(mine.errors[0], ConnectionLost)
        await mine.connection.close()

    run_cluster(body)


def test_answers_carry_codes_of_bookie() -> None:
    async def body(cluster: Cluster) -> None:
        mine, _ = calls(cluster)
        mine.read(5)
        mine.read(6, fence=True)
        mine.read(7)
        await cluster.until(lambda: mine.count == 3)
        codes = {response.entry: response.code for response in mine.responses}
        assert codes == {5: Code.NO_LEDGER, 6: Code.NO_ENTRY, 7: Code.NO_ENTRY}
        await mine.connection.close()

    run_cluster(body)

"""The simulated network when nothing is broken: what TCP promises is kept."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from simulation.environment.loop import NoProgress, VirtualLoop, pass_time
from simulation.environment.network import Network, NetworkConditions
from simulation.environment.runtime import SimulatedRuntime
from tests.sim.small_worlds import MANY, PORT, Pair, Talker, forever

# What TCP promises


@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_in_order_and_whole_however_they_are_cut(seed: int) -> None:
    async def body(pair: Pair) -> None:
        near, far = await pair.connected()
        sent = [bytes([n % 251]) * (n % 37 + 1) for n in range(300)]
        for n, data in enumerate(sent):
            near.transport.write(data)
            if n % 7 == 0:
                await pass_time(0.001)
        near.transport.writelines([b"a", memoryview(b"b"), bytearray(b"c")])
        await pass_time(2)
        assert far.got == b"".join(sent) + b"abc"
        assert far.reads != sent  # some were joined, some cut
        ends = {sum(map(len, far.reads[:n])) for n in range(len(far.reads))}
        assert ends - {sum(map(len, sent[:n])) for n in range(len(sent) + 1)}, "no read ended inside a write"
        assert near.transport.get_extra_info("peername") == ("b", PORT)
        assert far.transport.get_extra_info("peername")[0] == "a"

    Pair(seed, NetworkConditions(split_chance=0.3)).play(body)


def test_reader_that_stops_stops_writer_and_wakes_it_again() -> None:
    async def body(pair: Pair) -> None:
        near, far = await pair.connected()
        near.transport.set_write_buffer_limits(high=1_000, low=100)
        far.transport.pause_reading()
        near.transport.write(bytes(200_000))
        await pass_time(5)
        assert near.told == ["made", "pause"]
        assert far.got == b""
        far.transport.resume_reading()
        await pass_time(5)
        assert near.told == ["made", "pause", "resume"]
        assert len(far.got) == 200_000

    Pair().play(body)


def test_close_sends_all_and_end_of_file_closes_other_side() -> None:
    async def body(pair: Pair) -> None:
        near, far = await pair.connected()
        far.transport.pause_reading()
        near.transport.write(bytes(500_000))
        near.transport.close()
        near.transport.write(b"too late")
        await pass_time(10)
        assert near.told == ["made", "pause"], "ended before all was sent"
        far.transport.resume_reading()
        assert await far.lost is None
        assert await near.lost is None
        assert len(far.got) == 500_000
        assert far.told == ["made", "eof", "lost"]
        assert pair.network.ends == {}

    Pair().play(body)


def test_bytes_after_end_of_file_are_answered_by_reset() -> None:
    async def body(pair: Pair) -> None:
        pair.half = True
        near, far = await pair.connected()
        near.transport.close()
        await pass_time(1)
        assert far.told == ["made", "eof"]
        far.transport.write(b"anybody there?")
        assert isinstance(await far.lost, ConnectionResetError)

    Pair().play(body)


def test_abort_ends_immediately_and_discards_own_buffer() -> None:
    async def body(pair: Pair) -> None:
        near, far = await pair.connected()
        far.transport.pause_reading()
        near.transport.write(bytes(500_000))
        near.transport.abort()
        assert await near.lost is None
        far.transport.resume_reading()
        await far.lost
        assert len(far.got) < 500_000

    Pair().play(body)


def test_error_in_protocol_closes_connection_and_is_recorded() -> None:
    async def body(pair: Pair) -> None:
        near, far = await pair.connected()
        far.data_received = lambda data: {}["no such"]  # type: ignore[method-assign]
        near.transport.write(b"x")
        assert isinstance(await far.lost, KeyError)
        await near.lost
        assert [type(failure.exception) for failure in pair.loop.errors] == [KeyError]
        pair.loop.errors.clear()

    Pair().play(body)


# Connecting


def outcome_of_connecting(pair: Pair, host: str = "b") -> asyncio.Task[Any]:
    async def body() -> str:
        try:
            async with asyncio.timeout(5):
                await asyncio.get_running_loop().create_connection(Talker, host, PORT)
        except OSError as error:
            return type(error).__name__
        return "connected"

    return pair.on_a(body)


def test_nobody_listens_and_no_such_host_are_told_apart() -> None:
    async def body(pair: Pair) -> None:
        pair.b.run(lambda _: forever())
        assert await outcome_of_connecting(pair) == "ConnectionRefusedError"
        assert await outcome_of_connecting(pair, "c") == "gaierror"

    Pair().play(body)


def test_used_address_is_refused_until_owner_dies() -> None:
    async def body(pair: Pair) -> None:
        pair.serve()
        await pass_time(0.1)
        assert pair.b.incarnation is not None

        async def again(runtime: SimulatedRuntime) -> int | None:
            try:
                await asyncio.get_running_loop().create_server(Talker, "0.0.0.0", PORT)
                await asyncio.get_running_loop().create_server(Talker, "0.0.0.0", PORT)
            except OSError as error:
                return error.errno
            return None

        pair.b.kill()
        assert await pair.b.run(again) == errno.EADDRINUSE

    Pair().play(body)


def test_connect_through_cut_either_way_hangs_until_its_own_deadline() -> None:
    async def body(pair: Pair) -> None:
        pair.serve()
        for way in (("a", "b"), ("b", "a")):
            pair.network.cut(*way)
            before = pair.loop.time()
            assert await outcome_of_connecting(pair) == "TimeoutError"
            assert pair.loop.time() == before + 5
            pair.network.heal(*way)
        assert await outcome_of_connecting(pair) == "connected"

    Pair().play(body)


def test_connect_during_cut_completes_when_healed() -> None:
    async def body(pair: Pair) -> None:
        pair.serve()
        pair.network.cut("a", "b")
        trying = outcome_of_connecting(pair)
        await pass_time(3)
        pair.network.heal_all()
        assert await trying == "connected"

    Pair().play(body)


def test_machine_down_refuses_or_is_silent() -> None:
    def outcome(seed: int, *, power: bool) -> Any:
        async def body(pair: Pair) -> Any:
            pair.serve()
            await pass_time(1)
            pair.b.crash() if power else pair.b.kill()
            return await outcome_of_connecting(pair)

        return Pair(seed).play(body)

    assert {outcome(seed, power=True) for seed in MANY} == {"ConnectionRefusedError", "TimeoutError"}
    assert {outcome(seed, power=False) for seed in MANY} == {"ConnectionRefusedError"}


# A world without machines


def test_without_machines_and_streams_everything_is_one_calm_place() -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        accepted: list[Talker] = []
        server = await loop.create_server(
            lambda: accepted.append(Talker()) or accepted[-1],  # type: ignore[func-returns-value]
            "memory",
            0,
            start_serving=False,
        )
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Talker, "memory", port)
        await server.start_serving()
        _, near = await loop.create_connection(Talker, "memory", port)
        near.transport.write(b"a")
        near.transport.write(b"b")
        await pass_time(1)
        assert accepted[0].reads == [b"ab"]
        server.close()
        await server.wait_closed()
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Talker, "memory", port)

    loop = VirtualLoop()
    Network(loop)
    loop.run_until_complete(body())
    loop.close()


def test_stopped_network_tells_nobody_anything() -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        await loop.create_server(Talker, "memory", PORT)
        _, near = await loop.create_connection(Talker, "memory", PORT)
        network.stop()
        near.transport.close()
        await near.lost

    loop = VirtualLoop()
    network = Network(loop)
    with pytest.raises(NoProgress):
        loop.run_until_complete(body())
    loop.close()

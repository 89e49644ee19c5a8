"""The faults of the simulated network: each does what it says and no more."""

from __future__ import annotations

from simulation.environment.loop import pass_time
from tests.sim.small_worlds import MANY, Pair, Talker

# Faults


def test_cut_is_one_way_and_nobody_is_told() -> None:
    async def body(pair: Pair) -> None:
        near, far = await pair.connected()
        pair.network.cut("a", "b")
        near.transport.write(b"lost in the cut")
        far.transport.write(b"hears it")
        await pass_time(600)
        assert (near.got, far.got) == (b"hears it", b"")
        assert near.told == far.told == ["made"]

    Pair().play(body)


def test_healing_delivers_waiting_bytes_or_resets_connection() -> None:
    def outcome(seed: int) -> tuple[bytes, bytes]:
        async def body(pair: Pair) -> tuple[bytes, bytes]:
            near, far = await pair.connected()
            pair.network.cut("a", "b")
            near.transport.write(b"waits")
            await pass_time(10)
            pair.network.heal_all()
            await pass_time(10)
            assert near.told == far.told
            if "ConnectionResetError" not in far.told:
                near.transport.write(b", goes on")
            await pass_time(1)
            return far.told[-1].encode(), far.got

        return Pair(seed).play(body)  # type: ignore[no-any-return]

    assert {outcome(seed) for seed in MANY} == {(b"made", b"waits, goes on"), (b"ConnectionResetError", b"")}


def test_what_is_held_flows_when_released() -> None:
    async def body(pair: Pair) -> None:
        near, far = await pair.connected()
        pair.network.hold("a", "b")
        for n in range(10):
            near.transport.write(bytes([n]))
            await pass_time(1)
        assert far.got == b""
        pair.network.release("a", "b")
        await pass_time(1)
        assert far.got == bytes(range(10))

    Pair().play(body)


def test_held_way_back_keeps_writer_waiting_though_bytes_arrive() -> None:
    async def body(pair: Pair) -> None:
        near, far = await pair.connected()
        pair.network.hold("b", "a")
        near.transport.write(bytes(400_000))
        await pass_time(5)
        assert (len(far.got), near.told) == (400_000, ["made", "pause"])
        pair.network.release("b", "a")
        await pass_time(1)
        assert near.told == ["made", "pause", "resume"]

    Pair().play(body)


def test_lost_connection_is_reset_on_both_sides() -> None:
    async def body(pair: Pair) -> None:
        near, far = await pair.connected()
        near.transport.write(b"gone")
        pair.network.lose("a", "b")
        assert isinstance(await near.lost, ConnectionResetError)
        assert isinstance(await far.lost, ConnectionResetError)
        assert far.got == b""
        assert (await pair.connected_again())[1].told == ["made"]

    class Again(Pair):
        async def connected_again(self) -> tuple[Talker, Talker]:
            self.a.kill()
            return await self.connected()

    Again().play(body)  # type: ignore[arg-type]


def test_half_open_tells_one_side_and_other_when_it_writes() -> None:
    async def body(pair: Pair) -> None:
        near, far = await pair.connected()
        pair.network.half_open("a", "b")
        assert isinstance(await near.lost, ConnectionResetError)
        await pass_time(600)
        assert far.told == ["made"]
        far.transport.write(b"hello?")
        assert far.told == ["made"]
        assert isinstance(await far.lost, ConnectionResetError)

    Pair().play(body)


# The other side of a machine that died


def after_death(seed: int, *, power: bool) -> str:
    """What a connected peer hears: at once, when it writes, or never."""

    async def body(pair: Pair) -> str:
        near, far = await pair.connected()
        far.transport.write(b"0123456789")
        pair.b.crash() if power else pair.b.kill()
        await pass_time(60)
        assert b"0123456789".startswith(near.got)
        assert far.told == ["made"], "the dead were told"
        if len(near.told) > 1:
            return f"at once: {near.told[1]}"
        near.transport.write(b"hello?")
        await pass_time(60)
        if len(near.told) > 1:
            return f"on writing: {near.told[1]}"
        pair.serve()
        await near.lost
        return f"on return: {near.told[1]}"

    return Pair(seed).play(body)  # type: ignore[no-any-return]


def test_peers_of_powerless_machine_notice_at_write_or_return() -> None:
    assert {after_death(seed, power=True) for seed in MANY} == {
        f"{when}: ConnectionResetError" for when in ("at once", "on writing", "on return")
    }


def test_peers_of_killed_process_hear_at_once_from_its_kernel() -> None:
    assert {after_death(seed, power=False) for seed in MANY} == {"at once: eof", "at once: ConnectionResetError"}


def test_partial_write_of_dead_machine_arrives_up_to_any_byte() -> None:
    def arrived(seed: int) -> int:
        async def body(pair: Pair) -> int:
            near, far = await pair.connected()
            far.transport.write(bytes(1_000))
            pair.b.kill()
            await near.lost
            return len(near.got)

        return Pair(seed).play(body)  # type: ignore[no-any-return]

    assert len({arrived(seed) for seed in MANY}) > 5

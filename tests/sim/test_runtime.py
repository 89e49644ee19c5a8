"""The runtime of a simulated machine: lanes that take their time, clocks of its own, chance of its own, marks."""

from __future__ import annotations

import asyncio

import pytest

from simulation.environment.host import Host
from simulation.environment.loop import pass_time
from simulation.environment.runtime import SimulatedRuntime
from tests.sim.small_worlds import MANY, Lab, forever

# Lanes


def test_lane_keeps_its_order_and_knows_nothing_of_another() -> None:
    async def main(runtime: SimulatedRuntime) -> None:
        done: list[int] = []
        began: list[str] = []
        futures = [runtime.offload(lambda n=n: began.append(f"a{n}"), "a") for n in range(5)]  # type: ignore[misc]
        futures += [runtime.offload(lambda n=n: began.append(f"b{n}"), "b") for n in range(5)]  # type: ignore[misc]
        assert began == [], "done inside the call"
        for n, future in enumerate(futures[:5]):
            future.add_done_callback(lambda _, n=n: done.append(n))  # type: ignore[misc]
        await asyncio.gather(*futures)
        assert done == [0, 1, 2, 3, 4]
        assert sorted(began) == [f"{lane}{n}" for lane in "ab" for n in range(5)]
        assert [one for one in began if one[0] == "b"] == [f"b{n}" for n in range(5)]
        orders.add(tuple(one[0] for one in began))

    orders: set[tuple[str, ...]] = set()
    for seed in range(5):
        lab = Lab(seed)
        lab.play(lambda lab=lab: lab.host.run(main))  # type: ignore[misc]
        assert lab.loop.errors == []
    assert len(orders) > 1


def test_exception_of_work_reaches_awaiter_and_thread_continues() -> None:
    async def main(runtime: SimulatedRuntime) -> int:
        with pytest.raises(KeyError):
            await runtime.offload(lambda: {}["x"], "lane")
        with pytest.raises(RuntimeError, match="StopIteration"):
            await runtime.offload(lambda: next(iter(())), "lane")
        dropped = runtime.offload(lambda: done.append(1), "lane")
        dropped.cancel()
        return await runtime.offload(lambda: len(done), "lane")

    done: list[int] = []
    lab = Lab()
    assert lab.play(lambda: lab.host.run(main)) == 1  # done though nobody waits for it any more


def test_crash_finds_unstarted_and_unreported_work() -> None:
    def outcome(seed: int) -> str:
        lab = Lab(seed)

        async def main(runtime: SimulatedRuntime) -> None:
            await runtime.offload(lambda: lab.seen.append("done"), "disk")
            lab.seen.append("heard")
            await forever()

        async def body() -> str:
            lab.host.run(main)
            await pass_time(0.0004)
            lab.host.crash()
            await pass_time(1)
            return ", ".join(lab.seen)

        return lab.play(body)  # type: ignore[no-any-return]

    early = {outcome(seed) for seed in MANY}
    assert early >= {"done", "done, heard"}
    lab = Lab()

    async def main(runtime: SimulatedRuntime) -> None:
        await runtime.offload(lambda: lab.seen.append("done"), "disk")

    async def body() -> None:
        lab.host.run(main)
        await asyncio.sleep(0)
        lab.host.crash()
        await pass_time(1)

    lab.play(body)
    assert lab.seen == []


def test_slow_disk_is_slower() -> None:
    def takes(factor: float) -> float:
        lab = Lab(3)
        lab.host.slow_disk = factor

        async def main(runtime: SimulatedRuntime) -> float:
            for _ in range(20):
                await runtime.offload(lambda: None, "disk")
            return runtime.monotonic()

        return lab.play(lambda: lab.host.run(main))  # type: ignore[no-any-return]

    assert takes(100) > 20 * takes(1)


# Clocks


def test_paused_machine_runs_everything_late_and_in_order() -> None:
    lab = Lab()

    async def main(runtime: SimulatedRuntime) -> None:
        for second in (1, 2, 3, 4, 20):
            lab.loop.call_at(second, lambda second=second: lab.seen.append((second, lab.loop.time())))  # type: ignore[misc]
        await forever()

    async def body() -> None:
        lab.host.run(main)
        await pass_time(1.5)
        lab.host.pause(5)
        lab.host.pause(1)  # while it is paused: the longer one counts
        await pass_time(20)

    lab.play(body)
    assert lab.seen == [(1, 1), (2, 6.5), (3, 6.5), (4, 6.5), (20, 20)]


def test_callbacks_delayed_by_pause_run_before_ready_ones() -> None:
    lab = Lab()
    event = asyncio.Event()

    async def main(runtime: SimulatedRuntime) -> None:
        lab.loop.call_at(2, lab.seen.append, "waited")
        await event.wait()
        lab.seen.append("woken at the end")
        await forever()

    async def body() -> None:
        lab.host.run(main)
        await pass_time(1)
        lab.loop.call_at(4, event.set)  # before the end of the pause, at the same instant
        lab.host.pause(3)
        await pass_time(9)

    lab.play(body)
    assert lab.seen == ["waited", "woken at the end"]


def test_machine_that_dies_while_it_is_paused_stays_dead() -> None:
    lab = Lab()

    async def main(runtime: SimulatedRuntime) -> None:
        lab.loop.call_at(2, lab.seen.append, "rang")
        await forever()

    async def body() -> None:
        lab.host.run(main)
        await pass_time(1)
        lab.host.pause(5)
        await pass_time(3)
        lab.host.kill()
        lab.host.run(lambda _: forever())
        await pass_time(9)

    lab.play(body)
    assert lab.seen == []


def test_jump_moves_wall_clock_of_one_machine_and_nothing_else() -> None:
    lab = Lab()
    other = Host("other", lab.loop, lab.network, lab.streams)

    async def clocks(runtime: SimulatedRuntime) -> tuple[int, float]:
        return runtime.wall(), runtime.monotonic()

    async def body() -> None:
        before = await lab.host.run(clocks)
        lab.host.jump_clock(-3_600)
        assert await lab.host.run(clocks) == (before[0] - 3_600_000, before[1])
        assert await other.run(clocks) == before

    lab.play(body)


def test_chance_is_of_seed_machine_life_and_stream() -> None:
    def drawn(seed: int, incarnation: int, stream: str) -> float:
        lab = Lab(seed)

        async def draw(runtime: SimulatedRuntime) -> float:
            runtime.rng("another").random()
            return runtime.rng(stream).random()

        async def body() -> float:
            for _ in range(incarnation - 1):
                await lab.host.run(draw)
            return await lab.host.run(draw)  # type: ignore[no-any-return]

        return lab.play(body)  # type: ignore[no-any-return]

    assert drawn(1, 1, "a") == drawn(1, 1, "a")
    assert len({drawn(1, 1, "a"), drawn(2, 1, "a"), drawn(1, 2, "a"), drawn(1, 1, "b")}) == 4


# Marks


def test_marks_reach_world_and_crash_at_mark_ends_step() -> None:
    def marked(host: Host, name: str, facts: dict[str, object]) -> None:
        lab.seen.append((host.name, name, facts))
        if name == "sealed":
            host.crash()
            lab.loop.call_later(1, host.run, main)  # of the world: it outlives the life that made the mark

    lab = Lab(on_mark=marked)

    async def main(runtime: SimulatedRuntime) -> None:
        runtime.mark("began", number=runtime.incarnation.number)
        if runtime.incarnation.number == 1:
            runtime.mark("sealed")
        lab.seen.append("went on")

    async def body() -> None:
        lab.host.run(main)
        await pass_time(2)

    lab.play(body)
    assert lab.seen == [("m", "began", {"number": 1}), ("m", "sealed", {}), ("m", "began", {"number": 2}), "went on"]
    assert lab.loop.errors == []

"""What hostile input costs: processor time and memory for each byte of it, and for each turn of the broker's loop.

Readers get inputs of up to 6 MB; a broker on stores in memory gets sequences of commands. A constant is allowed for
each input, beyond it a bound for each byte: a cost that grows faster than its input is found by size alone. Processor
time and not the clock is judged, without the collection of garbage.
"""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from random import Random

import pytest

from magnetar.base import names
from magnetar.base.errors import Corrupt, InvalidName, Misuse
from magnetar.wire import entry, frames, ids, message, send_reader
from magnetar.wire.scalable import checkpoint
from tests.fuzz.campaign import mutate
from tests.fuzz.sequences import CLIENTS, COMMANDS, Sequence, greeting
from tests.fuzz.targets import SEEDS
from tests.support.virtual_clock import ClockLoop
from tests.unit.broker.world import Client, World, run, settle

INPUT_BYTES_MAX = 6 * 1024 * 1024
CONSTANT_S = 0.02
CPU_PER_BYTE_S_MAX = 0.5e-6
MEMORY_PER_BYTE_MAX = 16
CONSTANT_BYTES = 1024 * 1024
TURN_S_MAX = 0.1
SHARE = 1.5  # of the readers together, in what a target of the coverage-guided search has
SEQUENCES_SHARE = 3.0


def cut(data: bytes) -> None:
    """As a connection takes a read: frames, then each command by its reader."""
    found, _ = frames.split(data, 0, INPUT_BYTES_MAX)
    index = 0
    while index < len(found):
        start, middle, _ = found[index]
        with suppress(Corrupt):
            kind = frames.command_type(data, start, middle)
            if kind == frames.SEND:
                index = max(send_reader.gather_sends(data, found, index).stop, index + 1)
                continue
            if kind == frames.FLOW:
                frames.read_flow(data, start, middle)
            else:
                frames.decode_command(data, start, middle)
        index += 1


def stored(data: bytes) -> None:
    entry.read(data)
    entry.counts(data)
    entry.sticky_key(data)
    message.open_entry(data)


READERS: dict[str, Callable[[bytes], object]] = {
    "cutting": cut,
    "entries": stored,
    "message_ids": ids.from_bytes,
    "checkpoints": checkpoint.from_bytes,
    "topic_names": lambda data: names.topic_name(data.decode("utf-8", "replace")),
}


def large_inputs(reader: str, seed: int) -> Iterator[bytes]:
    """Recorded inputs again and again, one in another, a field that is very long, and noise."""
    chance = Random(f"{reader} {seed}")
    recorded = SEEDS[reader]()
    while True:
        size = chance.choice((4_000, 60_000, 1_000_000, INPUT_BYTES_MAX))
        one = mutate(chance, recorded) or b"\0"
        yield (one * (size // len(one) + 1))[:size]
        yield one + chance.choice((b"\0", b"\x08\x01", b"\x1a\x00", b"\xff", b"a/", b"\x0a\x02\x08\x01")) * (size // 4)
        yield chance.randbytes(size)


@contextmanager
def no_garbage() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("reader", sorted(READERS))
def test_large_input_costs_by_its_bytes(reader: str, fuzz_s: float) -> None:
    read = READERS[reader]
    until = time.monotonic() + fuzz_s * SHARE / len(READERS)
    with no_garbage():
        for number, data in enumerate(large_inputs(reader, 1)):
            traced = number % 5 == 0  # which costs time: memory of some, time of the others
            if traced:
                tracemalloc.start()
            began = time.thread_time()
            with suppress(Corrupt, InvalidName, Misuse):
                read(data)
            took = time.thread_time() - began
            where = f"input {number} of {len(data)} bytes, which begins with {data[:40]!r}"
            if traced:
                peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()
                assert peak < CONSTANT_BYTES + MEMORY_PER_BYTE_MAX * len(data), where
            else:
                assert took < CONSTANT_S + CPU_PER_BYTE_S_MAX * len(data), where
            if time.monotonic() > until and number > 5:
                return


async def greeted(world: World, first: list[bytes]) -> Client:
    made = world.client()
    for data in first:
        made.say(data)
    await settle()
    return made


async def hear(world: World, steps: list[tuple[int, bytes]]) -> float:
    """The longest turn of the loop, in processor time."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ClockLoop)
    first = greeting()
    clients = [await greeted(world, first) for _ in range(CLIENTS)]
    loop.longest_s = 0.0
    for place, data in steps:
        if clients[place].connection.closed:
            clients[place] = await greeted(world, first)
        clients[place].say(data)
        await settle(3)
    await settle(300)
    for client in world.clients:
        if not client.connection.closed:
            client.lose()
    await settle(300)
    return loop.longest_s


def play(seed: int) -> tuple[int, float, float]:
    """Bytes, processor time and the longest turn of one sequence. A failure inside the broker fails it."""
    steps = Sequence(seed).steps()
    seen: list[float] = []

    async def body(world: World) -> None:
        began = time.thread_time()
        longest = await hear(world, steps)
        seen.extend((time.thread_time() - began, longest))
        node = world.node
        assert (node.pending_bytes, node.partial_frames.bytes, node.kept.bytes) == (0, 0, 0)
        assert not node.connections
        assert len(node.topics.lists) == 0

    run(body)
    return sum(len(data) for _, data in steps), seen[0], seen[1]


def test_sequence_of_commands_costs_by_its_bytes(fuzz_s: float) -> None:
    until = time.monotonic() + fuzz_s * SEQUENCES_SHARE
    with no_garbage():
        for seed in count():
            try:
                size, took, longest = play(seed)
            except Exception as error:
                raise AssertionError(f"sequence {seed}") from error
            assert longest < TURN_S_MAX, f"sequence {seed}: a turn of the loop took {longest:.3f} s"
            assert took < COMMANDS * CONSTANT_S + 1e-6 * size, f"sequence {seed}: {size} bytes took {took:.3f} s"
            if seed % 20 == 19:
                gc.collect()
            if time.monotonic() > until and seed > 2:
                return

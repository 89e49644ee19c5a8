"""The owner's measurement of a segment: rates of whole intervals, and the keys of sampled entries."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from magnetar.base.limits import SKETCH_SAMPLES_PER_S
from magnetar.base.ranges import FULL
from magnetar.layout.routing import Routing, segment_hash
from magnetar.ledger.run import Run, run_of
from magnetar.topic.load_meter import LoadMeter
from magnetar.wire import codec
from magnetar.wire.message import batch, single
from magnetar.wire.proto import pb


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def wall(self) -> int:
        return int(self.now * 1000)


class World:
    """A topic as far as the meter sees it, with the hook of `Topic.appended`."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.topic: Any = SimpleNamespace(runtime=self.clock, messages_in=0, bytes_in=0, subscriptions=[])
        self.meter = LoadMeter(self.topic, FULL)
        self.samples = 0

    def append(self, run: Run) -> None:
        self.topic.messages_in += run.messages
        self.topic.bytes_in += run.size
        self.meter.left -= run.messages
        if self.meter.left < 0:
            self.samples += 1
            self.meter.sample(run)


def message(key: str | None = None, **fields: Any) -> bytes:
    if key is not None:
        fields["partition_key"] = key
    return single(pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, **fields), b"x")


def messages(keys: list[str], compression: int = codec.NONE) -> bytes:
    parts = [(pb.SingleMessageMetadata(payload_size=0, partition_key=key), b"payload") for key in keys]
    return batch(pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1), parts, compression)


async def test_rates_are_of_whole_interval_and_repeated_within_it() -> None:
    world = World()
    for _ in range(100):
        world.append(run_of([message("a")] * 3))
    world.clock.now += 10
    load = await world.meter.measure(10)
    assert (load.measured_s, load.msg_rate_in) == (10, 30)
    assert load.bytes_rate_in == pytest.approx(30 * len(message("a")))
    world.append(run_of([message("a")]))
    world.clock.now += 9
    assert await world.meter.measure(10) == load
    world.clock.now += 1
    assert (await world.meter.measure(10)).msg_rate_in == pytest.approx(0.1)


async def test_first_load_says_for_how_long_it_was_measured() -> None:
    world = World()
    world.clock.now += 2
    assert (await world.meter.measure(10)).measured_s == 2
    world.clock.now += 2
    assert (await world.meter.measure(10)).measured_s == 4


@pytest.mark.parametrize("compression", [codec.NONE, codec.LZ4, codec.ZLIB, codec.ZSTD, codec.SNAPPY])
async def test_hot_key_in_batches_is_found(compression: int) -> None:
    world, random = World(), Random(7)
    for _ in range(400):
        keys = ["hot" if random.random() < 0.6 else f"key-{random.randrange(10_000)}" for _ in range(8)]
        world.append(run_of([messages(keys, compression)], [8]))
    world.clock.now += 10
    [first, *_] = (await world.meter.measure(10)).hot
    assert (first.slot, first.key) == (segment_hash("hot", Routing.HIGH16), "hot")
    assert first.share == pytest.approx(0.6, abs=0.06)


async def test_messages_without_keys_count_as_even_load() -> None:
    world = World()
    for index in range(200):
        world.append(run_of([message("hot" if index % 4 == 0 else None)]))
    world.clock.now += 10
    load = await world.meter.measure(10)
    assert load.hot[0].share == pytest.approx(0.25, abs=0.08)
    assert min(load.cells) > 0


async def test_routing_decides_slot() -> None:
    world = World()
    world.meter.routing = Routing.LOW16
    world.append(run_of([message("a")]))
    world.clock.now += 10
    assert (await world.meter.measure(10)).hot[0].slot == segment_hash("a", Routing.LOW16)


@pytest.mark.parametrize(
    "entry",
    [b"", b"\xff" * 40, messages(["a"])[:-11], message("a", num_messages_in_batch=5)],
    ids=["empty", "random", "cut", "count"],
)
async def test_unreadable_entry_counts_as_keyless(entry: bytes) -> None:
    world = World()
    world.append(run_of([entry], [1]))
    world.clock.now += 10
    assert (await world.meter.measure(10)).hot == ()


async def test_encrypted_batch_is_not_opened() -> None:
    world = World()
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=1, publish_time=1, num_messages_in_batch=2)
    metadata.encryption_keys.add(key="k", value=b"v")
    world.append(run_of([single(metadata, b"secret")], [2]))
    world.clock.now += 10
    load = await world.meter.measure(10)
    assert (load.hot, load.sampled) == ((), 1)


async def test_entries_are_sampled_by_their_messages() -> None:
    world = World()
    run = run_of([messages(["small"]), messages(["large"] * 9)], [1, 9])
    for _ in range(300):
        world.append(run)
    world.clock.now += 10
    [first, second] = (await world.meter.measure(10)).hot
    assert (first.key, second.key) == ("large", "small")
    assert first.share == pytest.approx(0.9, abs=0.05)


async def test_fast_segment_has_no_more_samples_than_slow_one() -> None:
    world = World()
    run = run_of([message(f"key-{index}") for index in range(100)])
    for _ in range(3):  # intervals of 10,000 messages per second
        world.samples = 0
        for _ in range(1_000):
            world.append(run)
        world.clock.now += 10
        await world.meter.measure(10)
    assert world.samples <= 1.5 * SKETCH_SAMPLES_PER_S * 10
    assert world.samples >= 0.5 * SKETCH_SAMPLES_PER_S * 10

"""Automatic splits and merges of a running broker under a load that rises and falls: order and bounds hold."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from magnetar import aio
from magnetar.cli.traffic.load import LoadConfig, Workload
from magnetar.client.documents.scalable import Operation
from magnetar.testing.brokers import AsyncBroker, broker

pytestmark = pytest.mark.real_clock

SETTINGS = {
    "scalableTopicAutoScaleEnabled": True,
    "scalableTopicAutoScaleIntervalSeconds": 1,
    "scalableTopicLoadReportIntervalSeconds": 1,
    "scalableTopicMaxSegments": 6,
    "scalableTopicSplitCooldownSeconds": 2,
    "scalableTopicMergeCooldownSeconds": 2,
    "scalableTopicMergeWindowSeconds": 2,
    "scalableTopicRebucketCooldownSeconds": 1,
    "scalableTopicSplitMsgRateInThreshold": 200,
    "scalableTopicMergeMsgRateInThreshold": 40,
    "scalableTopicMergeMsgRateOutThreshold": 200,
}
WAIT_S = 60.0


@asynccontextmanager
async def scaled(**more: object) -> AsyncIterator[tuple[AsyncBroker, aio.Client, aio.Admin]]:
    async with (
        broker({**SETTINGS, **more}, fast=True) as b,
        aio.Client(b.url) as client,
        aio.Admin(b.admin_url) as admin,
    ):
        yield b, client, admin


async def active(admin: aio.Admin, topic: str) -> dict[int, tuple[int, int]]:
    """The ranges of the active segments, by id."""
    segments = (await admin.scalable.metadata(topic)).segments.values()
    return {one.segmentId: (one.hashRange.start, one.hashRange.end) for one in segments if one.state == "ACTIVE"}


async def operations(admin: aio.Admin, topic: str) -> list[Operation]:
    return await admin.scalable.operations(topic)


async def until_active(admin: aio.Admin, topic: str, fits: Callable[[int], bool]) -> int:
    async with asyncio.timeout(WAIT_S):
        while not fits(count := len(await active(admin, topic))):
            assert count <= SETTINGS["scalableTopicMaxSegments"]
            await asyncio.sleep(0.2)
        return count


async def first_operations(admin: aio.Admin, topic: str) -> list[Operation]:
    async with asyncio.timeout(WAIT_S):
        while not (done := await operations(admin, topic)):  # noqa: ASYNC110  # the broker is asked, no event comes
            await asyncio.sleep(0.1)
        return done


async def test_segments_follow_load_up_and_down_in_order() -> None:
    async with scaled() as (b, client, admin):
        topic = await b.scalable("swing")
        load = LoadConfig(topic, rate=900.0, consumers=2, keys=40, drain_s=60.0)
        workload = Workload(client, load)
        running = asyncio.create_task(workload.run(16))
        assert await until_active(admin, topic, lambda count: count >= 4) <= 6
        ordering = await running
        assert ordering.findings == []
        assert ordering.sent == ordering.received - ordering.redelivered > 10_000
        await until_active(admin, topic, lambda count: count == 1)
        history = list(reversed(await operations(admin, topic)))
        kinds = [one.kind for one in history]
        assert kinds == sorted(kinds, key=["SPLIT", "MERGE"].index)  # one reversal
        assert {one.trigger for one in history} == {"autoscale"}
        assert history[0].reason.startswith("msgRateIn: segment 0 has ")


async def test_hot_key_ends_in_segment_of_its_own() -> None:
    async with scaled() as (b, client, admin):
        topic = await b.scalable("hot")
        producer = await client.create_producer(topic)
        stop = asyncio.get_running_loop().time() + WAIT_S
        number = 0
        while (narrow := min(end - start for start, end in (await active(admin, topic)).values())) > 0:
            assert asyncio.get_running_loop().time() < stop
            for _ in range(100):
                number += 1
                producer.send_nowait(b"x", key="busy" if number % 8 else f"key-{number}")
            await asyncio.sleep(0.1)
        assert narrow == 0
        done = await operations(admin, topic)
        [split] = done
        assert split.reason.startswith("hot-key: the key 'busy'")


async def test_surplus_stream_consumers_get_entry_buckets() -> None:
    async with scaled(scalableTopicEntryBucketBudget=1) as (b, client, admin):
        topic = await b.scalable("shared")
        consumers = [await client.stream_consumer(topic, "readers", name=f"reader-{number}") for number in range(3)]
        done = await first_operations(admin, topic)
        assert (done[0].kind, done[0].trigger) == ("REBUCKET", "autoscale")
        assert done[0].reason.startswith("below-split-rate-floor: readers has 3 consumers")
        [segment] = [one for one in (await admin.scalable.metadata(topic)).segments.values() if one.state == "ACTIVE"]
        assert len(segment.entryBucketSplits) == 3
        assert len(consumers) == 3

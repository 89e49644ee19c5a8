"""A scalable topic of a test's own on a broker of its own process, split and merged by chance."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest

from magnetar import NoMessage, aio
from tests.servers.standalone import Standalone

C = TypeVar("C", bound="Reshaped")
Consumer = aio.QueueConsumer[bytes] | aio.StreamConsumer[bytes] | aio.CheckpointConsumer[bytes]

QUIET_S = 0.5  # for what must not come


class Reshaped:
    """A client and an admin of one server, and a topic."""

    def __init__(self, server: Standalone, client: aio.Client, admin: aio.Admin, topic: str) -> None:
        self.server = server
        self.client = client
        self.admin = admin
        self.topic = topic
        self._chance = random.Random(topic)

    async def active(self) -> list[int]:
        """Active segments, by range."""
        metadata = await self.admin.scalable.metadata(self.topic)
        found = [one for one in metadata.segments.values() if one.state == "ACTIVE"]
        return [one.segmentId for one in sorted(found, key=lambda one: one.hashRange.start)]

    async def reshape(self) -> None:
        """A split or a merge, by chance, between two and six segments."""
        active = await self.active()
        if len(active) < 3 or (len(active) < 6 and self._chance.random() < 0.5):
            await self.admin.scalable.split(self.topic, self._chance.choice(active))
        else:
            lower = self._chance.randrange(len(active) - 1)
            await self.admin.scalable.merge(self.topic, active[lower : lower + 2])


@asynccontextmanager
async def opened_topic(
    server: Standalone, name: str, make: Callable[[Standalone, aio.Client, aio.Admin, str], C], segments: int
) -> AsyncIterator[C]:
    topic = f"topic://public/default/{name}"
    async with asyncio.timeout(120), aio.Client(server.url) as client, aio.Admin(server.http) as admin:
        await admin.scalable.create(topic, segments=segments)
        yield make(server, client, admin, topic)


async def quiet(consumer: Consumer) -> None:
    with pytest.raises(NoMessage):
        await consumer.receive(QUIET_S)

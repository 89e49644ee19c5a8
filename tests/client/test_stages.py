"""Staged publishing on our broker: rows of a committed batch come once, whoever repeats himself, dies or is late."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from magnetar import InitialPosition, NoMessage, aio
from magnetar.base.errors import StageNotFound, TopicNotFound
from magnetar.base.names import SINK_PREFIX
from magnetar.client.staged_sink import StagedSink
from magnetar.testing import broker
from magnetar.testing.brokers import AsyncBroker
from tests.servers.standalone import Standalone

pytestmark = pytest.mark.real_clock

WAIT_S = 60.0
Row = tuple[str | None, bytes]
KINDS = ("plain", "partitioned", "scalable")
_numbers = itertools.count()


@asynccontextmanager
async def world(kind: str) -> AsyncIterator[tuple[AsyncBroker, aio.Client, str]]:
    async with (
        broker(fast=True) as running,
        aio.Client(running.url) as client,
        aio.Admin(running.admin_url) as admin,
    ):
        yield running, client, await made(admin, kind, running.namespace)


async def made(admin: aio.Admin, kind: str, namespace: str) -> str:
    """The topic, which a plain one is when it is used."""
    topic = f"{'topic' if kind == 'scalable' else 'persistent'}://{namespace}/rows"
    if kind == "scalable":
        await admin.scalable.create(topic, segments=2)
    elif kind == "partitioned":
        await admin.topics.create(topic, partitions=3)
    return topic


class Dying(Standalone):
    program: ClassVar[list[str]] = ["tests.servers.dying"]

    @property
    def flag(self) -> Path:
        return self.folder / "die"

    def live_until(self, mark: str) -> None:
        """It may come to it before it says that it is ready."""
        self.flag.write_text(mark, encoding="ascii")
        try:
            self.start()
        except AssertionError as error:
            if "exit code -9" not in str(error):
                raise
        else:
            self.dead()

    def dead(self) -> None:
        assert self.process is not None
        assert self.process.wait(WAIT_S) == -9, "the mark was never passed"
        self.kill()


async def written(sink: StagedSink, batch: int, rows: list[Row]) -> str:
    stage = await sink.begin(batch)
    assert stage is not None
    for key, value in rows:
        await stage.producer.post(value, key=key)
    assert await stage.seal() == len(rows)
    return stage.id


async def read(client: aio.Client, topic: str, count: int, *, exactly: bool = False) -> list[Row]:
    """So many rows, and whatever else is there."""
    found: list[Row] = []
    if topic.startswith("topic://"):
        name = f"check-{next(_numbers)}"
        consumer = await client.stream_consumer(topic, name, initial_position=InitialPosition.EARLIEST)
        while len(found) < count:
            message = await consumer.receive(WAIT_S)
            found.append((message.key, message.data))
        try:
            while not exactly:
                message = await consumer.receive(0.5)
                found.append((message.key, message.data))
        except NoMessage:
            pass
        await consumer.close()
        return found
    async with await client.create_reader(topic) as reader:
        while len(found) < count or (not exactly and await reader.has_message_available()):
            message = await reader.receive(WAIT_S)
            found.append((message.key, message.data))
    return found


async def stored(client: aio.Client, topic: str) -> int:
    """All that its segments hold, of every generation: a consumer that waits for more cannot tell how long."""
    return sum(one.messages for one in (await client.plan(topic)).stretches.values())


def by_key(rows: list[Row]) -> dict[str | None, list[bytes]]:
    found: dict[str | None, list[bytes]] = defaultdict(list)
    for key, value in rows:
        found[key].append(value)
    return dict(found)


def the_rows(task: int, count: int, *, keys: int = 5) -> list[Row]:
    """Keys of this task alone, and one row in six without."""
    return [(None if i % 6 == 5 else f"{task}:{i % keys}", b"%d:%d" % (task, i)) for i in range(count)]


def same(found: list[Row], wanted: list[Row]) -> None:
    """Each row once, a key's in the order of its task; rows without a key have none."""
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))
    expected = by_key(wanted)
    assert {key: rows for key, rows in by_key(found).items() if key} == {k: r for k, r in expected.items() if k}


@pytest.mark.parametrize("kind", KINDS)
async def test_commit_publishes_what_it_names_once_and_nothing_else(kind: str) -> None:
    async with world(kind) as (running, client, topic):
        sink = StagedSink(client, topic, "query")
        first = [the_rows(task, 200) for task in range(3)]
        ids = [await written(sink, 0, rows) for rows in first]
        await written(sink, 0, the_rows(9, 50))  # the twin of a task: nobody names it
        zombie = await sink.begin(0)
        assert zombie is not None
        await zombie.producer.send(b"late")
        assert (await sink.commit(0, ids)).chosen
        await sink.abort(ids)  # as Spark does when the answer of a commit is lost
        again = await sink.commit(0, ids)
        assert (again.chosen, again.warning) == (False, "")
        assert await sink.begin(0) is None
        await sink.published(0)
        second = the_rows(0, 60)
        assert (await sink.commit(1, [await written(sink, 1, second)])).chosen
        await sink.published(1)
        with pytest.raises((StageNotFound, TopicNotFound)):
            await zombie.seal()
        same(await read(client, topic, 660), [row for rows in [*first, second] for row in rows])
        names = (await client.lookup.topics(running.namespace)).names
        assert not [name for name in names if "__stage" in name]


async def test_all_that_row_says_is_published() -> None:
    async with world("plain") as (_, client, topic):
        sink = StagedSink(client, topic, "query")
        stage = await sink.begin(0)
        assert stage is not None
        await stage.producer.send(b"v", key=b"\xff\x00", properties={"a": "b"}, event_time_ms=7, ordering_key=b"o")
        await stage.producer.send(None, key="gone")
        await stage.seal()
        await sink.commit(0, [stage.id])
        async with await client.create_reader(topic) as reader:
            one, two = await reader.receive(WAIT_S), await reader.receive(WAIT_S)
        said = (one.data, one.key_bytes, dict(one.properties), one.event_time_ms, one.ordering_key)
        assert said == (b"v", b"\xff\x00", {"a": "b"}, 7, b"o")
        assert (two.key, two.is_null) == ("gone", True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["plain", "scalable"])
def test_broker_killed_at_any_publish_step_stores_nothing_twice(tmp_path: Path, kind: str) -> None:
    """Each life of it ends at a mark. `stage.poured`: all of a stage is stored, and nothing says so yet."""

    async def body(running: Dying) -> None:
        async with aio.Client(running.url) as client, aio.Admin(running.http) as admin:
            topic = await made(admin, kind, "public/default")
            sink = StagedSink(client, topic, "query")
            rows = [the_rows(task, 4_000) for task in range(3)]
            ids = [await written(sink, 0, each) for each in rows]
            running.flag.write_text("stage.committed", encoding="ascii")
            committing = asyncio.ensure_future(sink.commit(0, ids))
            await asyncio.to_thread(running.dead)
            for mark in ("stage.publishing", "stage.poured", "stage.deleted"):
                await asyncio.to_thread(running.live_until, mark)
            running.flag.unlink()
            await asyncio.to_thread(running.start)
            assert not (await committing).warning
            await sink.published(0)
            same(await read(client, topic, 12_000), [row for each in rows for row in each])

    with Dying(tmp_path) as running:
        asyncio.run(body(running))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
async def test_broker_killed_while_publishing_stores_nothing_twice(kind: str) -> None:
    async with world(kind) as (running, client, topic):
        sink = StagedSink(client, topic, "query")
        rows = [the_rows(task, 8_000) for task in range(3)]
        ids = [await written(sink, 0, each) for each in rows]
        await sink.commit(0, ids)
        for count in (500, 12_000):  # as soon as so many can be read: in the middle of a stage
            await read(client, topic, count, exactly=True)
            await running.kill()
            await running.start()
        await sink.published(0)
        same(await read(client, topic, 24_000), [row for each in rows for row in each])


@pytest.mark.slow
async def test_rows_are_published_once_through_splits_and_merges() -> None:
    async with world("scalable") as (running, client, topic), aio.Admin(running.admin_url) as admin:
        await client.hold(topic, "check")
        sink = StagedSink(client, topic, "query")
        rows = [the_rows(task, 8_000) for task in range(3)]
        ids = [await written(sink, 0, each) for each in rows]
        await sink.commit(0, ids)
        for _ in range(2):
            segments = (await admin.scalable.metadata(topic)).segments
            await admin.scalable.split(topic, max(map(int, segments)))
            await running.kill()
            await running.start()
        await sink.published(0)
        assert await stored(client, topic) == 24_000
        same(await read(client, topic, 24_000), [row for each in rows for row in each])


@pytest.mark.slow
async def test_numbered_rows_resent_are_stored_once_through_reshapes_and_kills() -> None:
    """What `delivery=idempotent` stands on. No topic is told to deduplicate: the name of the producer is enough."""

    async with world("scalable") as (running, client, topic), aio.Admin(running.admin_url) as admin:
        rows = the_rows(0, 120)

        async def sent() -> None:
            producer = await client.create_producer(topic, name=f"{SINK_PREFIX}query-0", batching=None)
            for number, (key, value) in enumerate(rows):
                await producer.post(value, key=key, sequence_id=number)
            await producer.close()

        async def segments() -> list[int]:
            found = (await admin.scalable.metadata(topic)).segments.values()
            active = [one for one in found if one.state == "ACTIVE"]
            return [one.segmentId for one in sorted(active, key=lambda one: one.hashRange.start)]

        await client.hold(topic, "check")
        await sent()
        for segment in await segments():
            await admin.scalable.split(topic, segment)
        await sent()
        await running.kill()
        await running.start()
        await sent()
        await admin.scalable.merge(topic, (await segments())[1:3])
        await sent()
        assert await stored(client, topic) == len(rows)
        same(await read(client, topic, len(rows)), rows)


async def test_two_drivers_of_one_batch_get_one_of_it() -> None:
    async with world("plain") as (_, client, topic):
        old, new = StagedSink(client, topic, "query", run="a"), StagedSink(client, topic, "query", run="b")
        slow, quick = await written(old, 0, the_rows(0, 20)), await written(new, 0, the_rows(0, 20))
        assert (await new.commit(0, [quick])).chosen
        late = await old.commit(0, [slow])
        assert not late.chosen
        assert "sinkId" in late.warning
        await new.published(0)
        same(await read(client, topic, 20), the_rows(0, 20))


async def test_aborted_batch_is_written_anew() -> None:
    async with world("plain") as (_, client, topic):
        sink = StagedSink(client, topic, "query")
        lost = await written(sink, 0, the_rows(0, 20))
        await sink.abort([lost])
        with pytest.raises(StageNotFound):
            await sink.commit(0, [lost])
        assert (await sink.commit(0, [await written(sink, 0, the_rows(0, 20))])).chosen
        await sink.published(0)
        same(await read(client, topic, 20), the_rows(0, 20))

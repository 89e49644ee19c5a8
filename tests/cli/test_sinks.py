"""Sinks on the command line: which batch is committed, what waits, and deleting one."""

from __future__ import annotations

import asyncio

from magnetar import aio
from magnetar.client.staged_sink import StagedSink
from tests.cli.conftest import Run
from tests.servers.standalone import Standalone


def test_sink_is_listed_shown_and_deleted(magnetar: Run, broker: Standalone, name: str) -> None:
    topic = f"topic://public/default/{name}"

    async def written() -> None:
        async with aio.Client(broker.url) as client:
            sink = StagedSink(client, topic, "nightly", run="first")
            stage = await sink.begin(7)
            assert stage is not None
            await stage.producer.send(b"row")
            await stage.seal()
            await sink.commit(7, [stage.id])
            assert await sink.published(7)
            left = await sink.begin(8)
            assert left is not None
            await left.seal()

    assert magnetar("topic", "create", topic).code == 0
    asyncio.run(written())
    [line] = [line for line in magnetar("sink", "list").out.splitlines() if topic in line]
    assert line.split()[:3] == ["nightly", topic, "7"]
    shown = magnetar("sink", "show", topic, "nightly", "-o", "json").json
    said = (shown["lastBatch"], shown["openStages"], shown["backlogMessages"], shown["run"], shown["trouble"])
    assert said == (7, 1, 0, "first", "")
    assert "last batch" in magnetar("sink", "show", topic, "nightly").out.lower()
    assert magnetar("sink", "delete", topic, "nightly", "--yes").code == 0
    assert magnetar("sink", "show", topic, "nightly").code != 0
    assert magnetar("sink", "delete", topic, "nightly", "--yes", "--if-exists").code == 0

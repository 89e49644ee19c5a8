"""Where a checkpoint consumer starts: every way to say it, and what is asked of brokers for it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from magnetar.base.errors import Corrupt, Misuse
from magnetar.client.checkpoint_start import said
from magnetar.client.subscribing import InitialPosition
from magnetar.layout.checkpoint import START, Reached
from magnetar.wire.checkpoint import Checkpoint
from magnetar.wire.ids import MessageId
from tests.unit.client.checkpointed import K, a_world
from tests.unit.client.world import run


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (InitialPosition.EARLIEST, (Checkpoint.EARLIEST, None)),
        (InitialPosition.LATEST, (Checkpoint.LATEST, None)),
        (b"\x02", (Checkpoint.LATEST, None)),
        (Checkpoint.EARLIEST, (Checkpoint.EARLIEST, None)),
        (datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC), (Checkpoint.EARLIEST, 5000)),
        (1234, (Checkpoint.EARLIEST, 1234)),
    ],
    ids=str,
)
def test_every_way_to_say_where_to_start(start, expected):
    assert said(start) == expected


def test_what_is_no_start_is_refused():
    for start in ("latest", None, -1, 1.5, MessageId.EARLIEST):
        with pytest.raises(Misuse):
            said(start)
    with pytest.raises(Corrupt):
        said(b"")


def test_a_time_is_sought_in_every_segment_and_the_readers_that_asked_are_gone():
    async def body() -> None:
        async with a_world(2) as (world, begin):
            world.mark = {0: MessageId(100, 5), 1: MessageId(-1, -1)}
            consumer = await begin(1234)
            times = [command.seek.message_publish_time for command in world.broker.kinds(K.SEEK)]
            assert times == [1234, 1234]
            assert consumer.positions == {0: Reached(100, 5), 1: START}
            assert len(world.scaled.consumers) == 2
            assert not world.broker.kinds(K.FLOW) or all(
                flow.flow.consumer_id in world.scaled.consumers for flow in world.broker.kinds(K.FLOW)
            )

    run(body)

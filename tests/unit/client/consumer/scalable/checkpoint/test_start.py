"""Where a checkpoint consumer starts: every way to say it, and what is asked of brokers for it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from magnetar.base.errors import Corrupt, Misuse
from magnetar.base.ids import Epoch, SegmentId
from magnetar.client.consumer.config import InitialPosition
from magnetar.client.consumer.scalable.checkpoint.start import said
from magnetar.layout.checkpoint import START, SegmentPosition
from magnetar.wire.ids import MessageId
from magnetar.wire.scalable.checkpoint import Checkpoint
from tests.support.checkpoint_consumer import K, a_world
from tests.support.golden_vectors import load


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


def test_what_is_no_start_is_refused_with_what_is_one():
    for start in ("latest", None, -1, 1.5, MessageId.EARLIEST):
        with pytest.raises(
            Misuse, match=r"start or seek position .* Checkpoint or its bytes, InitialPosition.*publish time"
        ):
            said(start)
    with pytest.raises(Corrupt):
        said(b"")


OURS = Checkpoint({SegmentId(3): SegmentPosition(1, 2)}, Epoch(4), "topic://t/n/x", 9).to_bytes()
THEIRS = OURS[: OURS.index(b"MgCp")]


@pytest.mark.parametrize(
    "torn",
    [
        pytest.param(bytes(200), id="a file of zeros"),
        pytest.param(b"\x01\x00", id="more than the earliest message"),
        pytest.param(b"\x02garbage", id="more than the latest message"),
        pytest.param(THEIRS + b"\x00", id="more than one of another client"),
        *(pytest.param(OURS[: len(THEIRS) + cut], id=f"cut in our end, {cut}") for cut in (1, 3, 4, 20)),
        pytest.param(OURS + b"\x00", id="more than one of ours"),
    ],
)
def test_torn_checkpoint_starts_nowhere(torn):
    with pytest.raises(Corrupt):
        said(torn)


def test_own_and_foreign_checkpoints_are_accepted_as_start():
    assert said(OURS)[0].topic == "topic://t/n/x"
    assert said(THEIRS)[0].places == {3: SegmentPosition(1, 2)}
    for case in load("message-ids.json")["checkpoints"]:
        data = bytes.fromhex(case["bytes"])
        assert said(data) == (Checkpoint.from_bytes(data), None)


@pytest.mark.real_clock
async def test_time_is_searched_in_every_segment_and_readers_close() -> None:
    async with a_world(2) as (world, begin):
        world.mark = {0: MessageId(100, 5), 1: MessageId(-1, -1)}
        consumer = await begin(1234)
        times = [command.seek.message_publish_time for command in world.broker.kinds(K.SEEK)]
        assert times == [1234, 1234]
        assert consumer.positions == {0: SegmentPosition(100, 5), 1: START}
        assert len(world.scaled.consumers) == 2
        assert not world.broker.kinds(K.FLOW) or all(
            flow.flow.consumer_id in world.scaled.consumers for flow in world.broker.kinds(K.FLOW)
        )

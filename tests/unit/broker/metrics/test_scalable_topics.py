"""How many segments a subscription of a scalable topic waits for: a segment that is read ahead does not wait."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.broker.metrics.scalable_topics import layout_sample
from magnetar.layout.layout import initial
from magnetar.scalable.record.record import Record, created
from magnetar.scalable.record.subscription import Early, Hold, StreamPlan, Subscription, Type

TOPIC = topic_name("topic://public/default/x")


def a_split_topic() -> Record:
    split = initial(1, now_ms=0).split(SegmentId(0), now_ms=1)  # 0 became 1 and 2
    return replace(created(None, 1, now_ms=0), layout=split)


def a_subscription(*early: tuple[int, Early]) -> Subscription:
    holds = tuple(Hold(SegmentId(id), "a", "a", early=state) for id, state in early)
    parent = Hold(SegmentId(0), "a", "a")
    return Subscription("s", Type.STREAM, 1, 1, plan=StreamPlan(1, (parent, *holds)))


@pytest.mark.parametrize(
    ("early", "waiting"),
    [
        ((), 2),
        (((1, Early.GRANTED),), 1),
        (((1, Early.GRANTED), (2, Early.GRANTED)), 0),
        (((1, Early.PROPOSED), (2, Early.ENDING)), 2),
    ],
)
def test_segment_that_is_read_ahead_does_not_wait(early: tuple[tuple[int, Early], ...], waiting: int) -> None:
    sample = layout_sample(TOPIC, a_split_topic(), [a_subscription(*early)])
    assert sample.waiting == (("s", waiting),)

"""What an owner's answer means: a no for good is told, whatever may pass is asked again."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Closed, Conflict, Fenced, MagnetarError, Moved, NotReady
from magnetar.base.ids import SegmentId, Term
from magnetar.base.names import TopicName, topic_name
from magnetar.base.ranges import FULL
from magnetar.cluster.calls.topic_calls import Answer, Peers, ProvisionSegment, Request
from magnetar.layout.layout import Child
from magnetar.scalable.leader.segment_client import SegmentClient
from magnetar.scalable.machines.effects import AskOwner, CallFenced, CallLost, CallRefused, Event

NAME = topic_name("topic://public/default/t")
CHILD = Child(SegmentId(1), FULL)


class Says:
    def __init__(self, error: MagnetarError) -> None:
        self._error = error

    async def carry(self, name: TopicName, request: Request) -> Answer:
        raise self._error


@pytest.mark.parametrize(
    ("error", "means"),
    [
        (Conflict("it is not empty"), CallRefused),
        (Fenced("a higher term was here"), CallFenced),
        (NotReady("nobody answers"), CallLost),
        (Closed("it was unloaded meanwhile"), CallLost),
        (Moved("it has another owner now"), CallLost),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, MagnetarError) else "",
)
def test_segment_unloaded_under_call_is_asked_again(error: MagnetarError, means: type[Event]) -> None:
    request = ProvisionSegment(op="op", term=Term(1), incarnation=1, subs_gen=0, cursors=())
    assert type(asyncio.run(SegmentClient(Peers(Says(error))).call(NAME, AskOwner(CHILD, request)))) is means

"""Calls between brokers as values: what is asked is what arrives, over any carrier."""

from __future__ import annotations

import msgspec
import pytest

from magnetar.base.ids import Position, Term
from magnetar.base.names import TopicName, topic_name
from magnetar.cluster.calls.topic_calls import (
    Answer,
    AssignmentReply,
    Create,
    Created,
    Delete,
    Deleted,
    Flush,
    Flushed,
    Granted,
    Peers,
    Request,
    Seal,
)
from magnetar.topic.seal import SealResult

NAME = topic_name("persistent://public/default/t")
SEALED = SealResult(Position(1, 2), b"\x00\xff", 3, 4, 5, 6, 7)
SHARE = {"epoch": 1, "term": 2, "generation": 3, "session": 4, "number": 5}


class Recorder:
    def __init__(self) -> None:
        self.carried: list[tuple[TopicName, Request]] = []

    async def carry(self, name: TopicName, request: Request) -> Answer:
        self.carried.append((name, request))
        match request:
            case Create(cursors=cursors):
                return Created(cursors)
            case Seal():
                return SEALED
            case Delete():
                return Deleted(existed=True)
            case Flush():
                return Flushed(Position(1, 1))


@pytest.mark.real_clock
async def test_every_call_names_its_operation_and_term() -> None:
    recorder = Recorder()
    owner = Peers(recorder).owner(NAME)
    assert (await owner.create("op", Term(7), ("a",))).cursors == ("a",)
    assert await owner.seal("op", Term(7)) == SEALED
    assert (await owner.delete("op", Term(7), force=True)).existed
    assert await owner.flush("op", Term(7), "a") == Position(1, 1)
    assert [name for name, _ in recorder.carried] == [NAME] * 4
    assert {(request.op, request.term) for _, request in recorder.carried} == {("op", 7)}


@pytest.mark.parametrize(
    "request_",
    [
        Create(op="op", term=Term(1), cursors=("a", "b")),
        Seal(op="op", term=Term(1)),
        Delete(op="op", term=Term(1), force=True),
        Flush(op="op", term=Term(1), cursor="a"),
    ],
)
def test_call_survives_wire(request_: Request) -> None:
    assert msgspec.json.decode(msgspec.json.encode(request_), type=Request) == request_


def test_answer_survives_wire_whatever_its_fields_are_called() -> None:
    """A field `bytes` hid the type of that name from the decoder."""
    for answer in (
        SEALED,
        Created(("a",)),
        Flushed(Position(1, 1)),
        AssignmentReply(segments=(Granted(1, 0, 9),), **SHARE),
    ):
        assert msgspec.json.decode(msgspec.json.encode(answer), type=Answer) == answer

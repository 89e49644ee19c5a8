"""The bytes of a sink's record: what is written is read, what a newer version wrote survives, what lies is refused."""

from __future__ import annotations

import msgspec
import pytest

from magnetar.base.errors import Corrupt, InvalidName, LimitExceeded
from magnetar.base.names import topic_name
from magnetar.staged import codec
from magnetar.staged.codec import StageId
from magnetar.staged.machine import CommittedStage, Sink, Stage

FULL = Sink(
    topic="topic://t/n/x",
    name="query",
    life="0a0b0c0d",
    last=7,
    issued=4,
    stages=(Stage(3, 8, 1000, True, 5),),
    chosen=(CommittedStage(1, 7, 0, 0, 9, 2, 4),),
    dropped=(2,),
    sequences=(9, 0, 0, 0),
    committed=(1,),
    run="r2",
    runs=("r1",),
    once=True,
    changed_ms=99,
    token="x",
)


def test_what_is_written_is_read() -> None:
    assert codec.decode(codec.encode(FULL)) == FULL


def test_fields_of_newer_version_survive_rewrite() -> None:
    body = msgspec.json.decode(codec.encode(FULL))
    read = codec.decode(msgspec.json.encode({**body, "colour": [1, 2]}))
    assert msgspec.json.decode(codec.encode(read))["colour"] == [1, 2]


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"topic": 5},
        {"dropped": [2, 3]},  # twice
        {"dropped": [4]},  # never issued
        {"lanes": [8, 0, 0, 0]},  # sequence ids that were not given
        {"lanes": []},
    ],
)
def test_what_lies_is_refused(change: dict[str, object]) -> None:
    body = msgspec.json.decode(codec.encode(FULL))
    with pytest.raises(Corrupt):
        codec.decode(msgspec.json.encode({**body, **change}))


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"v":1}'])
def test_bytes_that_are_no_record_are_refused(data: bytes) -> None:
    with pytest.raises(Corrupt):
        codec.decode(data)


def test_record_that_is_too_large_is_not_written() -> None:
    stages = tuple(Stage(number, 10**15, 10**15, True, 10**15) for number in range(10_000))
    with pytest.raises(LimitExceeded):
        codec.encode(msgspec.structs.replace(FULL, stages=stages))


def test_topic_of_stage_says_which_stage_it_is() -> None:
    id = StageId(codec.digest("topic://t/n/x", "query"), "0a0b0c0d", 12)
    name = codec.stage_topic(topic_name("topic://t/n/x"), id)
    assert str(name) == f"persistent://t/n/__stage-{id}"
    assert name.is_stage
    assert codec.stage_of(name) == id == codec.stage_id(str(id))
    assert codec.stage_of(topic_name("persistent://t/n/__stage-mine")) is None


@pytest.mark.parametrize("text", ["", "x", "0-0-0", f"{'a' * 20}-00000000-1/../x", f"{'a' * 20}-00000000--1"])
def test_what_is_no_stage_is_refused(text: str) -> None:
    with pytest.raises(InvalidName):
        codec.stage_id(text)


def test_sinks_of_two_topics_are_two() -> None:
    assert codec.digest("topic://t/n/x", "query") != codec.digest("topic://t/n/y", "query")
    for name in ("", "x" * 513):
        with pytest.raises(InvalidName):
            codec.digest("topic://t/n/x", name)

"""The offset of a query over several topics: one form, both versions, nothing guessed at."""

from __future__ import annotations

import json

import pytest

from magnetar.base.errors import Corrupt, Misuse
from magnetar.base.ids import Epoch, SegmentId
from magnetar.layout.readable_range import DONE, ReadPosition
from magnetar.spark.source import multi_offset
from magnetar.spark.source import offset as source_offset
from magnetar.spark.source.multi_offset import Offset
from magnetar.spark.source.offset import SourceOffset

A, B = "topic://a/b/c", "topic://a/b/d"
ONE = SourceOffset(Epoch(3), {SegmentId(0): DONE, SegmentId(2): ReadPosition(7, 4)}, life=5, topic=A)
TWO = SourceOffset(Epoch(1), {SegmentId(0): ReadPosition(1, 0)}, {SegmentId(0): ReadPosition(0, 0)}, topic=B)


def test_offset_of_several_topics_round_trips():
    both = Offset({B: TWO, A: ONE})
    assert multi_offset.parse(both.text) == Offset({A: ONE, B: TWO})
    assert both.text == Offset({A: ONE, B: TWO}).text, "one place has one form"
    assert json.dumps(both.document()) == json.dumps(both.document(), sort_keys=True)
    assert multi_offset.from_document(json.loads(both.text)) == both


def test_checkpoint_of_one_topic_opens_as_one_of_several():
    assert multi_offset.from_document(ONE.document()) == Offset({A: ONE})
    assert multi_offset.parse(ONE.text) == ONE
    assert Offset({A: ONE}).only() == ONE


def test_checkpoint_of_several_topics_is_refused_for_one():
    with pytest.raises(Misuse, match="several topics"):
        Offset({A: ONE, B: TWO}).only()


def test_newer_version_says_what_to_do():
    with pytest.raises(Misuse, match="newer version"):
        multi_offset.from_document({"v": 3, "topics": {}})


@pytest.mark.parametrize(
    "document",
    [
        {"v": 2},
        {"v": 2, "topics": []},
        {"v": 2, "topics": {}, "more": 1},
        {"v": 2, "topics": {"": {"epoch": 0, "seg": {}}}},
        {"v": 2, "topics": {A: {"epoch": 0, "seg": {}, "v": 1}}},
        {"v": 2, "topics": {A: {"epoch": 0, "seg": {}, "topic": B}}},
        {"v": 2, "topics": {A: {"epoch": 0}}},
        {"v": 2, "topics": {A: []}},
        {"v": True, "topics": {}},
        [],
    ],
)
def test_text_that_is_no_offset_is_refused(document):
    with pytest.raises(Corrupt):
        multi_offset.from_document(document)


def test_version_1_of_several_is_still_unknown_to_frontier():
    with pytest.raises(Misuse, match="newer version"):
        source_offset.from_document(Offset({A: ONE}).document())

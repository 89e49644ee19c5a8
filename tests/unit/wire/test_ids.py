"""Message ids keep their bytes, their text and their order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from magnetar.base.errors import Corrupt
from magnetar.wire.ids import EARLIEST, LATEST, MessageId, Vector, from_bytes, to_bytes
from tests.support.golden_vectors import load

VECTORS = load("message-ids.json")


def an_id(case: dict) -> MessageId:
    chunk = case.get("first_chunk")
    first = None if chunk is None else MessageId(*chunk)
    return MessageId(
        case["ledger"], case["entry"], case["partition"], case["batch_index"], case["batch_size"], first_chunk=first
    )


@pytest.mark.parametrize("case", VECTORS["classic"], ids=lambda case: f"{case['class']} {case['text']}")
def test_classic_ids_to_bytes_and_back(case):
    given = an_id(case)
    assert to_bytes(given).hex() == case["bytes"]
    back, expected = from_bytes(bytes.fromhex(case["bytes"])), an_id(case["from_bytes"])
    assert (back, back.batch_size, back.first_chunk) == (expected, expected.batch_size, expected.first_chunk)
    assert (back == given) == case["from_bytes_equals"]
    if case["batch_index"] >= 0 or case["class"] != "BatchMessageIdImpl":
        assert str(given) == case["text"]


@pytest.mark.parametrize("case", VECTORS["from_bytes_with_topic"], ids=lambda case: case["bytes"])
def test_id_read_beside_topic_is_same_id(case):
    assert from_bytes(bytes.fromhex(case["bytes"])) == an_id(case["result"])


@pytest.mark.parametrize("case", VECTORS["malformed"], ids=lambda case: case["bytes"])
def test_malformed_ids_are_refused(case):
    with pytest.raises(Corrupt):
        from_bytes(bytes.fromhex(case["bytes"]))


def test_order_and_equality():
    """An id that remembers its topic compares by the topic's name first, which is not a matter of bytes."""
    compare = VECTORS["compare"]
    places = [place for place, case in enumerate(compare["ids"]) if case["class"] != "TopicMessageIdImpl"]
    ids = {place: an_id(compare["ids"][place]) for place in places}
    for one in places:
        for other in places:
            sign = (ids[one] > ids[other]) - (ids[one] < ids[other])
            assert sign == compare["sign"][one][other], (one, other)
            assert (ids[one] == ids[other]) == compare["equals"][one][other]


def test_earliest_and_latest_enclose_all():
    assert EARLIEST < MessageId(0, 0) < MessageId(0, 0, 0) < MessageId(0, 0, 0, 0) < LATEST


def a_scalable_id(case: dict) -> MessageId:
    inner = from_bytes(bytes.fromhex(case["v4_bytes"]))
    vector = _vector(case["positions"])
    topics = [(one["topic"], _vector(one["positions"])) for one in case["multi_topic"] or ()]
    return replace(
        inner, segment=case["segment"], vector=vector, topic=case["parent_topic"] or "", topics=tuple(topics)
    )


def _vector(positions: list[dict]) -> Vector:
    return tuple((one["segment"], from_bytes(bytes.fromhex(one["v4_bytes"]))) for one in positions)


def everything(id: MessageId) -> tuple:
    topics = sorted((topic, sorted(vector)) for topic, vector in id.topics)  # Java has an order of its own
    return id, id.batch_size, id.first_chunk, id.topic, sorted(id.vector), topics


@pytest.mark.parametrize("case", VECTORS["v5"], ids=lambda case: case["text"])
def test_ids_of_scalable_topics_to_bytes_and_back(case):
    given = a_scalable_id(case)
    assert everything(from_bytes(bytes.fromhex(case["bytes"]))) == everything(given)
    assert everything(from_bytes(to_bytes(given))) == everything(given)
    if case["segment"] >= 0 and case["parent_topic"] != "" and len(case["positions"]) < 4 and not case["multi_topic"]:
        assert to_bytes(given).hex() == case["bytes"]  # more positions than that Java writes in an order of its own


@pytest.mark.parametrize("case", VECTORS["v5_truncated"], ids=lambda case: case["bytes"][-24:])
def test_truncated_scalable_id_is_refused_unless_older_form(case):
    data = bytes.fromhex(case["bytes"])
    if "error" in case:
        with pytest.raises(Corrupt):
            from_bytes(data)
    else:
        assert everything(from_bytes(data)) == everything(a_scalable_id(case["result"]))


def test_scalable_ids_are_ordered_by_segment_first():
    compare = VECTORS["v5_compare"]
    ids = [a_scalable_id(case) for case in compare["ids"]]
    for one in range(len(ids)):
        for other in range(len(ids)):
            sign = (ids[one] > ids[other]) - (ids[one] < ids[other])
            assert sign == compare["sign"][one][other], (one, other)
            assert (ids[one] <= ids[other], ids[one] >= ids[other]) == (sign <= 0, sign >= 0)
            assert (ids[one] == ids[other]) == compare["equals"][one][other]


def test_text_of_scalable_id_names_its_segment():
    assert str(MessageId(12, 34, batch_index=3, batch_size=5, segment=7)) == "7/12:34:-1:3"


def test_scalable_id_of_segment_below_none_is_refused():
    data = to_bytes(MessageId(1, 2, segment=3))
    with pytest.raises(Corrupt):
        from_bytes((-2).to_bytes(8, "big", signed=True) + data[8:])

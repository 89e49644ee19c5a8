"""What is given where a message, its id or a time is meant: taken if it is one, else told with what it was."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from magnetar.base.errors import Misuse
from magnetar.base.ids import SegmentId
from magnetar.client.arguments import (
    PUBLISH_MS_MAX,
    check_call,
    check_id,
    check_message,
    check_number,
    check_of,
    check_places,
    check_text,
    check_topic,
    check_topics,
    is_publish_ms,
    publish_ms,
)
from magnetar.client.message import Delivery, Message, MessageId
from magnetar.client.schema import BYTES
from magnetar.layout.readable_range import DONE, NUMBER_MAX, START, ReadPosition
from magnetar.wire.proto import pb

MESSAGE = Message(b"m", Delivery(pb.MessageMetadata(), "persistent://public/default/t", BYTES, ledger=1, entry=2))


def test_message_and_id_are_distinguished_from_other_values() -> None:
    check_message(MESSAGE)
    check_id(MessageId(1, 2))
    for given in (None, "x" * 200, b"\x08\x01", 7, MessageId(1, 2)):
        with pytest.raises(Misuse, match="expected a received Message") as told:
            check_message(given)
        assert told.value.facts["given"] == repr(given)[:80]
    for given, how in ((None, "message.id"), (b"\x08\x01", "from_bytes"), (bytearray(b"x"), "from_bytes")):
        with pytest.raises(Misuse, match=how):
            check_id(given)


SEGMENT = "segment://public/default/orders/0000-7fff-1"


@pytest.mark.parametrize(
    ("said", "topics"),
    [
        ("", ["topic://public/default/orders"]),
        (SEGMENT, ["topic://public/other/x", "topic://public/default/orders"]),
        (SEGMENT, ["persistent://public/default/orders"]),  # which was migrated
        ("topic://public/default/orders", ["topic://public/default/orders"]),
        ("persistent://public/default/orders-partition-3", ["persistent://public/default/orders"]),
        ("persistent://public/default/orders", ["topic://public/default/orders"]),
    ],
)
def test_id_belongs_to_topic_under_any_name(said: str, topics: list[str]) -> None:
    check_of(MessageId(1, 2, topic=said), topics)
    if said:
        with pytest.raises(Misuse, match="a topic that this consumer does not read"):
            check_of(MessageId(1, 2, topic=said), ["topic://public/default/orders-2", "topic://public/other/orders"])


def test_id_of_namespace_is_of_all_topics_that_it_covers() -> None:
    kept = MessageId(1, 2, topic="topic://public/default/a", topics=(("topic://public/default/b", ()),))
    check_of(kept, ["topic://public/default/b"])
    check_of(kept, (), namespace="public/default")
    with pytest.raises(Misuse):
        check_of(kept, (), namespace="public/other")


def test_publish_time_is_date_or_milliseconds_since_1970() -> None:
    assert publish_ms(datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)) == 1500
    assert [publish_ms(given) for given in (0, 5, PUBLISH_MS_MAX)] == [0, 5, PUBLISH_MS_MAX]
    for given in (None, "5", 5.0, True, -1, PUBLISH_MS_MAX + 1, datetime(1969, 1, 1, tzinfo=UTC)):
        with pytest.raises(Misuse, match="seek position must be"):
            publish_ms(given)
    assert not is_publish_ms(True)


NO_PLACES = (
    ReadPosition(-7, 3),
    ReadPosition(-1, 0),
    ReadPosition(3, -1),
    ReadPosition(-1, -1, 4),
    ReadPosition(3, 4, -1),
    ReadPosition(NUMBER_MAX, 4),
    ReadPosition(3, 2**64),
    ReadPosition(True, 0),
    ReadPosition(1.5, 0),  # type: ignore[arg-type]
    ReadPosition(None, 0),  # type: ignore[arg-type]
    (3, 4),
    None,
)


@pytest.mark.parametrize("given", NO_PLACES)
def test_place_is_entry_beginning_or_end_of_segment(given: object) -> None:
    check_places(
        {
            SegmentId(0): START,
            SegmentId(7): DONE,
            SegmentId(8): ReadPosition(0, 0),
            SegmentId(9): ReadPosition(3, 4, 5),
        },
        "t",
    )
    with pytest.raises(Misuse, match=r"position must be an entry.* Client\.plan") as told:
        check_places({SegmentId(0): START, SegmentId(1): given}, "t")
    assert told.value.facts == {"topic": "t", "segment": 1, "given": repr(given)[:80]}


@pytest.mark.parametrize(
    "given", [None, (3, 4), ReadPosition(3, 4), [ReadPosition(3, 4)], "earliest", {"0": START}, {-1: START}]
)
def test_places_are_by_segment(given: object) -> None:
    with pytest.raises(Misuse, match=r"places must map segment ids .* Client\.plan"):
        check_places(given, "t")


def test_topic_must_be_text_and_several_list_or_pattern() -> None:
    check_topic("t")
    for fine in ("t", ["t", "u"], ("t",), re.compile("t.*")):
        check_topics(fine)
    for given in (None, 5, b"t", ["t", None], {"t": 1}, object()):
        with pytest.raises(Misuse, match="topics must be a topic name, a list of names or a compiled pattern"):
            check_topics(given)
        with pytest.raises(Misuse, match=r"topic must be one topic name, text such as topic://.*given=") as told:
            check_topic(given)
        assert told.value.facts == {"given": repr(given)[:80]}


def test_option_types_are_checked_for_names_numbers_and_callables() -> None:
    check_text("s", "it")
    check_number(0, "it")
    check_call(None, "it")
    check_call(len, "it")
    for given in (None, 5, b"s", ["s"]):
        with pytest.raises(Misuse, match=r"^it must be text"):
            check_text(given, "it")
    for given in (None, "5", 1.5, True, -1, 2**63):
        with pytest.raises(Misuse, match=r"^it must be a whole number of 0 or more"):
            check_number(given, "it")
    with pytest.raises(Misuse, match=r"^it must be a function or None"):
        check_call(5, "it")

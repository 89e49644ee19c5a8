"""Where entries lie: what deduplication after a merge stands on."""

from __future__ import annotations

from typing import Any

import pytest

from magnetar.base.names import topic_name
from magnetar.broker.segments.key_routing import slots
from magnetar.layout.routing import Routing, segment_hash
from magnetar.wire import message
from magnetar.wire.proto import pb

NAME = topic_name("segment://public/default/rows/0000-ffff-3")
HALF = topic_name("segment://public/default/rows/8000-ffff-3")


def an_entry(producer: str = "__sink-q-0-seg-3", number: int = 7, *, batch: bool = False, **said: Any) -> bytes:
    head = pb.MessageMetadata(producer_name=producer, sequence_id=number, publish_time=1, **said)
    if batch:
        return message.batch(head, [(pb.SingleMessageMetadata(), b"v")] * 2)
    return message.single(head, b"v")


def slot(entry: bytes, routing: Routing = Routing.HIGH16) -> int | None:
    return slots(NAME, routing)(b"--" + entry, 2, 2 + len(entry))


@pytest.mark.parametrize("routing", Routing)
def test_entry_lies_where_its_key_does(routing: Routing) -> None:
    assert slot(an_entry(partition_key="k"), routing) == segment_hash("k", routing)
    assert slot(an_entry(partition_key="k", ordering_key=b"o"), routing) == segment_hash("o", routing)
    assert slot(an_entry(partition_key="/w==", partition_key_b64_encoded=True), routing) == segment_hash(
        b"\xff", routing
    )


def test_what_sink_sends_without_key_lies_by_producer_and_number() -> None:
    """As `client.router` spreads it, by the name without that of the segment."""
    assert slot(an_entry()) == segment_hash("__sink-q-0-7", Routing.HIGH16)
    assert slot(an_entry(number=8)) == segment_hash("__sink-q-0-8", Routing.HIGH16)


def test_what_others_send_without_key_and_batches_lie_nowhere() -> None:
    assert slot(an_entry("orders-seg-3")) is None
    assert slot(an_entry(batch=True)) is None
    assert slot(an_entry(batch=True, partition_key="k")) is None
    assert slot(b"\x0e\x01") is None


def test_what_is_not_of_segment_lies_nowhere() -> None:
    low = next(n for n in range(99) if segment_hash(f"__sink-q-0-{n}", Routing.HIGH16) < 0x8000)
    entry = an_entry(number=low)
    assert slots(HALF, Routing.HIGH16)(entry, 0, len(entry)) is None
    assert slot(entry) is not None

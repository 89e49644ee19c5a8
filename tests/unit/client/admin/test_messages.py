"""Messages that REST shows: single ones and batches, with every header a real Pulsar was seen to send."""

from __future__ import annotations

import base64

import pytest

from magnetar.base.errors import Corrupt
from magnetar.client.admin.messages import messages_of, moment
from magnetar.client.documents.topics import MessageId
from magnetar.wire.message import join_batch
from magnetar.wire.proto import pb

HEADERS = {
    "X-Pulsar-Message-ID": "33:29",
    "X-Pulsar-PROPERTY": '{"n":"29"}',
    "X-Pulsar-publish-time": "2026-11-15T10:00:00.123Z",
    "X-Pulsar-Is-Encrypted": "false",
    "X-Pulsar-producer-name": "p1",
    "X-Pulsar-sequence-id": "29",
    "X-Pulsar-partition-key": "k4",
    "X-Pulsar-txn-uncommitted": "false",
}

LEFT = {"X-Pulsar-num-batch-message": "1", "X-Magnetar-Unacknowledged": "?"}


def test_single_message_is_what_its_headers_say() -> None:
    (one,) = messages_of({name.lower(): value for name, value in HEADERS.items()}, b"data")
    assert (one.id, one.data, one.key, one.properties) == (MessageId(33, 29), b"data", "k4", {"n": "29"})
    assert (one.producer_name, one.sequence_id, one.publish_time) == ("p1", 29, "2026-11-15T10:00:00.123Z")


def test_batch_is_cut_into_its_messages() -> None:
    singles = [
        (pb.SingleMessageMetadata(partition_key=f"k{n}", sequence_id=n, event_time=1000 * n), b"%d" % n)
        for n in range(3)
    ]
    found = messages_of({**HEADERS, "X-Pulsar-num-batch-message": "3"}, join_batch(singles))
    assert [one.data for one in found] == [b"0", b"1", b"2"]
    assert [one.id.batchIndex for one in found] == [0, 1, 2]
    assert [one.key for one in found] == ["k0", "k1", "k2"]
    assert found[2].event_time == "1970-01-01T00:00:02.000Z"


def test_acknowledged_messages_of_batch_are_left_out() -> None:
    singles = [(pb.SingleMessageMetadata(), b"%d" % n) for n in range(70)]
    left = base64.b64encode((1 << 1 | 1 << 69).to_bytes(16, "little")).decode()
    headers = {**HEADERS, "X-Pulsar-num-batch-message": "70", "X-Magnetar-Unacknowledged": left}
    assert [one.data for one in messages_of(headers, join_batch(singles))] == [b"1", b"69"]


def test_encrypted_batch_stays_whole() -> None:
    headers = {**HEADERS, "X-Pulsar-num-batch-message": "3", "X-Pulsar-Is-Encrypted": "true"}
    assert [one.data for one in messages_of(headers, b"???")] == [b"???"]


def test_text_outside_header_alphabet_is_restored() -> None:
    headers = {**HEADERS, "X-Pulsar-PROPERTY": "%7B%22n%22%3A%22%C3%BC%22%7D", "X-Pulsar-partition-key": "%C3%BC"}
    (one,) = messages_of(headers, b"")
    assert (one.key, one.properties) == ("ü", {"n": "ü"})


@pytest.mark.parametrize(
    "change",
    [{"X-Pulsar-Message-ID": "x"}, {"X-Pulsar-PROPERTY": "[1"}, {"X-Pulsar-num-batch-message": "9"}, LEFT],
)
def test_headers_that_lie_are_corrupt(change: dict[str, str]) -> None:
    with pytest.raises(Corrupt):
        messages_of({**HEADERS, **change}, b"data")


def test_time_nobody_can_mean_is_shown_as_number() -> None:
    assert moment(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert moment(2**62) == str(2**62)

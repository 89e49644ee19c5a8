"""What is wrong with a message that Protobuf refuses, by its descriptor; and no more than Protobuf has against it."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.spark.values.protobuf_diagnosis import ParseError, fault
from magnetar.wire.proto import pb

KIND = pb.SingleMessageMetadata
GOOD = KIND(payload_size=3, partition_key="k", properties=[pb.KeyValue(key="a", value="b")]).SerializeToString()


def test_message_that_is_one_has_no_fault():
    assert fault(KIND.DESCRIPTOR, GOOD) is None
    assert fault(KIND.DESCRIPTOR, b"") is None


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"\x0a\x03\x0a\x05a", ParseError("its length exceeds the value: 5", "properties.key")),
        (b"\x18", ParseError("the value ends too early", "payload_size")),
        (b"\xf9\x07abc", ParseError("the value ends too early", "")),  # eight bytes of a field that nobody knows
        (b"\x0b\x18\x05", ParseError("the value ends too early", "")),  # a group that goes on
        (b"\x0c", ParseError("the tag is invalid: 12", "")),
    ],
)
def test_first_thing_that_is_wrong_is_told_with_its_field(data, found):
    assert fault(KIND.DESCRIPTOR, data) == found


@given(st.integers(0, len(GOOD)), st.binary(max_size=8), st.integers(0, 4))
@settings(max_examples=60)
def test_what_protobuf_reads_has_no_fault_but_for_its_texts(place, put, over):
    data = GOOD[:place] + put + GOOD[place + over :]
    try:
        KIND.FromString(data)
    except DecodeError:
        return
    found = fault(KIND.DESCRIPTOR, data)
    assert found is None or "UTF-8" in found.why  # which Protobuf looks at in its third syntax alone

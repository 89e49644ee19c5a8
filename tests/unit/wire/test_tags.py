"""Each tag is that of its field in `pulsar.proto`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from magnetar.wire import client_readers, frames, metadata, tags
from magnetar.wire.broker_frames import varint
from magnetar.wire.proto import pb

MESSAGES = {
    "SEND_RECEIPT": pb.CommandSendReceipt,
    "SEND": pb.CommandSend,
    "MESSAGE": pb.CommandMessage,
    "ACK": pb.CommandAck,
    "FLOW": pb.CommandFlow,
    "ID": pb.MessageIdData,
    "METADATA": pb.MessageMetadata,
    "SINGLE": pb.SingleMessageMetadata,
}
TAGS = {name: value for name, value in vars(tags).items() if isinstance(value, int)}
OPENINGS = {
    "OPEN_SEND": "send",
    "OPEN_SEND_RECEIPT": "send_receipt",
    "OPEN_MESSAGE": "message",
    "OPEN_ACK": "ack",
    "OPEN_FLOW": "flow",
    "OPEN_REDELIVER": "redeliverUnacknowledgedMessages",
}
LENGTH_DELIMITED = 2


def field_of(name: str):
    prefix = next(prefix for prefix in MESSAGES if name.startswith(f"{prefix}_"))
    fields = MESSAGES[prefix].DESCRIPTOR.fields
    return next(field for field in fields if field.name.upper() == name.removeprefix(f"{prefix}_"))


@pytest.mark.parametrize("name", TAGS)
def test_tag_has_number_and_wire_type_of_its_field(name):
    field = field_of(name)
    delimited = field.cpp_type in (field.CPPTYPE_STRING, field.CPPTYPE_MESSAGE)
    assert TAGS[name] == field.number << 3 | (LENGTH_DELIMITED if delimited else 0)


@pytest.mark.parametrize("name", OPENINGS)
def test_opening_names_type_and_submessage(name):
    fields = pb.BaseCommand.DESCRIPTOR.fields_by_name
    number = fields[OPENINGS[name]].number
    expected = varint(fields["type"].number << 3) + varint(number) + varint(number << 3 | LENGTH_DELIMITED)
    assert getattr(tags, name) == expected


def test_each_opening_is_compared():
    assert {name for name, value in vars(tags).items() if isinstance(value, bytes)} == set(OPENINGS)


@pytest.mark.parametrize("module", [frames, client_readers, metadata], ids=lambda module: module.__name__)
def test_number_in_hot_reader_is_that_of_its_comment(module):
    lines = Path(module.__file__).read_text(encoding="utf-8").splitlines()
    compared = [line for line in lines if re.search(r"(\btag|\[position\]) [!=]= 0x", line)]
    assert len(compared) > 10
    for line in compared:
        code, _, comment = line.partition("  # ")
        numbers = [int(text, 16) for text in re.findall(r"[!=]= (0x\w+)", code)]
        assert numbers == [getattr(tags, name) for name in comment.split(", ")], line

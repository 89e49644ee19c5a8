"""Frames are cut where their sizes say, and lies about sizes or content are refused."""

from __future__ import annotations

import struct

import pytest

from magnetar.base.errors import BadFrame
from magnetar.wire import frames
from magnetar.wire.proto import pb
from tests.support.golden_vectors import load, sent_frames

LIMIT = 1 << 20


def framed(body: bytes) -> bytes:
    return struct.pack(">II", 4 + len(body), len(body)) + body


def command(kind: int, **fields: object) -> bytes:
    return pb.BaseCommand(type=kind, **fields).SerializeToString()


def test_frames_of_one_read_are_split_and_partial_waits():
    one = framed(command(pb.BaseCommand.PING, ping=pb.CommandPing()))
    whole = one * 3
    for cut in range(len(one)):
        cutoff, consumed = frames.split(whole + one[:cut], 0, LIMIT)
        assert (len(cutoff), consumed) == (3, len(whole))
    assert frames.split(whole, len(one), LIMIT) == (
        [(one_start + 8, one_start + len(one), one_start + len(one)) for one_start in (len(one), 2 * len(one))],
        len(whole),
    )


@pytest.mark.parametrize(
    ("total", "size"), [(0, 0), (3, 0), (4, 1), (10, 7), (LIMIT + 1, 4), (2**32 - 1, 4), (4, 2**32 - 1)]
)
def test_sizes_that_lie_are_refused(total, size):
    with pytest.raises(BadFrame):
        frames.split(struct.pack(">II", total, size) + bytes(64), 0, LIMIT)


@pytest.mark.parametrize("total", [0, 3, LIMIT + 1, 2**32 - 1])
def test_half_header_is_enough_to_refuse(total):
    with pytest.raises(BadFrame):
        frames.split(struct.pack(">I", total), 0, LIMIT)


def test_largest_frame_is_taken():
    body = bytes(LIMIT - 4)
    assert frames.split(framed(body), 0, LIMIT) == ([(8, LIMIT + 4, LIMIT + 4)], LIMIT + 4)


def test_size_of_frame_is_known_from_its_first_four_bytes():
    assert frames.frame_size(b"\0\0\0", 0) == 0
    assert frames.frame_size(b"xx\0\0\1\0", 2) == 260


def test_command_survives_encoding_and_decoding():
    sent = pb.BaseCommand(type=pb.BaseCommand.SUCCESS, success=pb.CommandSuccess(request_id=2**64 - 1))
    wire = frames.encode_command(sent)
    (start, middle, end), *_ = frames.split(wire, 0, LIMIT)[0]
    assert middle == end == len(wire)
    assert frames.decode_command(wire, start, middle) == sent


def test_unknown_type_is_not_error():
    unknown = b"\x08\xcf\x0f" + b"\xfa\x7c\x02\x08\x01"  # type 1999 with its own submessage
    assert frames.decode_command(unknown, 0, len(unknown)) is None
    assert frames.command_type(unknown, 0, len(unknown)) == 0


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        b"\x08\x06\x32\x05\x08\x01",
        command(pb.BaseCommand.SUCCESS),  # the submessage is missing
        b"\x08\x0d\x6a\x00",  # SUCCESS without request_id
        b"\x08\x06\x32\x02\x08\x01",  # SEND without sequence_id
        b"\x08\x17\xba\x01\x05\x0a\x01\xff\x10\x01",  # LOOKUP of a topic that is not UTF-8
        b"\x08\x10\x82\x01\x07\x08\x01\x10\x01\x1a\x01\xff",  # CLOSE_CONSUMER with an url that is not UTF-8
    ],
)
def test_broken_commands_are_refused(body):
    with pytest.raises(BadFrame):
        frames.decode_command(body, 0, len(body))


@pytest.mark.parametrize("kind", [pb.BaseCommand.PING, pb.BaseCommand.PONG])
def test_bare_ping_and_pong_are_taken(kind):
    body = command(kind)
    assert frames.decode_command(body, 0, len(body)).type == kind


def test_type_is_read_for_every_command_this_broker_knows():
    by_number = pb.BaseCommand.DESCRIPTOR.fields_by_number
    for kind in pb.BaseCommand.Type.values():
        message = pb.BaseCommand(type=kind)
        getattr(message, by_number[kind].name).SetInParent()
        body = message.SerializePartialToString()
        assert frames.command_type(b"xy" + body, 2, 2 + len(body)) == kind
        first = 2 if kind < 128 else 3
        assert frames.command_type(body[first:] + body[:first], 0, len(body)) == kind  # the other order


def test_last_type_wins():
    body = b"\x08\x06\x32\x04\x08\x01\x10\x01"
    later = body + b"\x08\x0b"
    assert frames.command_type(later, 0, len(later)) == 11


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"num_messages": 5, "highest_sequence_id": 2**64 - 1},
        {"num_messages": -1},
        {"is_chunk": True, "marker": True},
        {"txnid_least_bits": 0, "txnid_most_bits": 2**63},
        {"message_id": pb.MessageIdData(ledgerId=1, entryId=2, ack_set=[-1, 5])},
    ],
)
def test_send_is_read_as_protobuf_reads_it(given):
    body = command(6, send=pb.CommandSend(producer_id=300, sequence_id=2**40, **given))
    assert frames.read_send(body, 0, len(body)) == frames._send_by_protobuf(body, 0, len(body))


def test_ack_with_many_ids_is_read_as_by_protobuf():
    ids = [pb.MessageIdData(ledgerId=7, entryId=index, ack_set=[-1, 2**63 - 1, 0]) for index in range(300)]
    ids.append(pb.MessageIdData(ledgerId=7, entryId=1, partition=-1, batch_index=3, batch_size=9))
    ids.append(pb.MessageIdData(ledgerId=7, entryId=1, partition=4, batch_index=3, batch_size=9))
    for more in ({}, {"request_id": 5, "validation_error": 2}, {"properties": [pb.KeyLongValue(key="a", value=1)]}):
        body = command(10, ack=pb.CommandAck(consumer_id=1, ack_type=1, message_id=ids, **more))
        parts = frames.read_ack(body, 0, len(body))
        assert parts == frames._ack_by_protobuf(body, 0, len(body))
        assert parts[2][0] == (7, 0, [-1, 2**63 - 1, 0], -1, 0, -1)


@pytest.mark.parametrize("permits", [0, 1, 1000, 2**31 - 1, 2**31, 2**32 - 1])
def test_flow_is_read_as_protobuf_reads_it(permits):
    body = command(11, flow=pb.CommandFlow(consumer_id=2**64 - 1, messagePermits=permits))
    assert frames.read_flow(body, 0, len(body)) == (2**64 - 1, permits)


def test_reader_of_another_type_refuses():
    body = command(11, flow=pb.CommandFlow(consumer_id=1, messagePermits=1))
    with pytest.raises(BadFrame):
        frames.read_send(body, 0, len(body))
    with pytest.raises(BadFrame):
        frames.read_ack(body, 0, len(body))


@pytest.mark.parametrize("frame", sent_frames(), ids=lambda frame: frame["file"])
def test_recorded_sends_are_cut_and_read(frame):
    data = frame["bytes"]
    [(start, middle, end)], consumed = frames.split(data, 0, 1 << 23)
    assert (consumed, end, end - 4) == (len(data), len(data), frame["total_size"])
    assert data[start:middle].hex() == frame["command_hex"]
    assert frames.command_type(data, start, middle) == frames.SEND
    parts = frames.read_send(data, start, middle)
    assert parts == frames._send_by_protobuf(data, start, middle)
    send = frame["send"]
    assert parts == (
        send["producer_id"],
        send["sequence_id"],
        send.get("num_messages", 1),
        send.get("highest_sequence_id", -1),
        send.get("is_chunk", False),
        False,
        send.get("txnid_least_bits", -1),
        send.get("txnid_most_bits", -1),
        None,
    )


@pytest.mark.parametrize("frame", load("entries/producers.json")["frames"], ids=lambda frame: frame["case"])
def test_recorded_producers_are_decoded(frame):
    data = bytes.fromhex(frame["frame_hex"])
    [(start, middle, _)], _ = frames.split(data, 0, LIMIT)
    producer = frames.decode_command(data, start, middle).producer
    for name, value in frame["producer"].items():
        if isinstance(value, str | int) and not isinstance(getattr(producer, name), int):
            assert getattr(producer, name) == value
    assert frames.encode_command(pb.BaseCommand(type=pb.BaseCommand.PRODUCER, producer=producer)) == data


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"GET / HTTP/1.1\r\n", "this is HTTP"),
        (b"HTTP/1.1 400 Bad Request\r\n", "this is HTTP"),
        (b"<!DOCTYPE HTML>\n<html>", "this is HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", "this is TLS"),
        (b"hello, world", "a frame exceeds the maximum size"),
    ],
)
def test_another_protocol_on_port_is_said_for_what_it_is(sent, said):
    for length in (4, len(sent)):
        with pytest.raises(BadFrame, match=said):
            frames.split(sent[:length], 0, LIMIT)

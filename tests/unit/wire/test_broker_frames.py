"""Templates write exactly the bytes that protobuf writes, whatever the size of the numbers."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.wire import broker_frames
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb

EDGES = [0, 1, 127, 128, 16383, 16384, 2**21 - 1, 2**21, 2**28, 2**35, 2**63 - 1, 2**63, 2**64 - 2]
uint64 = st.one_of(st.sampled_from(EDGES), st.integers(0, 2**64 - 1))


def a_receipt(producer: int, sequence: int, highest: int | None, ledger: int, entry: int) -> bytes:
    message_id = pb.MessageIdData(ledgerId=ledger, entryId=entry)
    command = pb.CommandSendReceipt(producer_id=producer, sequence_id=sequence, message_id=message_id)
    if highest is not None:
        command.highest_sequence_id = highest
    return encode_command(pb.BaseCommand(type=pb.BaseCommand.SEND_RECEIPT, send_receipt=command))


def a_message(consumer: int, ledger: int, entry: int, partition: int, body: bytes, **more: object) -> bytes:
    message_id = pb.MessageIdData(ledgerId=ledger, entryId=entry, partition=partition)
    command = pb.CommandMessage(consumer_id=consumer, message_id=message_id, **more)
    encoded = pb.BaseCommand(type=pb.BaseCommand.MESSAGE, message=command).SerializeToString()
    return struct.pack(">II", 4 + len(encoded) + len(body), len(encoded)) + encoded + body


@given(st.integers(-(2**63), 2**64 - 1))
def test_varint_is_protobufs(value):
    data = pb.MessageIdData(ledgerId=value % 2**64, entryId=0).SerializeToString()
    assert broker_frames.varint(value) == data[1:-2]


@given(uint64, st.lists(uint64, max_size=20), uint64, st.integers(0, 2**63), st.booleans())
def test_receipts_are_what_protobuf_writes(producer, sequences, ledger, first, with_highest):
    highest = [min(sequence + 9, 2**64 - 1) for sequence in sequences] if with_highest else None
    expected = b"".join(
        a_receipt(producer, sequence, highest[place] if highest else None, ledger, first + place)
        for place, sequence in enumerate(sequences)
    )
    assert broker_frames.receipts(producer, sequences, highest, ledger, first) == expected


@pytest.mark.parametrize("base", [120, 16380, 2**14 * 3 - 3, 2**21 - 3, 2**28 - 3])
def test_receipts_of_run_that_crosses_width(base):
    sequences = list(range(base, base + 9))
    expected = b"".join(a_receipt(1, base + place, None, 5, base + place - 60) for place in range(9))
    assert broker_frames.receipts(1, sequences, None, 5, base - 60) == expected


@given(uint64, uint64, st.one_of(st.just(-1), uint64))
def test_duplicate_receipt_names_no_place(producer, sequence, highest):
    made = broker_frames.receipt(producer, sequence, highest, broker_frames.DUPLICATE, broker_frames.DUPLICATE)
    assert made == a_receipt(producer, sequence, None if highest < 0 else highest, 2**64 - 1, 2**64 - 1)


@given(
    uint64,
    st.lists(st.binary(max_size=40), max_size=12),
    uint64,
    st.integers(0, 2**63),
    st.integers(-1, 2**31 - 1),
    st.one_of(st.just(-1), uint64),
)
def test_messages_of_run_are_what_protobuf_writes(consumer, bodies, ledger, first, partition, epoch):
    offsets = [0]
    for body in bodies:
        offsets.append(offsets[-1] + len(body))
    more = {} if epoch < 0 else {"consumer_epoch": epoch}
    frames = [a_message(consumer, ledger, first + place, partition, body, **more) for place, body in enumerate(bodies)]
    for start in range(len(bodies) + 1):
        made = broker_frames.messages(
            consumer,
            b"".join(bodies),
            offsets,
            start,
            len(bodies),
            ledger=ledger,
            first_entry=first,
            partition=partition,
            epoch=epoch,
        )
        assert made == b"".join(frames[start:])


@pytest.mark.parametrize("base", [120, 16380, 2**21 - 3])
def test_messages_of_run_that_crosses_width(base):
    bodies = [b"x" * (1 + place % 3) for place in range(9)]
    offsets = [sum(map(len, bodies[:place])) for place in range(10)]
    expected = b"".join(a_message(1, 5, base + place, -1, bodies[place]) for place in range(9))
    assert broker_frames.messages(1, b"".join(bodies), offsets, 0, 9, ledger=5, first_entry=base) == expected


@given(
    uint64,
    uint64,
    uint64,
    st.integers(-1, 2**31 - 1),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=30),
    st.one_of(st.just(-1), uint64),
    st.binary(max_size=30),
)
def test_general_message_is_what_protobuf_writes(consumer, ledger, entry, partition, again, words, epoch, body):
    more: dict[str, object] = {"ack_set": words}
    if again:
        more["redelivery_count"] = again
    if epoch >= 0:
        more["consumer_epoch"] = epoch
    made = broker_frames.message(
        consumer, ledger, entry, body, partition=partition, redelivery_count=again, ack_set=words, epoch=epoch
    )
    assert made == a_message(consumer, ledger, entry, partition, body, **more)
    view = broker_frames.message(
        consumer,
        ledger,
        entry,
        memoryview(body),
        partition=partition,
        redelivery_count=again,
        ack_set=words,
        epoch=epoch,
    )
    assert view == made

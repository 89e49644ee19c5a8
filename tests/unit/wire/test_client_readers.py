"""A client reads receipts and messages as protobuf does, whatever order or shape a broker gives them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from magnetar.base.errors import BadFrame
from magnetar.wire import broker_frames, client_readers
from magnetar.wire.frames import encode_command, split
from magnetar.wire.proto import pb

uint64 = st.one_of(st.sampled_from([0, 1, 127, 128, 16384, 2**63 - 1, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))


def command_of(frame: bytes) -> tuple[bytes, int, int]:
    (found,), _ = split(frame, 0, 1 << 20)
    return frame, found[0], found[1]


def signed(value: int) -> int:
    return value if value < 2**63 else value - 2**64


@given(uint64, uint64, st.one_of(st.just(-1), uint64), uint64, uint64)
def test_receipt_from_broker_is_read_back(producer, sequence, highest, ledger, entry):
    frame = broker_frames.receipt(producer, sequence, highest, ledger, entry)
    expected = (producer, sequence, highest, signed(ledger), signed(entry))
    assert client_readers.read_receipt(*command_of(frame)) == expected


def test_duplicates_receipt_has_no_place():
    frame = broker_frames.receipt(3, 9, -1, broker_frames.DUPLICATE, broker_frames.DUPLICATE)
    assert client_readers.read_receipt(*command_of(frame)) == (3, 9, -1, -1, -1)


def test_receipt_without_id_has_no_place():
    command = pb.BaseCommand(type=pb.BaseCommand.SEND_RECEIPT)
    command.send_receipt.producer_id = 1
    command.send_receipt.sequence_id = 2
    assert client_readers.read_receipt(*command_of(encode_command(command))) == (1, 2, -1, -1, -1)


@given(uint64, uint64, st.integers(-1, 9), st.integers(0, 2**32 - 1))
def test_receipt_with_more_in_its_id_is_left_to_protobuf(ledger, entry, partition, batch_index):
    command = pb.BaseCommand(type=pb.BaseCommand.SEND_RECEIPT)
    told = command.send_receipt
    told.producer_id = 1
    told.sequence_id = 2
    told.message_id.ledgerId = ledger
    told.message_id.entryId = entry
    told.message_id.partition = partition
    told.message_id.batch_index = batch_index % 2**31
    assert client_readers.read_receipt(*command_of(encode_command(command))) == (
        1,
        2,
        -1,
        signed(ledger),
        signed(entry),
    )


@given(
    uint64,
    uint64,
    uint64,
    st.integers(-1, 2**31 - 1),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20),
    st.one_of(st.just(-1), st.integers(0, 2**63 - 1)),
)
def test_message_from_broker_is_read_back(consumer, ledger, entry, partition, redelivered, words, epoch):
    frame = broker_frames.message(
        consumer,
        ledger,
        entry,
        b"body",
        partition=partition,
        redelivery_count=redelivered,
        ack_set=words,
        epoch=epoch,
    )
    buffer, start, end = command_of(frame)
    expected = (consumer, signed(ledger), signed(entry), partition, redelivered, words or None, epoch)
    assert client_readers.read_message(buffer, start, end) == expected
    assert buffer[end:] == b"body"


@given(st.binary(max_size=60))
def test_noise_is_refused_or_read_as_protobuf_reads_it(noise):
    for read in (client_readers.read_receipt, client_readers.read_message):
        try:
            read(noise, 0, len(noise))
        except BadFrame:
            continue
        assert pb.BaseCommand.FromString(noise).IsInitialized()


@pytest.mark.parametrize("read", [client_readers.read_receipt, client_readers.read_message])
def test_another_command_is_refused(read):
    frame = encode_command(pb.BaseCommand(type=pb.BaseCommand.PING, ping=pb.CommandPing()))
    with pytest.raises(BadFrame):
        read(*command_of(frame))

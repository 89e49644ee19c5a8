"""What a consumer says, byte for byte as protobuf would write it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from magnetar.wire import client_commands
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb

U64 = st.integers(0, (1 << 64) - 1)
WORD = st.integers(-(1 << 63), (1 << 63) - 1)
IDS = st.lists(st.tuples(U64, U64, st.lists(WORD, max_size=3)), min_size=1, max_size=5)


@given(U64, st.sampled_from([0, 1]), IDS, st.integers(-1, 4), st.integers(-1, 1 << 40))
def test_ack(consumer_id, kind, ids, validation_error, request_id):
    command = pb.BaseCommand(type=pb.BaseCommand.ACK)
    command.ack.consumer_id = consumer_id
    command.ack.ack_type = kind
    for ledger, entry, words in ids:
        command.ack.message_id.add(ledgerId=ledger, entryId=entry, ack_set=words)
    if validation_error >= 0:
        command.ack.validation_error = validation_error
    if request_id >= 0:
        command.ack.request_id = request_id
    written = client_commands.ack(consumer_id, kind, ids, validation_error=validation_error, request_id=request_id)
    assert written == encode_command(command)


@given(U64, st.integers(1, (1 << 31) - 1))
def test_flow(consumer_id, permits):
    command = pb.BaseCommand(type=pb.BaseCommand.FLOW)
    command.flow.consumer_id = consumer_id
    command.flow.messagePermits = permits
    assert client_commands.flow(consumer_id, permits) == encode_command(command)


@given(U64, st.lists(st.tuples(U64, U64), max_size=5), st.integers(-1, 1 << 40))
def test_redeliver(consumer_id, positions, epoch):
    command = pb.BaseCommand(type=pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES)
    asked = command.redeliverUnacknowledgedMessages
    asked.consumer_id = consumer_id
    for ledger, entry in positions:
        asked.message_ids.add(ledgerId=ledger, entryId=entry)
    if epoch >= 0:
        asked.consumer_epoch = epoch
    assert client_commands.redeliver(consumer_id, positions, epoch) == encode_command(command)

"""Every request that somebody waits for is ended by a refusal of the right kind."""

from __future__ import annotations

import pytest

from magnetar.wire.frames import decode_command, split
from magnetar.wire.proto import pb
from magnetar.wire.refusals import refusal

T = pb.BaseCommand
ENDS_ON = {
    T.PRODUCER: T.ERROR,
    T.SUBSCRIBE: T.ERROR,
    T.UNSUBSCRIBE: T.ERROR,
    T.SEEK: T.ERROR,
    T.CLOSE_PRODUCER: T.ERROR,
    T.CLOSE_CONSUMER: T.ERROR,
    T.GET_LAST_MESSAGE_ID: T.ERROR,
    T.GET_TOPICS_OF_NAMESPACE: T.ERROR,
    T.WATCH_TOPIC_LIST: T.ERROR,
    T.WATCH_TOPIC_LIST_CLOSE: T.ERROR,
    T.LOOKUP: T.LOOKUP_RESPONSE,
    T.PARTITIONED_METADATA: T.PARTITIONED_METADATA_RESPONSE,
    T.GET_SCHEMA: T.GET_SCHEMA_RESPONSE,
    T.GET_OR_CREATE_SCHEMA: T.GET_OR_CREATE_SCHEMA_RESPONSE,
    T.CONSUMER_STATS: T.CONSUMER_STATS_RESPONSE,
    T.SEND: T.SEND_ERROR,
    T.TC_CLIENT_CONNECT_REQUEST: T.TC_CLIENT_CONNECT_RESPONSE,
    T.NEW_TXN: T.NEW_TXN_RESPONSE,
    T.ADD_PARTITION_TO_TXN: T.ADD_PARTITION_TO_TXN_RESPONSE,
    T.ADD_SUBSCRIPTION_TO_TXN: T.ADD_SUBSCRIPTION_TO_TXN_RESPONSE,
    T.END_TXN: T.END_TXN_RESPONSE,
    T.END_TXN_ON_PARTITION: T.END_TXN_ON_PARTITION_RESPONSE,
    T.END_TXN_ON_SUBSCRIPTION: T.END_TXN_ON_SUBSCRIPTION_RESPONSE,
    T.SCALABLE_TOPIC_LOOKUP: T.SCALABLE_TOPIC_UPDATE,
    T.SCALABLE_TOPIC_SUBSCRIBE: T.SCALABLE_TOPIC_SUBSCRIBE_RESPONSE,
    T.WATCH_SCALABLE_TOPICS: T.WATCH_SCALABLE_TOPICS_UPDATE,
    T.WATCH_TC_ASSIGNMENTS: T.WATCH_TC_ASSIGNMENTS_UPDATE,
}
IDS = ("request_id", "session_id", "watch_id", "sequence_id", "txnid_most_bits")


def a_command(kind: int) -> pb.BaseCommand:
    command = pb.BaseCommand(type=kind)
    request = getattr(command, pb.BaseCommand.DESCRIPTOR.fields_by_number[kind].name)
    request.SetInParent()
    for name in IDS:
        if name in request.DESCRIPTOR.fields_by_name and not (kind == T.ACK and name == "request_id"):
            setattr(request, name, 77)
    return command


@pytest.mark.parametrize("kind", T.Type.values(), ids=T.Type.Name)
def test_each_request_is_ended_by_its_own_kind_of_reply(kind):
    frame = refusal(a_command(kind), 22, "not built")
    if kind not in ENDS_ON:
        assert frame is None
        return
    [(start, middle, _)], _ = split(frame, 0, 1 << 20)
    answer = decode_command(frame, start, middle)
    assert answer.type == ENDS_ON[kind]
    reply = getattr(answer, pb.BaseCommand.DESCRIPTOR.fields_by_number[answer.type].name)
    said = reply.error_code if "error_code" in reply.DESCRIPTOR.fields_by_name else reply.error
    text = reply.error_message if "error_message" in reply.DESCRIPTOR.fields_by_name else reply.message
    assert (said, text) == (22, "not built")
    assert [getattr(reply, name) for name in IDS if name in reply.DESCRIPTOR.fields_by_name]
    for name in IDS:
        if name in reply.DESCRIPTOR.fields_by_name and kind != T.NEW_TXN:
            assert getattr(reply, name) == 77


def test_ack_is_refused_only_if_it_asked_for_an_answer():
    quiet = pb.BaseCommand(type=T.ACK, ack=pb.CommandAck(consumer_id=1, ack_type=0))
    assert refusal(quiet, 22, "no") is None
    asked = pb.BaseCommand(type=T.ACK, ack=pb.CommandAck(consumer_id=1, ack_type=0, request_id=9))
    frame = refusal(asked, 22, "no")
    [(start, middle, _)], _ = split(frame, 0, 1 << 20)
    assert decode_command(frame, start, middle).ackResponse.request_id == 9

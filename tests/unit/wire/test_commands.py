"""Every command a broker sends can be read back, and carries what clients cannot do without."""

from __future__ import annotations

import pytest

from magnetar.wire import commands
from magnetar.wire.frames import decode_command, split
from magnetar.wire.proto import pb

A_SCHEMA = pb.Schema(name="s", schema_data=b"{}", type=pb.Schema.Json)
AN_ID = pb.MessageIdData(ledgerId=3, entryId=4)


def read(frame: bytes) -> pb.BaseCommand:
    [(start, middle, end)], consumed = split(frame, 0, 1 << 20)
    assert middle == end == consumed
    return decode_command(frame, start, middle)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (commands.PING, pb.BaseCommand(type="PING", ping=pb.CommandPing())),
        (commands.PONG, pb.BaseCommand(type="PONG", pong=pb.CommandPong())),
        (commands.success(5), pb.BaseCommand(type="SUCCESS", success=pb.CommandSuccess(request_id=5))),
        (
            commands.error(5, 12, "no"),
            pb.BaseCommand(type="ERROR", error=pb.CommandError(request_id=5, error=12, message="no")),
        ),
        (
            commands.send_error(1, 2, 9, "bad"),
            pb.BaseCommand(
                type="SEND_ERROR",
                send_error=pb.CommandSendError(producer_id=1, sequence_id=2, error=9, message="bad"),
            ),
        ),
        (
            commands.close_producer(1),
            pb.BaseCommand(
                type="CLOSE_PRODUCER", close_producer=pb.CommandCloseProducer(producer_id=1, request_id=2**64 - 1)
            ),
        ),
        (
            commands.close_consumer(1, url="pulsar://b:1", url_tls="pulsar+ssl://b:2"),
            pb.BaseCommand(
                type="CLOSE_CONSUMER",
                close_consumer=pb.CommandCloseConsumer(
                    consumer_id=1,
                    request_id=2**64 - 1,
                    assignedBrokerServiceUrl="pulsar://b:1",
                    assignedBrokerServiceUrlTls="pulsar+ssl://b:2",
                ),
            ),
        ),
        (
            commands.active_consumer_change(1, False),
            pb.BaseCommand(
                type="ACTIVE_CONSUMER_CHANGE",
                active_consumer_change=pb.CommandActiveConsumerChange(consumer_id=1, is_active=False),
            ),
        ),
        (
            commands.reached_end_of_topic(8),
            pb.BaseCommand(type="REACHED_END_OF_TOPIC", reachedEndOfTopic=pb.CommandReachedEndOfTopic(consumer_id=8)),
        ),
        (
            commands.ack_response(1, 2),
            pb.BaseCommand(type="ACK_RESPONSE", ackResponse=pb.CommandAckResponse(consumer_id=1, request_id=2)),
        ),
        (
            commands.ack_response(1, 2, code=1, text="no"),
            pb.BaseCommand(
                type="ACK_RESPONSE",
                ackResponse=pb.CommandAckResponse(consumer_id=1, request_id=2, error=1, message="no"),
            ),
        ),
        (
            commands.last_message_id(1, AN_ID, AN_ID),
            pb.BaseCommand(
                type="GET_LAST_MESSAGE_ID_RESPONSE",
                getLastMessageIdResponse=pb.CommandGetLastMessageIdResponse(
                    request_id=1, last_message_id=AN_ID, consumer_mark_delete_position=AN_ID
                ),
            ),
        ),
        (
            commands.consumer_stats(1, {"consumerName": "c", "availablePermits": 5}),
            pb.BaseCommand(
                type="CONSUMER_STATS_RESPONSE",
                consumerStatsResponse=pb.CommandConsumerStatsResponse(
                    request_id=1, consumerName="c", availablePermits=5
                ),
            ),
        ),
        (
            commands.schema(1, A_SCHEMA, b"\0" * 8),
            pb.BaseCommand(
                type="GET_SCHEMA_RESPONSE",
                getSchemaResponse=pb.CommandGetSchemaResponse(request_id=1, schema=A_SCHEMA, schema_version=b"\0" * 8),
            ),
        ),
        (
            commands.schema_created(1, b"v"),
            pb.BaseCommand(
                type="GET_OR_CREATE_SCHEMA_RESPONSE",
                getOrCreateSchemaResponse=pb.CommandGetOrCreateSchemaResponse(request_id=1, schema_version=b"v"),
            ),
        ),
        (
            commands.watch_topic_list_success(1, 2, ["a"], "00"),
            pb.BaseCommand(
                type="WATCH_TOPIC_LIST_SUCCESS",
                watchTopicListSuccess=pb.CommandWatchTopicListSuccess(
                    request_id=1, watcher_id=2, topic=["a"], topics_hash="00"
                ),
            ),
        ),
        (
            commands.watch_topic_update(2, ["a"], ["b"], "00"),
            pb.BaseCommand(
                type="WATCH_TOPIC_UPDATE",
                watchTopicUpdate=pb.CommandWatchTopicUpdate(
                    watcher_id=2, new_topics=["a"], deleted_topics=["b"], topics_hash="00"
                ),
            ),
        ),
    ],
    ids=lambda value: "",
)
def test_commands_say_what_they_were_told(frame, expected):
    assert read(frame) == expected


def test_connected_carries_what_clients_need():
    flags = pb.FeatureFlags(supports_topic_watchers=True, magnetar_extensions=1)
    command = read(commands.connected("Magnetar", 21, 5_242_880, flags)).connected
    assert (command.server_version, command.protocol_version, command.max_message_size) == ("Magnetar", 21, 5_242_880)
    assert command.feature_flags == flags


def test_lookups_always_set_their_response():
    connect = read(commands.lookup_connect(1, "pulsar://b:1", "pulsar+ssl://b:2")).lookupTopicResponse
    assert connect.response == pb.CommandLookupTopicResponse.Connect
    assert (connect.brokerServiceUrl, connect.brokerServiceUrlTls) == ("pulsar://b:1", "pulsar+ssl://b:2")
    redirect = read(commands.lookup_redirect(1, "pulsar://b:1", authoritative=False)).lookupTopicResponse
    assert redirect.HasField("response")
    assert redirect.response == pb.CommandLookupTopicResponse.Redirect
    assert not redirect.HasField("brokerServiceUrlTls")
    assert not redirect.authoritative
    failed = read(commands.lookup_failed(1, 6, "wait")).lookupTopicResponse
    assert (failed.response, failed.error, failed.message) == (pb.CommandLookupTopicResponse.Failed, 6, "wait")
    found = read(commands.partitions(1, 0)).partitionMetadataResponse
    assert found.HasField("response")
    assert found.HasField("partitions")
    assert read(commands.partitions_failed(1, 11, "none")).partitionMetadataResponse.error == 11


def test_producer_success_says_only_what_is_known():
    plain = read(commands.producer_success(1, "p")).producer_success
    assert (plain.last_sequence_id, plain.producer_ready) == (-1, True)
    assert not plain.HasField("schema_version")
    assert not plain.HasField("topic_epoch")
    full = read(
        commands.producer_success(1, "p", last_sequence_id=41, schema_version=b"v", topic_epoch=0, ready=False)
    ).producer_success
    assert (full.last_sequence_id, full.schema_version, full.producer_ready) == (41, b"v", False)
    assert full.HasField("topic_epoch")


def test_topics_of_namespace():
    some = read(commands.topics_of_namespace(1, ["a", "b"], topics_hash="00", filtered=True))
    assert list(some.getTopicsOfNamespaceResponse.topics) == ["a", "b"]
    assert some.getTopicsOfNamespaceResponse.filtered
    same = read(commands.topics_of_namespace(1, [], changed=False)).getTopicsOfNamespaceResponse
    assert not same.changed
    assert not same.HasField("topics_hash")


def test_code_protocol_does_not_know_is_unknown_error():
    assert read(commands.error(1, 99, "?")).error.error == 0

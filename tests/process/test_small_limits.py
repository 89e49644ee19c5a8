"""Limits that are too large to reach in a test, on a broker where they are low: each at its edge and one beyond.

The broker's own settings are lowered in its file, and constants of `base/limits.py` by the program of the tests. At the
edge the broker serves. One beyond it refuses and names the limit, the connection goes on, and no turn of the loop is
long.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import pytest

from magnetar.base import limits
from magnetar.wire import message
from magnetar.wire.proto import pb
from simulation.crash.frame_connection import with_entry
from tests.process.hostile import ANSWER_S, T, Talker, a_command
from tests.servers.standalone import Standalone

LOWERED = {
    "CONNECTION_CONSUMERS_MAX": 12,
    "CURSORS_ACKS_BYTES_MAX": 1_000 * limits.CURSOR_GAP_BYTES,
    "HANDSHAKE_S": 1.0,
    "HTTP_CONNECTIONS_MAX": 12,
    "SUBSCRIPTIONS_MAX": 5,
    "SUBSCRIPTIONS_STATE_BYTES_MAX": 1_000 * limits.UNACKED_ENTRY_BYTES,
    "TOPIC_LISTS_NAMES_MAX": 10,
}
CONNECTIONS, SUBSCRIPTIONS, TOPICS, PRODUCERS = 10, 4, 6, 3
SETTINGS = {
    "brokerMaxConnectionsPerIp": CONNECTIONS,
    "maxProducersPerTopic": PRODUCERS,
    "maxSubscriptionsPerTopic": SUBSCRIPTIONS,
}
TOPIC = "persistent://public/default/small"
Step = Callable[[int], bytes]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MAGNETAR_PROBED_LIMITS", json.dumps(LOWERED))
        with Standalone(tmp_path_factory.mktemp("broker"), SETTINGS) as running:
            running.admin("PUT", "namespaces/public/few", {"max_topics_per_namespace": TOPICS})
            running.admin("PUT", "scalable/public/default/wide")
            yield running
        assert "Traceback" not in running.log(100_000)


def a_subscription(number: int) -> bytes:
    return a_command(
        T.SUBSCRIBE, topic=TOPIC, subscription=f"s{number}", consumer_id=number, request_id=number, subType=1
    )


def a_consumer(number: int) -> bytes:
    words = {"topic": f"{TOPIC}-shared", "subscription": "s", "subType": 1}
    return a_command(T.SUBSCRIBE, consumer_id=number, request_id=number, **words)


def a_producer(number: int) -> bytes:
    return a_command(T.PRODUCER, topic=f"{TOPIC}-produced", producer_id=number, request_id=number)


@pytest.mark.parametrize(
    ("limit", "step"),
    [
        (SUBSCRIPTIONS, a_subscription),
        (LOWERED["CONNECTION_CONSUMERS_MAX"], a_consumer),
        (PRODUCERS, a_producer),
    ],
    ids=["subscriptions of a topic", "consumers of a connection", "producers of a topic"],
)
def test_command_beyond_limit_is_refused_naming_it(broker: Standalone, limit: float, step: Step) -> None:
    count = int(limit)
    with Talker(broker.port) as talker:
        kinds = [answer.type for answer in talker.ask_many([step(number) for number in range(1, count + 1)])]
        assert set(kinds) <= {T.SUCCESS, T.PRODUCER_SUCCESS}
        [beyond] = talker.ask_many([step(count + 1)])
        assert beyond.type == T.ERROR
        assert str(count) in beyond.error.message
        assert talker.works()


def test_connections_of_address_have_their_number(broker: Standalone) -> None:
    with ExitStack() as held:
        talkers = [held.enter_context(Talker(broker.port)) for _ in range(CONNECTIONS)]
        beyond = held.enter_context(Talker(broker.port, connected=False))
        beyond.say_if_heard(a_command(T.CONNECT, client_version="x", protocol_version=21))
        assert beyond.shut_out()
        assert all(talker.works() for talker in talkers)


def test_stranger_has_its_time_and_no_more(broker: Standalone) -> None:
    """Ten seconds, here one (D22)."""
    with Talker(broker.port, connected=False) as stranger:
        began = time.monotonic()
        assert stranger.shut_out()
        assert 0.8 * LOWERED["HANDSHAKE_S"] < time.monotonic() - began < limits.HANDSHAKE_S


def test_watched_lists_share_number_of_names(broker: Standalone) -> None:
    broker.admin("PUT", "namespaces/public/listed", {})
    for number in range(int(LOWERED["TOPIC_LISTS_NAMES_MAX"]) + 1):
        broker.admin("PUT", f"persistent/public/listed/t{number}")

    def watch(number: int, pattern: str) -> bytes:
        words = {"namespace": "public/listed", "topics_pattern": f"persistent://public/listed/{pattern}"}
        return a_command(T.WATCH_TOPIC_LIST, request_id=number, watcher_id=number, **words)

    with Talker(broker.port) as talker:
        [first, same, other] = talker.ask_many([watch(1, "t.*"), watch(2, "t.*"), watch(3, "t1.*")], at_once=1)
        assert (first.type, same.type) == (T.WATCH_TOPIC_LIST_SUCCESS, T.WATCH_TOPIC_LIST_SUCCESS)
        assert other.type == T.ERROR
        assert "10 names" in other.error.message
        assert talker.works()


def stored(broker: Standalone, topic: str, count: int) -> None:
    entry = message.single(pb.MessageMetadata(producer_name="x", sequence_id=0, publish_time=1), b"x")
    with Talker(broker.port) as talker:
        assert talker.ask(T.PRODUCER, topic=topic, producer_id=1, request_id=1).type == T.PRODUCER_SUCCESS
        for first in range(0, count, 100):
            sends = []
            for number in range(first, first + 100):
                send = pb.BaseCommand(type=T.SEND)
                send.send.producer_id, send.send.sequence_id = 1, number
                sends.append(with_entry(send, entry))
            talker.say(b"".join(sends))
            assert {talker.hear().type for _ in sends} == {T.SEND_RECEIPT}


def heard(talker: Talker) -> list[pb.MessageIdData]:
    """The messages that come until the broker is silent for a second."""
    talker.socket.settimeout(1.0)
    found = []
    with suppress(TimeoutError):
        while True:
            found.append(talker.hear().message.message_id)
    talker.socket.settimeout(ANSWER_S)
    return found


def test_entries_and_acknowledgements_of_subscriptions_have_sums(broker: Standalone) -> None:
    topic, count = f"{TOPIC}-sums", 4_000
    stored(broker, topic, count)
    with Talker(broker.port) as talker:
        words = {"topic": topic, "subscription": "s", "subType": 1, "initialPosition": 1}
        assert talker.ask(T.SUBSCRIBE, consumer_id=1, request_id=1, **words).type == T.SUCCESS
        talker.say(a_command(T.FLOW, consumer_id=1, messagePermits=2 * count))
        first = heard(talker)
        assert 1_000 <= len(first) <= 1_000 + limits.DISPATCH_RUN_ENTRIES_MAX
        ids = [{"ledgerId": one.ledgerId, "entryId": one.entryId} for one in first]
        talker.say(a_command(T.ACK, consumer_id=1, ack_type=0, message_id=ids))
        assert len(heard(talker)) >= 1_000, "room for others"
        gaps = [{"ledgerId": ids[0]["ledgerId"], "entryId": entry} for entry in range(len(first) + 1, count, 2)]
        asked = a_command(T.ACK, consumer_id=1, ack_type=0, message_id=gaps, request_id=9)
        talker.say(asked)
        answers = []
        while not answers or answers[-1].type != T.ACK_RESPONSE:
            answers.append(talker.hear())
        assert "too many gaps" in answers[-1].ackResponse.message
        assert talker.works()


def test_topics_of_namespace_have_their_number(broker: Standalone) -> None:
    for number in range(TOPICS):
        broker.admin("PUT", f"persistent/public/few/t{number}")
    beyond = broker.ask("PUT", "/admin/v2/persistent/public/few/more")
    assert beyond.status_code == 412
    with Talker(broker.port) as talker:
        answer = talker.ask(T.PRODUCER, topic="persistent://public/few/more", producer_id=1, request_id=1)
        assert answer.type == T.ERROR


def test_subscriptions_of_scalable_topic_have_their_number(broker: Standalone) -> None:
    count = min(int(LOWERED["SUBSCRIPTIONS_MAX"]), SUBSCRIPTIONS)
    path = "/admin/v2/scalable/public/default/wide/subscriptions"
    for number in range(count):
        assert broker.ask("PUT", f"{path}/s{number}", type="QUEUE").status_code < 300
    beyond = broker.ask("PUT", f"{path}/more", type="QUEUE")
    assert 400 <= beyond.status_code < 500
    assert str(count) in beyond.text


@pytest.mark.parametrize("what", ["", "/subscription/p"])
def test_stored_properties_have_their_size(broker: Standalone, what: str) -> None:
    path = "/admin/v2/persistent/public/default/described"
    if not what:
        broker.admin("PUT", "persistent/public/default/described")
    else:
        assert broker.ask("PUT", f"{path}{what}").status_code < 300
    fitting = limits.STORED_PROPERTIES_BYTES_MAX - 1000
    assert broker.ask("PUT", f"{path}{what}/properties", {"k": "x" * fitting}).status_code < 300
    beyond = broker.ask("PUT", f"{path}{what}/properties", {"k": "x" * (limits.STORED_PROPERTIES_BYTES_MAX + 1)})
    assert beyond.status_code == 412
    assert str(limits.STORED_PROPERTIES_BYTES_MAX) in beyond.text


def test_connections_over_rest_have_number_and_probes_are_answered(broker: Standalone) -> None:
    trickle = b"PUT /admin/v2/tenants/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
    with ExitStack() as held:
        for _ in range(int(LOWERED["HTTP_CONNECTIONS_MAX"])):
            held.enter_context(socket.create_connection(("127.0.0.1", broker.http_port), 20)).sendall(trickle)
        time.sleep(0.2)
        assert status(broker.http_port, "/admin/v2/tenants") == 503
        assert status(broker.http_port, "/livez") == 200
    until = time.monotonic() + 20
    while status(broker.http_port, "/admin/v2/tenants") != 200:
        assert time.monotonic() < until


def status(port: int, path: str) -> int:
    with socket.create_connection(("127.0.0.1", port), 20) as one:
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        return int(one.recv(64).split()[1])

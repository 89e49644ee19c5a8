"""Hostile clients on real sockets, while another client works: each is answered or shut out, and nobody else notices.

The neighbour publishes and reads through every attack; what the broker holds in memory stays where it was. Seeds are
in the messages of failures.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from magnetar.wire import frames, message
from magnetar.wire.frames import encode_command
from magnetar.wire.proto import pb
from simulation.crash.frame_clients import ack_each
from simulation.crash.frame_connection import FrameConnection, with_entry
from tests.process.swarm import Swarm, until
from tests.servers.standalone import Standalone

SEED = int(os.environ.get("MAGNETAR_SEED", random.randrange(1 << 30)))
ANSWER_S = 20.0  # a loop that is not stalled answers long before
GROWN_BYTES_MAX = 48 * 1024 * 1024  # of resident memory over all attacks together
TOPIC = "persistent://public/default/neighbour"
FRAME_BYTES_MAX = 8 * 1024 * 1024
_neighbours = itertools.count()
SHARED = pb.CommandSubscribe.Shared
_T = pb.BaseCommand


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("broker")) as running:
        work_beside(running, lambda: None)  # everything lazy is loaded before memory is looked at
        yield running
        assert "Traceback" not in running.log(100_000)


def work_beside(broker: Standalone, attack: Callable[[], object]) -> object:
    """Run the attack while a neighbour publishes and reads; it must get what it is owed, before and after."""

    async def body() -> object:
        swarm = Swarm(broker.port, SEED)
        swarm.publisher(f"{TOPIC}-{next(_neighbours)}", "p")
        swarm.subscriber(swarm.publishers[0].topic, "s", "Exclusive", ack_each)
        await swarm.subscribe_first()
        swarm.start()
        try:
            result = await asyncio.to_thread(attack)
            seen = len(swarm.history.deliveries)
            async with asyncio.timeout(ANSWER_S):
                await until(lambda: len(swarm.history.deliveries) > seen + 5)
            await swarm.at_rest("after the attack")
            assert swarm.problems == []
            assert swarm.history.life == 1
        finally:
            await swarm.stop()
        return result

    return asyncio.run(body())


class Raw:
    """A socket that says what it is told and tells what it heard."""

    def __init__(self, broker: Standalone, *, connected: bool = False) -> None:
        self.socket = socket.create_connection(("localhost", broker.port), timeout=ANSWER_S)
        self._heard = b""
        if connected:
            connect = pb.BaseCommand(type=_T.CONNECT)
            connect.connect.client_version = "hostile"
            connect.connect.protocol_version = 21
            self.say(encode_command(connect))
            assert self.hear().type == _T.CONNECTED

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def say(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError:
            pass  # shut out while it was still talking

    def hear(self) -> pb.BaseCommand:
        """The next command; ConnectionError: shut out."""
        while True:
            found, _ = frames.split(self._heard, 0, FRAME_BYTES_MAX)
            if found:
                start, end, stop = found[0]
                command = frames.decode_command(self._heard, start, end)
                self._heard = self._heard[stop:]
                assert command is not None
                if command.type == _T.PING:
                    continue
                return command
            data = self.socket.recv(65536)
            if not data:
                raise ConnectionResetError("shut out")
            self._heard += data

    def shut_out(self) -> bool:
        """Read to the end; whether there is one."""
        try:
            while self.socket.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            pass
        return True


# Shut out


def sizes(total: int, command: int) -> bytes:
    return struct.pack(">II", total, command)


def a_command(kind: int, **fields: object) -> bytes:
    command = pb.BaseCommand(type=kind)  # type: ignore[arg-type]
    body = getattr(command, frames._FIELD_OF_TYPE[kind])
    body.SetInParent()
    for name, value in fields.items():
        setattr(body, name, value)
    return encode_command(command)


def a_send(producer_id: int, sequence: int, entry: bytes) -> bytes:
    command = pb.BaseCommand(type=_T.SEND)
    command.send.producer_id = producer_id
    command.send.sequence_id = sequence
    return with_entry(command, entry)


def an_entry(payload: bytes) -> bytes:
    return message.single(pb.MessageMetadata(producer_name="x", sequence_id=0, publish_time=1), payload)


BEFORE_CONNECT = {
    "a huge frame": sizes(0xFFFFFFFF, 4),
    "a frame beyond the limit": sizes(6 * 1024 * 1024, 20),
    "a large frame of somebody unknown": sizes(1024 * 1024, 20) + bytes(100_000),
    "a frame of nothing": sizes(0, 0),
    "a command longer than its frame": sizes(10, 100) + bytes(100),
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "PING before CONNECT": a_command(_T.PING),
    "PRODUCER before CONNECT": a_command(_T.PRODUCER, topic="t", producer_id=1, request_id=1),
    "SEND before CONNECT": a_send(1, 1, an_entry(b"x")),
}
AFTER_CONNECT = {
    "CONNECT again": a_command(_T.CONNECT, client_version="x"),
    "a broker's answer": a_command(_T.SUCCESS, request_id=1),
    "SEND for a producer that never was": a_send(7, 1, an_entry(b"x")),
    "a command without its fields": sizes(6, 2) + b"\x08\x05",
    "a command that is no protobuf": sizes(24, 20) + b"\xff" * 20,
    "text that is not UTF-8": encode_command(
        pb.BaseCommand.FromString(
            pb.BaseCommand(type=_T.LOOKUP, lookupTopic={"topic": "abcd", "request_id": 1}).SerializeToString()
        )
    ).replace(b"abcd", b"\xff\xfe\xfd\xfc"),
}


@pytest.mark.parametrize("data", BEFORE_CONNECT.values(), ids=BEFORE_CONNECT.keys())
def test_stranger_who_lies_is_shut_out(broker: Standalone, data: bytes) -> None:
    with Raw(broker) as raw:
        raw.say(data)
        assert raw.shut_out()


@pytest.mark.parametrize("data", AFTER_CONNECT.values(), ids=AFTER_CONNECT.keys())
def test_client_that_breaks_protocol_is_shut_out(broker: Standalone, data: bytes) -> None:
    with Raw(broker, connected=True) as raw:
        raw.say(data)
        assert raw.shut_out()


def test_noise_shuts_out_whoever_makes_it(broker: Standalone) -> None:
    chance = random.Random(SEED)

    def attack() -> None:
        for number in range(300):
            with Raw(broker, connected=number % 2 == 0) as raw:
                raw.say(chance.randbytes(chance.randint(8, 5_000)))
                raw.socket.shutdown(socket.SHUT_WR)
                assert raw.shut_out(), f"seed {SEED}, number {number}"

    work_beside(broker, attack)


# Answered


def test_wrong_checksum_is_told_and_next_send_is_stored(broker: Standalone) -> None:
    entry = bytearray(an_entry(b"some payload"))
    entry[-1] ^= 1
    with Raw(broker, connected=True) as raw:
        raw.say(a_command(_T.PRODUCER, topic="persistent://public/default/checked", producer_id=1, request_id=1))
        assert raw.hear().type == _T.PRODUCER_SUCCESS
        raw.say(a_send(1, 5, bytes(entry)) + a_send(1, 6, an_entry(b"x")))
        refused, stored = raw.hear(), raw.hear()
    assert (refused.type, refused.send_error.sequence_id) == (_T.SEND_ERROR, 5)
    assert refused.send_error.error == pb.ChecksumError
    assert (stored.type, stored.send_receipt.sequence_id) == (_T.SEND_RECEIPT, 6)


NAMES = [
    "persistent://a/b",
    "persistent:///x/y",
    "nowhere://a/b/c",
    "persistent://public/default/" + "x" * 60_000,
    "persistent://public/de fault/x",
    "persistent://no-tenant/no-namespace/x",
    "topic://public/default/x",
    "",
]


@pytest.mark.parametrize("name", NAMES, ids=[name[:40] or "empty" for name in NAMES])
def test_name_that_is_none_is_refused_by_every_command(broker: Standalone, name: str) -> None:
    with Raw(broker, connected=True) as raw:
        for request, data in enumerate(
            [
                a_command(_T.PRODUCER, topic=name, producer_id=1, request_id=0),
                a_command(_T.SUBSCRIBE, topic=name, subscription="s", subType=SHARED, consumer_id=1, request_id=1),
                a_command(_T.GET_SCHEMA, topic=name, request_id=2),
            ]
        ):
            raw.say(data)
            answer = raw.hear()
            assert answer.type in (_T.ERROR, _T.GET_SCHEMA_RESPONSE), (request, answer)
            if answer.type == _T.ERROR:
                assert answer.error.message
                assert "Error" not in answer.error.message.split(":")[0], answer.error.message
        raw.say(a_command(_T.PING))
        assert raw.hear().type == _T.PONG


def test_commands_about_nobody_change_nothing(broker: Standalone) -> None:
    """Acknowledgements, permits, seeks and closes of consumers and producers that are not there."""
    with Raw(broker, connected=True) as raw:
        acks = pb.BaseCommand(type=_T.ACK)
        acks.ack.consumer_id = 9
        acks.ack.ack_type = pb.CommandAck.Individual
        acks.ack.message_id.add(ledgerId=2**64 - 1, entryId=2**64 - 1)
        raw.say(encode_command(acks))
        raw.say(a_command(_T.FLOW, consumer_id=9, messagePermits=2**31 - 1))
        raw.say(a_command(_T.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=9))
        for kind in (_T.SEEK, _T.UNSUBSCRIBE, _T.GET_LAST_MESSAGE_ID):
            raw.say(a_command(kind, consumer_id=9, request_id=1))
            assert raw.hear().type == _T.ERROR
        for kind, field in ((_T.CLOSE_CONSUMER, "consumer_id"), (_T.CLOSE_PRODUCER, "producer_id")):
            raw.say(a_command(kind, request_id=2, **{field: 9}))
            assert raw.hear().type == _T.SUCCESS
        raw.say(a_command(_T.PING))
        assert raw.hear().type == _T.PONG


def test_expensive_pattern_does_not_delay_others(broker: Standalone) -> None:
    with Raw(broker, connected=True) as raw:
        raw.say(a_command(_T.PRODUCER, topic="persistent://public/default/" + "a" * 60, producer_id=1, request_id=1))
        assert raw.hear().type == _T.PRODUCER_SUCCESS

        def attack() -> None:
            raw.say(
                a_command(
                    _T.WATCH_TOPIC_LIST,
                    request_id=2,
                    watcher_id=1,
                    namespace="public/default",
                    topics_pattern="persistent://public/default/(a+)+b",
                )
            )
            assert raw.hear().type in (_T.WATCH_TOPIC_LIST_SUCCESS, _T.ERROR)

        work_beside(broker, attack)


# Floods


def test_silent_and_slow_connections_hold_little_and_block_nobody(broker: Standalone) -> None:
    before = broker.rss_bytes()
    raws: list[Raw] = []

    def attack() -> None:
        for number in range(200):
            raw = Raw(broker, connected=number % 2 == 0)
            raw.say(sizes(50_000, 20)[: 3 + number % 6])
            raws.append(raw)
        for byte in a_command(_T.PING) * 2:
            for raw in raws:
                raw.say(bytes([byte]))

    work_beside(broker, attack)
    for raw in raws:
        raw.socket.close()
    assert broker.rss_bytes() - before < GROWN_BYTES_MAX


def test_flood_of_questions_whose_answers_nobody_reads_holds_little(broker: Standalone) -> None:
    before = broker.rss_bytes()
    raws = [Raw(broker, connected=True) for _ in range(3)]
    pings = a_command(_T.PING) * 10_000

    def attack() -> None:
        for raw in raws:
            raw.socket.settimeout(0.2)
            for _ in range(200):  # far more than any buffer between the two holds
                try:
                    raw.socket.sendall(pings)
                except OSError:
                    break

    work_beside(broker, attack)
    assert broker.rss_bytes() - before < GROWN_BYTES_MAX
    for raw in raws:
        raw.socket.close()


def test_connections_that_come_and_go_leave_nothing_behind(broker: Standalone) -> None:
    def attack() -> None:
        for number in range(1_000):
            with Raw(broker) as raw:
                if number % 3:
                    raw.say(a_command(_T.CONNECT, client_version="passing by"))

    work_beside(broker, attack)
    before = broker.rss_bytes()
    work_beside(broker, attack)
    assert broker.rss_bytes() - before < GROWN_BYTES_MAX // 4


async def _alive(broker: Standalone) -> None:
    wire = await FrameConnection.open("localhost", broker.port)
    wire.close()


def test_after_all_of_this_broker_answers_as_before(broker: Standalone, tmp_path: Path) -> None:
    asyncio.run(_alive(broker))
    assert broker.ask("GET", "/admin/v2/brokers/health").status_code == 200

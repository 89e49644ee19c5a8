"""Known secrets, keys and payloads are in no log, answer, metric or command line of a real broker (D8, D9)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

import magnetar
from magnetar.wire import message
from magnetar.wire.proto import pb
from simulation.crash.frame_connection import with_entry
from tests.process.hostile import T, Talker, a_command
from tests.servers.standalone import Standalone

TOKEN = "eyJhbGciOiJIUzI1NiJ9.the-token-of-an-operator"
SHARED = "the-secret-that-brokers-share"
ASKED = [
    ("GET", "/admin/v2/tenants"),
    ("GET", "/admin/v2/no/such/path"),
    ("PUT", "/admin/v2/tenants/bad"),
    ("POST", "/admin/v2/peers"),
    ("GET", "/admin/v2/persistent/public/default/none/stats"),
    ("GET", "/admin/v2/persistent/public/default/none/examinemessage"),
    ("POST", f"/admin/v2/brokers/configuration/brokerClientAuthenticationParameters/{SHARED}"),
    ("GET", "/admin/v2/brokers/configuration/runtime"),
    ("GET", "/admin/v2/brokers/configuration/values"),
    ("GET", "/admin/v2/brokers/connections"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
]


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_nowhere_to_be_seen(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGNETAR_LOG", form)
    monkeypatch.setenv("MAGNETAR_LOG_LEVEL", "debug")
    settings = {"brokerClientAuthenticationParameters": f"token:{SHARED}", "myOwnPassword": "", "someKeyFile": SHARED}
    with Standalone(tmp_path, settings) as broker:
        seen = []
        for method, path in ASKED:
            answer = broker.ask(method, path, headers={"authorization": f"Bearer {TOKEN}"})
            seen.append(answer.text + str(answer.headers))
        seen.append(Path(f"/proc/{broker.pid}/cmdline").read_text())
    seen.append(broker.log(100_000))
    for text in seen:
        assert TOKEN not in text
        assert SHARED not in text


PAYLOAD, KEY, PROPERTY = "the-payload-of-a-customer", "the-key-of-a-customer", "the-property-of-a-customer"
TOPIC = "persistent://public/default/kept"
PATH = "/admin/v2/persistent/public/default/kept"


class FailingDisk(Standalone):
    program: ClassVar[list[str]] = ["tests.servers.failing"]


def an_entry(**fields: object) -> bytes:
    known = {"producer_name": "p", "sequence_id": 0, "publish_time": 1, "partition_key": KEY, **fields}
    metadata = pb.MessageMetadata(**known)
    metadata.properties.add(key="k", value=PROPERTY)
    return message.single(metadata, PAYLOAD.encode())


def a_send(number: int, entry: bytes, producer: int = 1) -> bytes:
    send = pb.BaseCommand(type=T.SEND)
    send.send.producer_id, send.send.sequence_id = producer, number
    return with_entry(send, entry)


def published(broker: Standalone) -> int:
    """Messages that are stored, some of them odd."""
    entries = [
        an_entry(),
        an_entry(publish_time=10**17),
        an_entry(compression=pb.LZ4, uncompressed_size=20),
        an_entry(event_time=2**64 - 1, deliver_at_time=-(10**17)),
    ]
    with Talker(broker.port) as talker:
        assert talker.ask(T.PRODUCER, topic=TOPIC, producer_id=1, request_id=1).type == T.PRODUCER_SUCCESS
        for number, entry in enumerate(entries):
            talker.say(a_send(number, entry))
            assert talker.hear().type == T.SEND_RECEIPT
    return len(entries)


def refused(broker: Standalone) -> None:
    """Messages that the broker does not take, and what is no command."""
    torn = bytearray(an_entry())
    torn[-1] ^= 1
    for data in (a_send(9, bytes(torn)), a_send(9, an_entry(), producer=7), PAYLOAD.encode() * 100):
        with Talker(broker.port) as talker:
            talker.ask(T.PRODUCER, topic=TOPIC, producer_id=1, request_id=1)
            talker.say_if_heard(data)
            talker.socket.settimeout(0.3)
            talker.shut_out()
    with Talker(broker.port, connected=False) as talker:
        talker.say(a_command(T.CONNECT, client_version="x", auth_data=TOKEN.encode(), protocol_version=21))
        talker.say_if_heard(TOKEN.encode() * 100)
        talker.shut_out()


@pytest.mark.parametrize("form", ["text", "json"])
def test_messages_are_in_no_log_and_no_statistic(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGNETAR_LOG", form)
    monkeypatch.setenv("MAGNETAR_LOG_LEVEL", "debug")
    with Standalone(tmp_path) as broker:
        count = published(broker)
        refused(broker)
        assert broker.ask("PUT", f"{PATH}/subscription/s").status_code < 300
        headers = {"authorization": f"Bearer {TOKEN}", "cookie": TOKEN}
        for number in range(1, count + 2):  # shows the message to whoever asks for it, and to nobody else
            path = f"{PATH}/examinemessage?initialPosition=earliest&messagePosition={number}"
            assert broker.ask("GET", path, headers=headers).status_code < 500
        assert broker.ask("PUT", f"{PATH}/properties", [PAYLOAD], headers=headers).status_code == 400
        read = [f"{PATH}/stats", f"{PATH}/internalStats", "/metrics", "/admin/v2/brokers/connections"]
        seen = [broker.ask("GET", path, headers=headers).text for path in read]
    seen.append(broker.log(100_000))
    for text in seen:
        assert [secret for secret in (PAYLOAD, KEY, PROPERTY, TOKEN) if secret in text] == []


def test_broker_that_fails_shows_no_message_that_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGNETAR_LOG_LEVEL", "debug")
    broker = FailingDisk(tmp_path)
    with broker, Talker(broker.port) as talker:
        assert talker.ask(T.PRODUCER, topic=TOPIC, producer_id=1, request_id=1).type == T.PRODUCER_SUCCESS
        (tmp_path / "fail").touch()
        talker.say(a_send(1, an_entry()))
        assert talker.shut_out()
    log = broker.log(100_000)
    assert "cannot sync" in log
    assert [secret for secret in (PAYLOAD, KEY, PROPERTY) if secret in log] == []


@pytest.mark.parametrize("words", [["topic", "list"], ["topic", "show", "persistent://public/default/none"]])
def test_errors_of_command_and_client_hide_token(words: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "MAGNETAR_TOKEN": TOKEN, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "magnetar.cli.main", *words, "--admin-url", "http://127.0.0.1:9"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode != 0
    assert TOKEN not in ran.stdout + ran.stderr
    with magnetar.Admin("http://127.0.0.1:9", token=TOKEN, timeout_s=1.0) as admin:
        with pytest.raises(magnetar.MagnetarError) as raised:
            admin.tenants.list()
        for thing in (admin, vars(admin), raised.value, raised.value.__dict__):
            assert TOKEN not in repr(thing)

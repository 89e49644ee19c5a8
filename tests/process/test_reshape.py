"""Scalable topics and `kill -9`: at every step of a reshape, and again and again under traffic, reshapes and consumers
that come and go. Real processes, real files; the proof is counted from the messages.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

import magnetar
from magnetar import InitialPosition, errors
from tests.servers.standalone import Standalone
from tests.support.reshape_steps import MERGE, SPLIT

TOPIC = "topic://public/default/t"
KEYS = [f"key-{number}" for number in range(8)]
SETTINGS = {"brokerDeduplicationEnabled": True}
ROWS = [
    *(("split", step) for step in SPLIT),
    *(("merge", step) for step in MERGE),
]
SECONDS = 60
LIFE_S = 4.0  # of a broker between two kills
WAIT_S = 120.0  # for what a slow machine brings in a moment


class Dying(Standalone):
    program: ClassVar[list[str]] = ["tests.servers.dying"]

    @property
    def flag(self) -> Path:
        return self.folder / "die"


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "step"), ROWS)
def test_broker_killed_at_any_reshape_step_finishes_after_restart(tmp_path: Path, kind: str, step: str) -> None:
    with (
        Dying(tmp_path, SETTINGS) as broker,
        magnetar.Client(broker.url) as client,
        magnetar.Admin(broker.http) as admin,
    ):
        admin.scalable.create(TOPIC, segments=2)
        consumer = client.stream_consumer(TOPIC, "s", initial_position=InitialPosition.EARLIEST)
        with consumer, client.create_producer(TOPIC, name="p") as producer:
            send(producer, 0)
            broker.flag.write_text(step, encoding="ascii")
            reshape = partial(admin.scalable.split, TOPIC, 0) if kind == "split" else partial(merge, admin)
            with pytest.raises(errors.MagnetarError):
                reshape()
            assert broker.process is not None
            assert broker.process.wait(WAIT_S) == -9, "the step was never reached"
            broker.flag.unlink()
            broker.kill()
            broker.start()
            send(producer, 1)  # the range is writable again
            while active(admin) != (3 if kind == "split" else 1):  # it goes on by itself
                threading.Event().wait(0.05)
            assert read(consumer, 2) == {key: [0, 1] for key in KEYS}


def active(admin: magnetar.Admin) -> int:
    return sum(one.state == "ACTIVE" for one in admin.scalable.metadata(TOPIC).segments.values())


def merge(admin: magnetar.Admin) -> None:
    admin.scalable.merge(TOPIC, [0, 1])


def send(producer: magnetar.Producer[bytes], number: int) -> None:
    for key in KEYS:
        producer.send(b"%d" % number, key=key)


def read(consumer: magnetar.StreamConsumer[bytes], rounds: int) -> dict[str, list[int]]:
    """So many messages of each key, in the order they come."""
    found: dict[str, list[int]] = {key: [] for key in KEYS}
    while sum(len(numbers) for numbers in found.values()) < rounds * len(KEYS):
        message = consumer.receive(WAIT_S)
        number = int(message.data)
        assert message.key is not None
        if number not in found[message.key]:  # what was not acknowledged on disk comes again
            found[message.key].append(number)
        consumer.acknowledge_cumulative(message)
    return found


@pytest.mark.slow
def test_verify_order_finds_nothing_through_reshapes_churn_and_kills(tmp_path: Path) -> None:
    """Eight producers, four stream consumers that come and go, a reshape every second."""
    with Standalone(tmp_path / "broker", SETTINGS) as broker, (tmp_path / "said").open("wb") as said:
        command = [sys.executable, "-m", "magnetar.cli.main", "topic", "verify-order", TOPIC]
        command += ["--seconds", f"{SECONDS}", "--churn", "3", "--reshape", "1", "-o", "json"]
        command += ["--url", broker.url, "--admin-url", broker.http]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said)
        over = threading.Event()
        threading.Timer(SECONDS - LIFE_S, over.set).start()
        kills = 0
        while not over.wait(LIFE_S):
            broker.kill()
            broker.start()
            kills += 1
        output, _ = running.communicate(timeout=4 * WAIT_S)
        found = json.loads(output)
        assert (running.returncode, found["findings"]) == (0, []), (tmp_path / "said").read_text()
        assert found["receivedLate"] >= found["outcomes"]["stored"] > 1000
        assert min(kills, found["reshapes"], found["consumers"] - 4) > 1, found

"""A client that works beside a hostile one, in a process of its own: `python -m tests.process.neighbour PORT PID FILE`.

Every few milliseconds it publishes a message, receives it, and asks for a LOOKUP and a PING. Each line of the file is
the time of the last answer, how long LOOKUP and PING took, how long without the time in which the broker or the
neighbour was ready to run and the machine ran something else, and how long the message took. A busy machine is not the
broker's fault, and neither is a disk that others use: the receipt of a message waits for its sync.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from magnetar.wire import message
from magnetar.wire.proto import pb
from simulation.crash.frame_connection import with_entry
from tests.process.hostile import T, Talker, a_command

STEP_S = 0.002
SAMPLES_MIN = 150
WAIT_S = 60.0
TOPIC = "persistent://public/default/beside"
QUICK = {T.PONG, T.LOOKUP_RESPONSE}
ANSWERS = {*QUICK, T.SEND_RECEIPT, T.MESSAGE}


@dataclass(frozen=True, slots=True)
class Waits:
    """The p99 of all steps from a time on."""

    raw_s: float
    adjusted_s: float  # without waiting for a processor
    publish_s: float  # with the sync of the disk and the delivery
    steps: int


class Neighbour:
    """Starts it, and reads what it saw."""

    def __init__(self, port: int, broker_pid: int, file: Path) -> None:
        self._file = file
        command = [sys.executable, "-m", "tests.process.neighbour", str(port), str(broker_pid), str(file)]
        self._process = subprocess.Popen(command, cwd=Path(__file__).parents[2])

    def __enter__(self) -> Self:
        self.p99(time.monotonic())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()

    def p99(self, since: float) -> Waits:
        """Of all steps from then on, some of them still to come."""
        deadline = time.monotonic() + WAIT_S
        while True:
            assert self._process.poll() is None, "the neighbour was shut out"
            lines = self._file.read_text().splitlines()[:-1] if self._file.exists() else []
            steps = [tuple(map(float, line.split())) for line in lines]
            recent = [durations for at, *durations in steps if at >= since]
            if len(recent) >= SAMPLES_MIN:
                columns = zip(*recent, strict=True)
                raw, adjusted, publish = (sorted(column)[len(recent) * 99 // 100] for column in columns)
                return Waits(raw, adjusted, publish, len(recent))
            assert time.monotonic() < deadline, f"the neighbour has {len(recent)} answers"
            time.sleep(0.05)


def waited_s(pid: int) -> float:
    """For a processor, of all threads of a process: Linux counts it. A publish waits for the journal's thread too."""
    return sum(int(file.read_text().split()[1]) for file in Path(f"/proc/{pid}/task").glob("*/schedstat")) / 1e9


def main(port: int, broker_pid: int, file: Path) -> None:
    pid = os.getpid()
    entry = message.single(pb.MessageMetadata(producer_name="beside", sequence_id=0, publish_time=1), b"x" * 100)
    with Talker(port) as talker, file.open("w", buffering=1) as out:
        attach(talker)
        number = 0
        while True:
            time.sleep(STEP_S)
            waited = waited_s(pid) + waited_s(broker_pid)
            began = time.monotonic()
            number += 1
            send(talker, number, entry)
            ack, left = b"", set(ANSWERS)
            answered = 0.0
            while left:
                answer = talker.hear(pings=True)
                left.discard(answer.type)
                if not answered and not left & QUICK:
                    answered = time.monotonic() - began
                    waited = waited_s(pid) + waited_s(broker_pid) - waited
                if answer.type == T.MESSAGE:
                    ack = acknowledged(answer)
            done = time.monotonic()
            out.write(f"{done:.6f} {answered:.6f} {max(answered - waited, 0.0):.6f} {done - began:.6f}\n")
            talker.say(ack + a_command(T.FLOW, consumer_id=1, messagePermits=1))


def attach(talker: Talker) -> None:
    talker.ask(T.PRODUCER, topic=TOPIC, producer_id=1, producer_name="beside", request_id=1)
    talker.ask(T.SUBSCRIBE, topic=TOPIC, subscription="beside", consumer_id=1, subType=0, request_id=2)
    talker.say(a_command(T.FLOW, consumer_id=1, messagePermits=10))


def send(talker: Talker, number: int, entry: bytes) -> None:
    send = pb.BaseCommand(type=T.SEND)
    send.send.producer_id, send.send.sequence_id = 1, number
    talker.say(with_entry(send, entry) + a_command(T.LOOKUP, topic=TOPIC, request_id=number + 2) + a_command(T.PING))


def acknowledged(answer: pb.BaseCommand) -> bytes:
    place = answer.message.message_id
    ids = [{"ledgerId": place.ledgerId, "entryId": place.entryId}]
    return a_command(T.ACK, consumer_id=1, ack_type=0, message_id=ids)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))

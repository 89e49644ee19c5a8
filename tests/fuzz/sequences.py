"""Sequences of wire commands that a client might send, sound and unsound, from one byte to a whole frame of 5 MiB.

A seed decides a sequence. It is built before the broker hears any of it, so that building costs no turn of its loop.
Most commands fit what came before: producers and consumers have few ids, so that later commands meet them.
"""

from __future__ import annotations

from random import Random
from typing import Any

from magnetar.base.limits import FRAME_PADDING_BYTES, MESSAGE_BYTES_MAX
from magnetar.wire.proto import pb
from tests.fuzz.campaign import mutate
from tests.fuzz.targets import frame_seeds
from tests.unit.broker.world import an_entry, command, send_frame

CLIENTS = 3
COMMANDS = 60
FRAME_BYTES_MAX = MESSAGE_BYTES_MAX + FRAME_PADDING_BYTES
TOPICS = [f"persistent://public/default/t{number}" for number in range(3)] + ["non-persistent://public/default/n"]
TYPES = list(pb.CommandSubscribe.SubType.values())


class Sequence:
    def __init__(self, seed: int) -> None:
        self.chance = Random(f"sequence {seed}")
        self._requests = 0
        self._recorded = frame_seeds()

    def steps(self) -> list[tuple[int, bytes]]:
        """Which client says what."""
        return [(self.chance.randrange(CLIENTS), self._step()) for _ in range(COMMANDS)]

    def size(self) -> int:
        """Mostly small; now and then up to the largest frame."""
        return self.chance.choice((0, 1, 10, 100, 1_000, 1_000, 20_000, 70_000, 1_000_000, 5_000_000))

    def _step(self) -> bytes:
        chance = self.chance
        kind = chance.random()
        if kind < 0.01:
            return mutate(chance, self._recorded)
        if kind < 0.015:
            return chance.randbytes(chance.choice((1, 8, 100)))
        if kind < 0.20:
            return send_frame(chance.randrange(3), chance.randrange(50), an_entry("x" * self.size(), 1))
        if kind < 0.32:
            return self._ids()
        said = self._command()
        frame = framed(said)
        if chance.random() < 0.01:
            frame = frame[: chance.randrange(len(frame))]  # the next frame begins inside it
        return frame

    def _command(self) -> pb.BaseCommand:
        chance = self.chance
        self._requests += 1
        request: dict[str, Any] = {"request_id": self._requests}
        topic, subscription = chance.choice(TOPICS), f"s{chance.randrange(3)}"
        consumer, producer = chance.randrange(4), chance.randrange(3)
        text = "x" * self.size()
        properties = [{"key": "k", "value": text}]
        made = [
            ("PRODUCER", {"topic": topic, "producer_id": producer, "producer_name": text[:5_000], **request}),
            ("PRODUCER", {"topic": topic, "producer_id": producer, "metadata": properties, **request}),
            ("SUBSCRIBE", {"topic": topic, "subscription": subscription, "consumer_id": consumer, **request}),
            ("SUBSCRIBE", {"topic": topic, "subscription": text or "s", "consumer_id": consumer, **request}),
            ("FLOW", {"consumer_id": consumer, "messagePermits": chance.choice((1, 100, 2**31, 2**32 - 1))}),
            ("UNSUBSCRIBE", {"consumer_id": consumer, **request}),
            ("CLOSE_CONSUMER", {"consumer_id": consumer, **request}),
            ("CLOSE_PRODUCER", {"producer_id": producer, **request}),
            ("SEEK", {"consumer_id": consumer, "message_publish_time": chance.getrandbits(60), **request}),
            ("GET_LAST_MESSAGE_ID", {"consumer_id": consumer, **request}),
            ("CONSUMER_STATS", {"consumer_id": consumer, **request}),
            ("LOOKUP", {"topic": topic if chance.random() < 0.7 else text, **request}),
            ("PARTITIONED_METADATA", {"topic": topic if chance.random() < 0.7 else text, **request}),
            ("GET_TOPICS_OF_NAMESPACE", {"namespace": "public/default", "topics_pattern": text[:200], **request}),
            ("GET_SCHEMA", {"topic": topic, **request}),
            ("PING", {}),
        ]
        kind, fields = chance.choice(made)
        if kind == "SUBSCRIBE":
            fields["subType"] = chance.choice(TYPES)
        if kind == "LOOKUP" and chance.random() < 0.2:
            kind, fields = (
                "WATCH_TOPIC_LIST",
                {
                    "namespace": "public/default",
                    "topics_pattern": "public/default/" + chance.choice((".*", "t[0-9]{1,40}", "(x+x+)+y", text)),
                    "watcher_id": consumer,
                    **request,
                },
            )
        return command(kind, **fields)

    def _ids(self) -> bytes:
        """ACK or REDELIVER with up to hundreds of thousands of ids, or one with very many bits."""
        chance = self.chance
        count = chance.choice((1, 2, 1_000, 20_000, 200_000))
        few = [
            pb.MessageIdData(ledgerId=chance.randrange(20), entryId=chance.randrange(200))
            for _ in range(min(count, 100))
        ]
        if chance.random() < 0.1:
            few[0].ack_set.extend([-1] * chance.choice((1, 20_000)))
        acks = chance.random() < 0.5
        consumer = chance.randrange(4)
        if acks:
            inner = pb.CommandAck(consumer_id=consumer, ack_type=chance.choice((0, 0, 0, 1))).SerializeToString()
            named = pb.CommandAck(message_id=few).SerializePartialToString()
        else:
            inner = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=consumer).SerializeToString()
            named = pb.CommandRedeliverUnacknowledgedMessages(message_ids=few).SerializePartialToString()
        # Messages of protobuf that stand one behind the other are one message with all their ids.
        inner = (inner + named * (count // len(few)))[: FRAME_BYTES_MAX - 100] if count > 100 else inner + named
        kind = pb.BaseCommand.ACK if acks else pb.BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES
        body = b"\x08" + varint(kind) + varint(kind << 3 | 2) + varint(len(inner)) + inner
        return (len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body


def greeting() -> list[bytes]:
    """What each connection says first: a producer and consumers that later commands meet."""
    said = [
        command("PRODUCER", topic=TOPICS[number], producer_id=number, request_id=1_000 + number) for number in range(3)
    ]
    for number in range(4):
        fields = {"topic": TOPICS[number], "subscription": f"s{number % 3}", "subType": TYPES[1 + number % 3]}
        said.append(command("SUBSCRIBE", consumer_id=number, request_id=2_000 + number, **fields))
        said.append(command("FLOW", consumer_id=number, messagePermits=100))
    return [framed(one) for one in said]


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def framed(said: pb.BaseCommand) -> bytes:
    data = said.SerializeToString()
    return (len(data) + 4).to_bytes(4, "big") + len(data).to_bytes(4, "big") + data

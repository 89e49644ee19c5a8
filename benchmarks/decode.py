"""How fast entries become Arrow columns, beside the client's own message objects put into columns, in one run.

One core, no network: `python -m benchmarks.decode`. Batches of 1,000 keyed messages as our producer writes them, of one
size and of random sizes; single messages; half of the rows by key hash. CPU seconds, the best of five; the ratio is
what to look at, because both see the same machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import process_time

import pyarrow as pa

from magnetar.base.ids import SegmentId
from magnetar.base.ranges import FULL, HashRange
from magnetar.client.consumer.ack.acks import all_bits
from magnetar.client.consumer.receive.decode import open_batch, open_metadata
from magnetar.client.message import Delivery, Message
from magnetar.client.producer.batch import Batch, Stamp
from magnetar.client.producer.fields import MessageFields
from magnetar.client.schema import BYTES
from magnetar.layout.readable_range import DONE, START
from magnetar.spark.read.decoder import Decoder, record_batches
from magnetar.spark.source.tasks import SegmentSlice

Entries = list[tuple[int, int, bytes]]

ROUNDS = 5
STAMP = Stamp(1, b"bench", None, 0, 5 * 1024 * 1024)
HALF = SegmentSlice(SegmentId(1), FULL, START, DONE, keys=(HashRange(0, 0x7FFF),))


@dataclass(frozen=True)
class Case:
    name: str
    each: int  # messages in an entry
    spread: bool = False  # random sizes, from half to one and a half
    piece: SegmentSlice | None = None


CASES = [
    Case("one size", 1000),
    Case("random sizes", 1000, spread=True),
    Case("random sizes, half by key", 1000, spread=True, piece=HALF),
    Case("batches of 10", 10),
    Case("single messages", 1),
]


def entries(case: Case, size: int, rows: int) -> Entries:
    chance = random.Random(1)
    made: Entries = []
    for number in range(rows // case.each):
        batch = Batch(0.0)
        for _ in range(case.each):
            fields = MessageFields()
            fields.key = f"key-{chance.randrange(100_000):05}"
            batch.add(bytes(chance.randrange(size // 2, size * 3 // 2) if case.spread else size), fields, None)
        frame = batch.close(STAMP, 20_000 + number * case.each, 1_700_000_000_000)[2]
        made.append((5, number, frame[8 + int.from_bytes(frame[4:8], "big") :]))
    return made


def by_arrow(data: Entries, piece: SegmentSlice | None = None) -> None:
    for _ in record_batches(Decoder(["key", "value"], topic="t", piece=piece), data):
        pass


def by_client(data: Entries) -> None:
    keys: list[bytes | None] = []
    values: list[bytes] = []
    for ledger, number, entry in data:
        metadata, at = open_metadata(entry)
        delivery = Delivery(metadata, "t", BYTES, ledger=ledger, entry=number)
        messages: list[Message[bytes]] = [Message(entry[at:], delivery)]
        if metadata.HasField("num_messages_in_batch"):
            delivery.size = metadata.num_messages_in_batch
            delivery.unacked = all_bits(delivery.size)
            messages = open_batch(entry, delivery, at)
        keys += [message.key_bytes for message in messages]
        values += [message.data for message in messages]
    pa.array(keys, pa.binary())
    pa.array(values, pa.binary())


def rate(rows: int, work: Callable[[], None]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        begun = process_time()
        work()
        best = min(best, process_time() - begun)
    return rows / best / 1e6


def main() -> None:
    print(f"{'M rows/s':34} {'Arrow':>8} {'objects':>8} {'ratio':>6}")
    for size in (100, 1024):
        for case in CASES:
            rows = 10_000 if case.each < 1000 else 5_000_000 // (size + 20) // 1000 * 1000
            data = entries(case, size, rows)
            arrow = rate(rows, partial(by_arrow, data, case.piece))
            objects = rate(rows, partial(by_client, data))
            print(f"{size:5} B, {case.name:26} {arrow:8.2f} {objects:8.2f} {arrow / objects:6.1f}")


if __name__ == "__main__":
    main()

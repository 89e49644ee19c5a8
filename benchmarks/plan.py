"""PLAN over a thousand segments and ten million messages: `python -m benchmarks.plan`, or `--segments 100 --rounds 3`.

The topic is made and filled over the wire; then one reader asks, over and over, how far everything can be read: from
the beginning of all segments, from a place in the middle of each, and from places that move from question to question,
which nothing that the broker remembers can serve. What the broker takes is measured on a raw socket, from the command
to the last byte of the answer, and in processor time of its process, which a busy machine disturbs less; what a client
takes has the reading of the answer in it. Nothing is asserted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import struct
import time
from pathlib import Path

from benchmarks import frames
from benchmarks.broker import HOUSE, Report, broker
from benchmarks.client import going_first
from benchmarks.gap import go_first
from benchmarks.load import Link
from benchmarks.peer import Peer
from benchmarks.reshape import quantile
from magnetar.aio import Client
from magnetar.base.ids import SegmentId
from magnetar.layout.readable_range import ReadPosition
from magnetar.wire.proto import pb
from magnetar.wire.scalable.plans import columns

RESULTS = HOUSE / "benchmarks" / "results" / "plan.json"
SEGMENTS, ENTRIES, MESSAGES = 1000, 100, 100  # of a segment, and of an entry: ten million in all
WRITES = 10  # of a segment: its entries are so many records of the journal, or a few more
TOPIC = "topic://public/default/planned"

_size = struct.Struct(">I")


async def held(peer: Peer) -> list[str]:
    """The topics of the segments. Nobody subscribes: a hold keeps what comes."""
    async with Client(peer.url) as client:
        await client.hold(TOPIC, "benchmark", owner="benchmarks.plan")
        layout = (await client.plan(TOPIC)).layout
    name = TOPIC.removeprefix("topic://")
    return [f"segment://{name}/{one.range.start:04x}-{one.range.end:04x}-{one.id}" for one in layout.segments]


def fill(peer: Peer, topics: list[str]) -> None:
    block = frames.batched(b"x", MESSAGES, ENTRIES // WRITES)
    link = peer.connect()
    link.connect()
    for topic in topics:
        link.produce(topic)
        for _ in range(WRITES):
            link.socket.sendall(block.body)
            stored = 0
            while stored < block.frames:
                said = link.command()
                if said.type == pb.BaseCommand.PING:
                    link.socket.sendall(frames.pong())
                elif said.type != pb.BaseCommand.SEND_RECEIPT:
                    raise SystemExit(f"an entry was not stored: {said}")
                stored += said.type == pb.BaseCommand.SEND_RECEIPT
        link.stop_producing()
    link.close()


async def asked(peer: Peer, rounds: int, report: Report) -> list[dict[SegmentId, ReadPosition]]:
    """By our client; a few places in every segment, those in its middle first."""
    async with Client(peer.url) as client:
        begun = time.perf_counter()
        plan = await client.plan(TOPIC)
        report.note("client, first plan, with the layout", (time.perf_counter() - begun) * 1e3, "ms")
        total = sum(one.messages for one in plan.stretches.values())
        report.note("messages planned", total, "messages")
        report.note("marks told", sum(len(one.marks) for one in plan.stretches.values()), "marks")
        marks = {id: one.marks for id, one in plan.stretches.items()}
        places = [{id: told[len(told) * part // 8].place for id, told in marks.items()} for part in (4, 1, 2, 3, 5)]
        times = []
        for _ in range(rounds):
            begun = time.perf_counter()
            await client.plan(TOPIC, places[0], messages_max=total)
            times.append((time.perf_counter() - begun) * 1e3)
        report.note("client, from the middle p50", quantile(times, 0.5), "ms")
        return places


def raw(
    peer: Peer,
    what: str,
    places: list[dict[SegmentId, ReadPosition]],
    rounds: int,
    report: Report,
    *,
    limits: bool = False,
) -> None:
    """`places` by turns, none: the beginning. `limits`: other ones each time."""
    link = peer.connect()
    flags = pb.FeatureFlags(magnetar_extensions=1)
    link.socket.sendall(
        frames.framed(
            pb.BaseCommand(
                type=pb.BaseCommand.CONNECT,
                connect=pb.CommandConnect(client_version="benchmark", protocol_version=21, feature_flags=flags),
            )
        )
    )
    link.command()
    command = pb.BaseCommand(type=pb.BaseCommand.PLAN, plan=pb.CommandPlan(request_id=1, topic=TOPIC))
    stands = [columns(some) for some in places]
    times, spent = [], []
    for number in range(rounds + 1):
        if stands:
            command.plan.places.CopyFrom(stands[number % len(stands)])
        if limits:
            command.plan.bytes_max = (1 << 50) + number
        data, before = frames.framed(command), peer.cpu_s()
        begun = time.perf_counter()
        link.socket.sendall(data)
        told = _frame(link)
        if number:  # the first one brings the layout
            times.append((time.perf_counter() - begun) * 1e3)
            spent.append((peer.cpu_s() - before) * 1e3)
        answer = pb.BaseCommand.FromString(told)
        command.plan.known_incarnation = answer.planResponse.incarnation
        command.plan.known_epoch = answer.planResponse.epoch
    link.close()
    report.note(f"broker, {what} p50", quantile(times, 0.5), "ms", "< 20")
    report.note(f"broker, {what} p99", quantile(times, 0.99), "ms")
    report.note(f"broker, {what}, processor p50", quantile(spent, 0.5), "ms")


def _frame(link: Link) -> bytes:
    data = bytearray(link.rest)
    link.rest = b""
    while len(data) < 8 or len(data) < 4 + _size.unpack_from(data)[0]:
        more = link.socket.recv(1 << 20)
        if not more:
            raise SystemExit("the broker closed the connection")
        data += more
    size = _size.unpack_from(data, 4)[0]
    return bytes(data[8 : 8 + size])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--segments", type=int, default=SEGMENTS)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--output", type=Path, default=RESULTS)
    given = parser.parse_args()
    report = Report()
    with broker() as peer:
        peer.connect().close()
        peer.rest("PUT", f"scalable/public/default/planned?numInitialSegments={given.segments}")
        fill(peer, asyncio.run(held(peer)))
        with going_first():
            go_first(peer.process.pid)
            places = asyncio.run(asked(peer, given.rounds, report))
            raw(peer, "from the beginning, other limits", [], given.rounds, report, limits=True)
            raw(peer, "from the middle, other limits", places[:1], given.rounds, report, limits=True)
            raw(peer, "from places that move", places, given.rounds, report)
            raw(peer, "the same again", [], given.rounds, report)
    print(report.table())
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(json.dumps(report.document(given.rounds, 0), indent=2) + "\n")


if __name__ == "__main__":
    main()

"""Scalable topics, measured: `python -m benchmarks.reshape`, or `--only gap --rounds 1`.

- **gap**: the longest pause that a sender feels in a split, beside the Java client on Apache Pulsar 5 (`gap.py`).
- **history**: what it takes a client to open a topic with a thousand segments behind it.
- **watch**: how soon ten thousand watches over a hundred connections are told of a split (`watchers.py`).
- **spread**: the broker's processor time a message, of a plain topic, of one segment and of sixteen, by our own client
  with its batching as it comes (`spread.py`).
- **entries**: the same by the wire-level generator, whose entries are of one size, so that the broker's own share of it
  is seen: one entry in flight, or a round of sixteen to sixteen topics.

Figures are medians over the rounds with their spread, and ratios before they are numbers. Nothing is asserted. Where
the kernel allows it, what is measured runs ahead of other work (SCHED_RR): that decides tails and what batches gather.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import frames, gap, watchers
from benchmarks.broker import HOUSE, LOAD_CORE, SCRATCH, Report, broker, measured
from benchmarks.client import going_first
from benchmarks.frames import Block
from benchmarks.gap import go_first
from benchmarks.load import blast
from benchmarks.peer import Peer
from magnetar.aio import Admin, Client

RESULTS = HOUSE / "benchmarks" / "results" / "reshape.json"

SPLITS = 30  # of a round
SEGMENTS, INTO = 1000, 16  # of the history, and made by each of its splits
OPENINGS = 5
LANES = 16
LOADS = ("10000", "50000", "full", "waiting")
SPREAD_S, ENTRIES_S = 2.5, 1.5
ENTRY_MESSAGES = 10
SCALABLE = "scalable/public/default"


# The pause of a split


def pauses(report: Report) -> None:
    ours, javas = gap.ours(SPLITS), gap.javas(SPLITS)
    for who, felt in (("ours", ours), ("Java on Pulsar 5", javas)):
        if felt is None:
            continue
        asked = "< 50" if felt is ours else ""
        report.note(f"pause of a split p50, {who}", quantile(felt.split, 0.5), "ms")
        report.note(f"pause of a split p99, {who}", quantile(felt.split, 0.99), "ms", asked)
        report.note(f"  longest way of a message in a split p50, {who}", quantile(felt.slowest, 0.5), "ms")
        report.note(f"  longest way of a message in a split p99, {who}", quantile(felt.slowest, 0.99), "ms")
        report.note(f"  pause without a split p50, {who}", quantile(felt.quiet, 0.5), "ms")
        report.note(f"  pause without a split p99, {who}", quantile(felt.quiet, 0.99), "ms")
        report.note(f"  messages stored, {who}", felt.stored, "messages")
        report.note(f"  messages that failed, {who}", felt.failed, "messages")
    if javas is not None:
        for name, part in (("p50", 0.5), ("p99", 0.99)):
            asked = "< 0.33" if name == "p99" else ""
            ratio = quantile(ours.split, part) / quantile(javas.split, part)
            report.note(f"  ours to Java's, {name}", ratio, "ratio", asked)


# A long history


def history(report: Report) -> None:
    with broker() as peer:
        peer.connect().close()
        peer.rest("PUT", f"{SCALABLE}/old?numInitialSegments=1")
        asyncio.run(opened(peer))  # its subscription is as old as the topic
        last = 0
        while last + 1 < SEGMENTS:
            begun = time.perf_counter()
            peer.rest("POST", f"{SCALABLE}/old/split/{last}?into={INTO}")
            middle = time.perf_counter()
            children = ",".join(str(last + number) for number in range(1, INTO + 1))
            peer.rest("POST", f"{SCALABLE}/old/merge?segments={children}")
            last += INTO + 1
        report.note(f"last split into {INTO} of that history", (middle - begun) * 1e3, "ms")
        report.note(f"  last merge of {INTO}", (time.perf_counter() - middle) * 1e3, "ms")
        report.note("  first message behind it reaches its subscription after", asyncio.run(caught_up(peer)), "s")
        with going_first():
            go_first(peer.process.pid)
            found = [asyncio.run(opened(peer)) for _ in range(OPENINGS)]
        for place, what in enumerate(("producer", "stream consumer", "layout by REST")):
            report.note(f"  {what}, {last + 1} segments", quantile([one[place] for one in found], 0.5) * 1e3, "ms")
        whole = quantile([sum(one) for one in found], 0.5) * 1e3
        report.note(f"opening a topic of {last + 1} segments, all three", whole, "ms", "< 100")


async def caught_up(peer: Peer) -> float:
    """Seconds until a consumer is through all the segments, which are empty, and gets what was sent to the last one."""
    topic, begun = "topic://public/default/old", time.perf_counter()
    async with Client(peer.url) as client:
        producer = await client.create_producer(topic)
        consumer = await client.stream_consumer(topic, "old")
        await producer.send(b"the first")
        await consumer.acknowledge_cumulative(await consumer.receive(60), confirm=True)
        return time.perf_counter() - begun


async def opened(peer: Peer) -> tuple[float, float, float]:
    """Seconds until there is a producer, a stream consumer and the layout, connecting included."""
    topic, clock = "topic://public/default/old", time.perf_counter
    async with Client(peer.url) as client, Admin(f"http://localhost:{peer.http_port}") as admin:
        await admin.brokers.version()  # the first call of a process prepares its TLS, which this is not about
        begun = clock()
        await client.create_producer(topic)
        produced = clock()
        await client.stream_consumer(topic, "old")
        consumed = clock()
        await admin.scalable.metadata(topic)
        return produced - begun, consumed - produced, clock() - consumed


# Watches


def watches(report: Report) -> None:
    with broker() as peer:
        peer.connect().close()
        peer.rest("PUT", f"{SCALABLE}/watched?numInitialSegments=1")
        with going_first():
            go_first(peer.process.pid)
            told = watchers.watched_split(peer, "topic://public/default/watched")
    report.note(f"last of {told.watches} watches told, after a split was asked for", told.last_s, "s", "< 1")
    report.note("  from the first told to the last", told.last_s - told.first_s, "s")
    report.note("  the split was answered after", told.answered_s, "s")


# Processor time of publishing


def spread(report: Report) -> None:
    with going_first(), broker() as peer:
        peer.connect().close()
        topics = {"plain": "persistent://public/default/plain", **_scalable(peer)}
        for load in LOADS:
            plain = 0.0
            for name, topic in topics.items():
                found, cpu = _published(peer, topic, load)
                label = f"{_said(load)}, {name}"
                report.note(f"broker's processor time: {label}", cpu, "us a message")
                report.note(f"  messages in an entry: {label}", found["entry"], "messages")
                report.note(f"  rate: {label}", found["rate"], "messages/s")
                report.note(f"  client's processor time: {label}", found["client_us"], "us a message")
                report.note(f"  to the receipt p50: {label}", found["p50_ms"], "ms")
                report.note(f"  to the receipt p99: {label}", found["p99_ms"], "ms")
                if name == "plain":
                    plain = cpu
                else:
                    report.note(f"  to a plain topic: {label}", cpu / plain, "ratio", ASKED[name])


ASKED = {"1 segment": "<= 1.15", f"{LANES} segments": "<= 1.3"}


def _scalable(peer: Peer) -> dict[str, str]:
    for count in (1, LANES):
        peer.rest("PUT", f"{SCALABLE}/of-{count}?numInitialSegments={count}")
    return {name: f"topic://public/default/of-{name.split()[0]}" for name in ASKED}


def _said(load: str) -> str:
    return f"{int(load):,}/s" if load.isdecimal() else {"full": "full speed", "waiting": "64 senders that wait"}[load]


def _published(peer: Peer, topic: str, load: str) -> tuple[dict[str, float], float]:
    command = [sys.executable, "-m", "benchmarks.spread", peer.url, topic, load, str(SPREAD_S)]
    with subprocess.Popen(command, cwd=HOUSE, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        if child.stdout.readline() != "ready\n":
            raise SystemExit("the producer did not start")
        before = peer.cpu_s()
        child.stdin.write("go\n")
        child.stdin.flush()
        found: dict[str, float] = json.loads(child.stdout.readline())
        return found, (peer.cpu_s() - before) / found["messages"] * 1e6


def entries(report: Report) -> None:
    width = 0x10000 // LANES
    ranges = [f"{place * width:04x}-{(place + 1) * width - 1:04x}-{place}" for place in range(LANES)]
    with going_first(), broker() as peer:
        peer.connect().close()
        _scalable(peer)
        kinds = {
            "plain": ([f"persistent://public/default/p{place}" for place in range(LANES)], "one entry"),
            "segment": (["segment://public/default/of-1/0000-ffff-0"], "one entry"),
            f"{LANES} plain": ([f"persistent://public/default/p{place}" for place in range(LANES)], "a round"),
            f"{LANES} segments": ([f"segment://public/default/of-{LANES}/{one}" for one in ranges], "a round"),
        }
        found: dict[str, float] = {}
        for name, (topics, what) in kinds.items():
            count = 1 if what == "one entry" else LANES
            found[name] = _per_entry(peer, topics[:count])
            report.note(f"broker's processor time an entry, {what} in flight: {name}", found[name], "us")
        report.note("  segment to plain, one entry", found["segment"] / found["plain"], "ratio")
        report.note("  segments to plain, a round", found[f"{LANES} segments"] / found[f"{LANES} plain"], "ratio")


def _per_entry(peer: Peer, topics: list[str]) -> float:
    """Microseconds, with one entry to each topic in flight, all over one connection."""
    link = peer.connect()
    link.connect()
    for number, topic in enumerate(topics, start=1):
        link.produce(topic, number)
    block = _round(len(topics))
    _, cpu = measured(peer, lambda: blast([link], block, window=len(topics), seconds=ENTRIES_S))
    link.close()
    return cpu * ENTRY_MESSAGES


def _round(producers: int) -> Block:
    blocks = [frames.batched(bytes(100), ENTRY_MESSAGES, 64, number) for number in range(1, producers + 1)]
    size = blocks[0].frame_bytes
    body = b"".join(one.body[at : at + size] for at in range(0, 64 * size, size) for one in blocks)
    return Block(body, size, 64 * producers, ENTRY_MESSAGES)


def quantile(found: list[float], part: float) -> float:
    return sorted(found)[min(int(len(found) * part), len(found) - 1)]


SCENARIOS: dict[str, Callable[[Report], None]] = {
    "gap": pauses,
    "history": history,
    "watch": watches,
    "spread": spread,
    "entries": entries,
}


def main() -> int:
    if len(os.sched_getaffinity(0)) > 1:
        os.sched_setaffinity(0, {LOAD_CORE})
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reshape", description="Scalable topics, measured.")
    parser.add_argument("--only", nargs="+", choices=sorted(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--output", type=Path, help=f"JSON file; {RESULTS.relative_to(HOUSE)} for a whole run")
    chosen = parser.parse_args()
    SCRATCH.mkdir(exist_ok=True)
    report = Report()
    begun = time.perf_counter()
    for number in range(chosen.rounds):
        for name in chosen.only:
            sys.stderr.write(f"round {number + 1} of {chosen.rounds}: {name}\n")
            SCENARIOS[name](report)
    print(report.table())
    whole = set(chosen.only) == set(SCENARIOS)
    output = chosen.output or (RESULTS if whole else None)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        seconds = (time.perf_counter() - begun) / chosen.rounds / len(chosen.only)
        output.write_text(json.dumps(report.document(chosen.rounds, seconds), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

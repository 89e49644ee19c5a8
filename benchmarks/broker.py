"""The broker beside its ceilings, in one run: `make bench`, or `python -m benchmarks.broker --only sync --rounds 1`.

Every scenario is measured against a peer that does the least such work can be done with (a bare echo, a socket copy
into a journal, the disk's own sync), in turn and round by round, so that a figure is a ratio before it is a number. The
broker and its peer have one core, the generator another; medians of the rounds are printed with their spread, and
everything goes to a JSON file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import frames
from benchmarks.load import Counted, Link, blast, one_at_a_time
from benchmarks.peer import Peer, free_port, running

HOUSE = Path(__file__).resolve().parents[1]
SCRATCH = HOUSE / ".bench"  # on the disk that is measured, not on a memory file system
RESULTS = HOUSE / "benchmarks" / "results" / "broker.json"
PEER_CORE, LOAD_CORE = 0, 1

PAYLOAD = bytes(range(100))
BATCH_MESSAGES = 1000
LINKS = 4
WINDOW = 1000  # frames in flight on a link: what a stock client keeps
BATCH_WINDOW = 16
UNCOALESCED_LINKS = 64
SYNC_COUNT = 3000
TOPICS = 1000


@dataclass(slots=True)
class Figure:
    """One measured quantity over the rounds, and the bound the issue asks for, if there is one."""

    name: str
    unit: str
    target: str = ""
    rounds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


class Report:
    def __init__(self) -> None:
        self.figures: dict[str, Figure] = {}

    def note(self, name: str, value: float, unit: str, target: str = "") -> None:
        self.figures.setdefault(name, Figure(name, unit, target)).rounds.append(value)

    def table(self) -> str:
        rows = [("figure", "median", "spread", "unit", "asked")]
        for figure in self.figures.values():
            spread = f"{_shown(min(figure.rounds))} .. {_shown(max(figure.rounds))}"
            rows.append((figure.name, _shown(figure.median), spread, figure.unit, figure.target))
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        )

    def document(self, rounds: int, seconds: float) -> dict[str, object]:
        return {
            "machine": {
                "processor": _processor(),
                "cores": os.cpu_count(),
                "kernel": platform.release(),
                "python": platform.python_version(),
            },
            "rounds": rounds,
            "seconds_per_run": seconds,
            "figures": [
                {"name": f.name, "unit": f.unit, "asked": f.target, "median": f.median, "rounds": f.rounds}
                for f in self.figures.values()
            ],
        }


@contextmanager
def broker() -> Iterator[Peer]:
    """A fresh standalone broker on an empty folder."""
    data = SCRATCH / "data"
    shutil.rmtree(data, ignore_errors=True)
    port, http_port = free_port(), free_port()
    arguments = [
        "-m",
        "magnetar.cli.main",
        "standalone",
        "--data",
        str(data),
        "--port",
        str(port),
        "--http-port",
        str(http_port),
    ]
    with running(arguments, port, SCRATCH / "broker.log", PEER_CORE) as peer:
        peer.http_port = http_port
        yield peer
    shutil.rmtree(data, ignore_errors=True)


@contextmanager
def echo(kind: str = "bytes") -> Iterator[Peer]:
    port = free_port()
    with running(["-m", "benchmarks.echo", str(port), kind], port, SCRATCH / "echo.log", PEER_CORE) as peer:
        yield peer


@contextmanager
def journal(frame_bytes: int) -> Iterator[Peer]:
    folder = SCRATCH / "journal"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    port = free_port()
    arguments = ["-m", "benchmarks.journal", str(port), str(folder), str(frame_bytes)]
    with running(arguments, port, SCRATCH / "journal.log", PEER_CORE) as peer:
        yield peer
    shutil.rmtree(folder, ignore_errors=True)


def producers(peer: Peer, count: int, topic: str = "load") -> list[Link]:
    """So many connections, each with a producer on a topic of its own."""
    links = [peer.connect() for _ in range(count)]
    for number, link in enumerate(links):
        link.connect()
        link.produce(f"persistent://public/default/{topic}-{number}")
    return links


def measured(peer: Peer, run: Callable[[], Counted]) -> tuple[Counted, float]:
    """The run, and the peer's processor seconds per million messages (warm-up costs time too, so it is scaled)."""
    before, begun = peer.cpu_s(), time.perf_counter()
    counted = run()
    spent = (peer.cpu_s() - before) / (time.perf_counter() - begun)
    for_run = spent * counted.seconds
    return counted, for_run / max(counted.messages, 1) * 1e6


def unbatched(report: Report, seconds: float) -> None:
    block = frames.single(PAYLOAD, 10_000)
    ceilings: dict[str, float] = {}
    for kind in ("bytes", "frames"):
        with echo(kind) as peer:
            links = [peer.connect() for _ in range(LINKS)]
            ceiling = blast(links, block, window=WINDOW, seconds=seconds, answer_bytes=block.frame_bytes)
            ceilings[kind] = ceiling.rate
            report.note(f"echo of 100 B publishes, {kind}", ceiling.rate, "frames/s")
            report.note(f"  generator busy meanwhile ({kind})", ceiling.own_cpu_s / ceiling.seconds, "of a core")
    with broker() as peer:
        links = producers(peer, LINKS)
        counted, cpu = measured(peer, lambda: blast(links, block, window=WINDOW, seconds=seconds))
        report.note("publish 100 B unbatched, synced", counted.rate, "messages/s", ">= 120,000")
        report.note("  broker's processor time", cpu, "s per million")
        report.note("  generator busy meanwhile (broker)", counted.own_cpu_s / counted.seconds, "of a core")
        report.note("  of the echo, frame by frame", counted.rate / ceilings["frames"], "ratio", ">= 0.10")
        report.note("  of the echo, bytes", counted.rate / ceilings["bytes"], "ratio")


def batched(report: Report, seconds: float) -> None:
    block = frames.batched(PAYLOAD, BATCH_MESSAGES, 16)
    with journal(block.frame_bytes) as peer:
        links = [peer.connect() for _ in range(LINKS)]
        floor, floor_cpu = measured(
            peer, lambda: blast(links, block, window=BATCH_WINDOW, seconds=seconds, answer_bytes=1)
        )
        report.note("socket copy and journal write of batches", floor.rate, "messages/s")
        report.note("  copier's processor time", floor_cpu, "s per million")
    with broker() as peer:
        links = producers(peer, LINKS)
        counted, cpu = measured(peer, lambda: blast(links, block, window=BATCH_WINDOW, seconds=seconds))
        report.note("publish batches of 1000 x 100 B, synced", counted.rate, "messages/s")
        report.note("  broker's processor time (batches)", cpu, "s per million")
        report.note("  copy is faster by", floor.rate / counted.rate, "times", "<= 1.3")


def synchronous(report: Report, seconds: float) -> None:
    block = frames.single(PAYLOAD, 1000)
    disk = disk_sync_s(block.frame_bytes)
    report.note("the disk's own fdatasync p50", disk * 1e3, "ms")
    with echo() as peer:
        counted = one_at_a_time(peer.connect(), block, count=SYNC_COUNT, answer_bytes=block.frame_bytes)
        report.note("echo of one frame at a time p50", _quantile(counted, 0.5) * 1e3, "ms")
    with broker() as peer:
        (link,) = producers(peer, 1)
        one_at_a_time(link, block, count=SYNC_COUNT // 10)
        counted = one_at_a_time(link, block, count=SYNC_COUNT)
        report.note("sync publish p50", _quantile(counted, 0.5) * 1e3, "ms")
        report.note("sync publish p99", _quantile(counted, 0.99) * 1e3, "ms")
        report.note("  p50 over the disk's own", (_quantile(counted, 0.5) - disk) * 1e3, "ms", "< 0.5")


def uncoalesced(report: Report, seconds: float) -> None:
    """One frame in each read: many connections, each with one frame in flight."""
    block = frames.single(PAYLOAD, 1000)
    with echo() as peer:
        links = [peer.connect() for _ in range(UNCOALESCED_LINKS)]
        ceiling = blast(links, block, window=1, seconds=seconds, answer_bytes=block.frame_bytes)
        report.note("echo, one frame in each read", ceiling.rate, "frames/s")
    with broker() as peer:
        links = producers(peer, UNCOALESCED_LINKS)
        counted, cpu = measured(peer, lambda: blast(links, block, window=1, seconds=seconds))
        report.note("publish, one frame in each read, synced", counted.rate, "messages/s")
        report.note("  broker's processor time (one frame)", cpu, "s per million")
        report.note("  of that echo", counted.rate / ceiling.rate, "ratio")


def tail(report: Report, seconds: float) -> None:
    block = frames.single(PAYLOAD, 10_000)
    with broker() as peer:
        links = producers(peer, LINKS)
        tails = [peer.connect() for _ in links]
        for number, link in enumerate(tails):
            link.connect()
            link.consume(f"persistent://public/default/load-{number}")
        counted, cpu = measured(peer, lambda: blast(links, block, window=WINDOW, seconds=seconds, tails=tails))
        report.note("publish and consume at the tail: in", counted.rate, "messages/s")
        report.note("publish and consume at the tail: out", counted.consumed / counted.seconds, "messages/s")
        report.note("  broker's processor time (in and out)", cpu, "s per million in")
        report.note("  generator busy meanwhile (tail)", counted.own_cpu_s / counted.seconds, "of a core")


def idle(report: Report, seconds: float) -> None:
    block = frames.single(PAYLOAD, 10)
    with broker() as peer:
        (link,) = producers(peer, 1, topic="first")
        one_at_a_time(link, block, count=1)
        report.note("start to first message acknowledged", time.perf_counter() - peer.started, "s", "< 1")
        link.stop_producing()
        time.sleep(1.0)  # whatever start-up left to do is done
        before = peer.resident_bytes()
        report.note("resident when idle", before / 1e6, "MB", "< 90")
        for number in range(TOPICS):
            link.produce(f"persistent://public/default/idle-{number}", 1)
            one_at_a_time(link, block, count=1)
            link.stop_producing(1)
        time.sleep(1.0)
        report.note("1,000 idle topics of one message", (peer.resident_bytes() - before) / 1e6, "MB more", "< 20")


def disk_sync_s(size: int) -> float:
    """What one write and sync of so many bytes costs on this disk, into a preallocated file: the median."""
    path = SCRATCH / "sync"
    number = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.posix_fallocate(number, 0, 1 << 20)
        os.fsync(number)
        took = []
        for turn in range(1000):
            begun = time.perf_counter()
            os.pwrite(number, b"x" * size, turn * size % (1 << 19))
            os.fdatasync(number)
            took.append(time.perf_counter() - begun)
        return statistics.median(took)
    finally:
        os.close(number)
        path.unlink()


SCENARIOS: dict[str, Callable[[Report, float], None]] = {
    "unbatched": unbatched,
    "batched": batched,
    "sync": synchronous,
    "uncoalesced": uncoalesced,
    "tail": tail,
    "idle": idle,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.broker", description="The broker beside its ceilings.")
    parser.add_argument("--only", nargs="+", choices=sorted(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a run, after half a second of warm-up")
    parser.add_argument("--output", type=Path, help=f"JSON file; {RESULTS.relative_to(HOUSE)} for a whole run")
    chosen = parser.parse_args()
    SCRATCH.mkdir(exist_ok=True)
    if len(os.sched_getaffinity(0)) > 1:
        os.sched_setaffinity(0, {LOAD_CORE})
    report = Report()
    for number in range(chosen.rounds):
        for name in chosen.only:
            sys.stderr.write(f"round {number + 1} of {chosen.rounds}: {name}\n")
            SCENARIOS[name](report, chosen.seconds)
    print(report.table())
    whole = set(chosen.only) == set(SCENARIOS)
    output = chosen.output or (RESULTS if whole else None)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(report.document(chosen.rounds, chosen.seconds), indent=1) + "\n")
    return 0


def _quantile(counted: Counted, share: float) -> float:
    ordered = sorted(counted.latencies_s)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


def _shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    sys.exit(main())

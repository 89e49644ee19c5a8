"""Our client beside the stock wheel, in one run on our broker: `python -m benchmarks.client --only produce`.

What is compared is the processor time of the client's whole process (all its threads) per message, for batched
publishing and consuming from Python, and the time one message takes, alone on its way. Each measurement is a process of
its own on one core, the broker has the other; clients take turns round by round, and a figure is a ratio before it is a
number. Where the kernel allows it, broker and clients run ahead of whatever else the machine does (SCHED_RR) while
latencies are taken: what others do on its cores would otherwise decide every percentile above the median.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.broker import HOUSE, LOAD_CORE, SCRATCH, Report, broker
from benchmarks.clients import KINDS, Measured

RESULTS = HOUSE / "benchmarks" / "results" / "client.json"

MESSAGES = {100: 600_000, 1024: 200_000}  # of a run, after a tenth of it to warm up
TURN, TURNS = 250, 12  # messages of a client's turn in a latency run, and how many turns


def command(kind: str, what: str, port: int, topic: str, size: int, count: int) -> list[str]:
    """One measurement in a process of its own, on the generator's core."""
    arguments = [kind, what, str(port), topic, str(size), str(count)]
    return [sys.executable, "-m", "benchmarks.clients", *arguments]


def child(kind: str, what: str, port: int, topic: str, size: int, count: int) -> Measured:
    done = subprocess.run(command(kind, what, port, topic, size, count), cwd=HOUSE, stdout=subprocess.PIPE, check=True)
    found: Measured = json.loads(done.stdout.splitlines()[-1])
    return found


def produce(report: Report, size: int) -> None:
    count = MESSAGES[size]
    with broker() as peer:
        peer.connect().close()
        found = {kind: child(kind, "produce", peer.port, f"produce-{kind}", size, count) for kind in KINDS}
    note_cpu(report, f"publish {size} B in batches", found)


def consume(report: Report, size: int) -> None:
    count = MESSAGES[size]
    with broker() as peer:
        peer.connect().close()
        child("stock", "produce", peer.port, "consume", size, count)  # stored in the batches of the stock client
        found = {kind: child(kind, "consume", peer.port, "consume", size, count) for kind in KINDS}
    note_cpu(report, f"consume {size} B in batches", found)


def alone(report: Report, size: int) -> None:
    """All clients are connected and take short turns, so that whatever else the machine does meets them alike."""
    took: dict[str, list[tuple[list[float], list[float]]]] = {kind: [] for kind in KINDS}
    with going_first(), broker() as peer, ExitStack() as stack:
        peer.connect().close()
        clients = {}
        for kind in KINDS:
            arguments = command(kind, "alone", peer.port, f"alone-{kind}", size, TURN)
            process = subprocess.Popen(arguments, cwd=HOUSE, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            clients[kind] = stack.enter_context(process)
        for turn in range(TURNS + 1):
            for kind, process in clients.items():
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write("go\n")
                process.stdin.flush()
                sends, trips = json.loads(process.stdout.readline())
                if turn:  # the first is to warm up
                    took[kind].append((sends, trips))
        for process in clients.values():
            assert process.stdin is not None
            process.stdin.close()
    for place, what in enumerate(("send", "round trip")):
        turns = {kind: [turn[place] for turn in took[kind]] for kind in KINDS}
        for name, part, ratio in (("p50", 0.5, by_turn), ("p99", 0.99, as_a_whole)):
            for kind in KINDS:
                report.note(f"{what} {name} of {size} B, {kind}", quantile(whole(turns[kind]), part) * 1e3, "ms")
            for kind in KINDS[1:]:
                compared = ratio(turns[kind], turns["stock"], part)
                report.note(f"  {kind} to stock, {what} {name}", compared, "ratio", "<= 1.2")


def by_turn(ours: list[list[float]], peers: list[list[float]], part: float) -> float:
    """The median of the turns' ratios: each is taken of two turns that followed each other."""
    return median(quantile(mine, part) / quantile(theirs, part) for mine, theirs in zip(ours, peers, strict=True))


def as_a_whole(ours: list[list[float]], peers: list[list[float]], part: float) -> float:
    """A turn is too short to have a tail of its own."""
    return quantile(whole(ours), part) / quantile(whole(peers), part)


def whole(turns: list[list[float]]) -> list[float]:
    return [took for turn in turns for took in turn]


def quantile(took: list[float], part: float) -> float:
    return sorted(took)[int(len(took) * part)]


@contextmanager
def going_first() -> Iterator[None]:
    """Ahead of everything else on its core, and so all that is started meanwhile."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except (AttributeError, PermissionError) as error:
        sys.stderr.write(f"other work on this machine counts as well: {error}\n")
        yield
        return
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def note_cpu(report: Report, name: str, found: dict[str, Measured]) -> None:
    for kind in KINDS:
        report.note(f"{name}, {kind}", found[kind]["cpu"], "us of processor a message")
        report.note(f"  rate, {kind} ({name})", found[kind]["rate"], "messages/s")
    for kind in KINDS[1:]:
        ratio = found[kind]["cpu"] / found["stock"]["cpu"]
        report.note(f"  {kind} to stock ({name})", ratio, "ratio", "<= 1.0")


SCENARIOS: dict[str, Callable[[Report], None]] = {
    "produce-100": lambda report: produce(report, 100),
    "produce-1024": lambda report: produce(report, 1024),
    "consume-100": lambda report: consume(report, 100),
    "consume-1024": lambda report: consume(report, 1024),
    "latency": lambda report: alone(report, 100),
}


def main() -> int:
    if len(os.sched_getaffinity(0)) > 1:
        os.sched_setaffinity(0, {LOAD_CORE})
    parser = argparse.ArgumentParser(prog="python -m benchmarks.client", description="Our client beside the wheel.")
    parser.add_argument("--only", nargs="+", choices=sorted(SCENARIOS), default=list(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=3)
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

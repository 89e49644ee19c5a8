"""`python -m simulation run --seeds N` runs worlds; `python -m simulation replay SEED` prints what happened in one.

`run` prints a line for every world that failed and the sums at the end; it exits with 1 if any failed. `--record FILE`
writes the sums as a page, which `make chaos` commits. `--brokers 2` passes over worlds with one broker. `--marks` also
fails the run if no world met a rare event. `replay` runs one seed and prints the events of its topics in order. `trace`
prints a digest of everything that happened in each given world: equal for equal seeds, in any process.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import count, islice
from pathlib import Path

from simulation.observe import marks
from simulation.report import other_runs, page
from simulation.runner import Tally, run_worlds
from simulation.world.cluster import ClusterWorld
from simulation.world.config import world_config


def main(words: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    return int(arguments.do(arguments))


def _run(arguments: argparse.Namespace) -> int:
    tally = Tally()
    for result in run_worlds(seeds(arguments.first, arguments.seeds, arguments.brokers), arguments.jobs):
        tally.add(result)
        if result.findings:
            _say(f"seed {result.seed}: {len(result.findings)} finding(s); python -m simulation replay {result.seed}")
            _say(f"  {result.findings[0]}")
    missed = marks.missing_marks(tally.marks) if arguments.marks else []
    for name in missed:
        _say(f"no world met {name}: the faults are too tame, or nothing comes by there")
    _say(
        f"{tally.worlds} worlds, {tally.virtual_s:.0f} virtual seconds, {tally.messages} messages acknowledged, "
        f"{tally.received} delivered, {sum(tally.faults.values())} faults, {len(tally.failing)} failing"
    )
    if arguments.record is not None:
        before = arguments.record.read_text() if arguments.record.exists() else ""
        arguments.record.write_text(page(tally, arguments.brokers, date.today().isoformat()) + other_runs(before))
    return 1 if tally.failing or missed else 0


def seeds(first: int, number: int, brokers: int) -> Iterator[int]:
    """The first seeds of worlds with at least this number of brokers."""
    return islice((seed for seed in count(first) if len(world_config(seed).brokers) >= brokers), number)


def _trace(arguments: argparse.Namespace) -> int:
    for result in run_worlds(arguments.seed, 1):
        _say(f"{result.seed} {result.trace} {len(result.findings)}")
    return 0


def _replay(arguments: argparse.Namespace) -> int:
    if arguments.log:
        logging.basicConfig(level=logging.DEBUG, format="                %(name)s %(message)s", stream=sys.stdout)
    config = world_config(arguments.seed)
    if arguments.without:
        config = config.without(*arguments.without)
    world = ClusterWorld(config)
    outcome = world.run()
    for row in config.rows():
        _say(row)
    topic = arguments.topic or ""
    if topic and "://" not in topic:
        topic = next((plan.topic for plan in config.topics if plan.topic.endswith(f"/{topic}")), topic)
    rows = [
        (line.at, line.number, str(line)) for line in outcome.history.lines if line.topic in ("", topic) or not topic
    ]
    rows += [(at, -1, f"      {at:>9.3f} * {text}") for at, text in world.story]
    for at, _, row in sorted(rows):
        if arguments.since <= at <= arguments.until:
            _say(row)
    if arguments.history is not None:
        arguments.history.write_text(outcome.history.dump())
    _say(f"trace {outcome.trace}, {len(outcome.findings)} finding(s)")
    for finding in outcome.findings:
        _say(finding)
    return 1 if outcome.findings else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m simulation", description="Real brokers in a simulated world.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    run = verbs.add_parser("run", help="try many worlds")
    run.add_argument("--seeds", type=int, default=100, help="how many")
    run.add_argument("--first", type=int, default=0, help="the first seed")
    run.add_argument("--brokers", type=int, default=1, help="only worlds with at least this number of brokers")
    run.add_argument("--jobs", type=int, default=2, help="concurrent worlds, each on a core")
    run.add_argument("--record", type=Path, help="write the sums to this file")
    run.add_argument("--marks", action="store_true", help="fail if a rare event was never met")
    run.set_defaults(do=_run)
    trace = verbs.add_parser("trace", help="a digest of all that happened in each of these worlds")
    trace.add_argument("seed", type=int, nargs="+")
    trace.set_defaults(do=_trace)
    replay = verbs.add_parser("replay", help="print what happened in one world")
    replay.add_argument("seed", type=int)
    replay.add_argument("--topic", help="only this one, by its full name or its last part")
    replay.add_argument("--since", type=float, default=0.0, help="virtual seconds")
    replay.add_argument("--until", type=float, default=float("inf"), help="virtual seconds")
    replay.add_argument("--without", type=int, nargs="*", default=(), help="leave out these faults, by their number")
    replay.add_argument("--history", type=Path, help="write what clients saw to this file, one JSON object a line")
    replay.add_argument("--log", action="store_true", help="the brokers' own log between the lines")
    replay.set_defaults(do=_replay)
    return parser


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

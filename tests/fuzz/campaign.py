"""Very many hostile inputs, counted over several runs: `MAGNETAR_FUZZ_INPUTS=100000000 python -m tests.fuzz.campaign`.

Each round takes one target and one seed: the seed alone decides all inputs of the round, so that a finding is named by
its target, seed and number. A file keeps the rounds that are done (`--state`), and the next run continues behind them.
The search of `run.py` follows coverage and is better at depth; this one is for numbers, and needs no instrumented code.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.grammar import Grammar
from tests.fuzz.targets import SEEDS, TARGETS

ROUND_INPUTS = 20_000
NOISE_BYTES_MAX = 300
# Without files and loops: thousands of inputs a second.
CODECS = ("acknowledgements", "batches", "checkpoints", "commands", "cutting", "entries", "message_ids", "topic_names")
GRAMMARS = {"commands": Grammar.command, "entries": Grammar.metadata}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz.campaign", description=__doc__)
    parser.add_argument("targets", nargs="*", help="all codecs if none is named")
    parser.add_argument("--state", type=Path, default=Path(".fuzz-campaign.json"), help="rounds that are done")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="then it ends, and a later run continues")
    parser.add_argument("--inputs", type=int, default=int(os.environ.get("MAGNETAR_FUZZ_INPUTS", "1000000")))
    given = parser.parse_args(arguments)
    state = load(given.state)
    until = time.monotonic() + given.seconds
    targets = given.targets or CODECS
    while total(state) < given.inputs and time.monotonic() < until:
        target = min(targets, key=lambda name: state.get(name, {}).get("seconds", 0.0))  # equal time for each
        done = state.setdefault(target, {"rounds": 0, "inputs": 0, "seconds": 0.0})
        began = time.monotonic()
        run_round(target, done["rounds"])
        done["rounds"] += 1
        done["inputs"] += ROUND_INPUTS
        done["seconds"] = round(done["seconds"] + time.monotonic() - began, 3)
        save(given.state, state)
    sys.stdout.write(report(state))
    return 0


def run_round(target: str, seed: int, inputs: int = ROUND_INPUTS) -> None:
    """AssertionError: a finding."""
    check = TARGETS[target]
    for number, data in enumerate(generate(target, seed, inputs)):
        try:
            check(data)
        except Exception as error:
            raise AssertionError(f"{target}, seed {seed}, input {number}: bytes.fromhex({data.hex()!r})") from error


def generate(target: str, seed: int, inputs: int) -> Iterator[bytes]:
    """Recorded inputs with a few changes, fields in odd order and shape, and noise."""
    chance = Random(f"{target} {seed}")
    recorded = SEEDS.get(target, list)() or [b""]
    grammar, build = Grammar(chance.getrandbits(64)), GRAMMARS.get(target)
    for _ in range(inputs):
        kind = chance.random()
        if kind < 0.05:
            yield chance.randbytes(chance.randrange(NOISE_BYTES_MAX))
        elif build is not None and kind < 0.5:
            yield build(grammar)
        else:
            yield mutate(chance, recorded)


def mutate(chance: Random, recorded: list[bytes]) -> bytes:
    data = bytearray(chance.choice(recorded))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        place = chance.randrange(len(data) + 1)
        change = chance.randrange(5)
        if change == 0:
            del data[place : place + chance.randrange(1, 9)]
        elif change == 1:
            data[place:place] = chance.randbytes(chance.randrange(1, 13))
        elif change == 2 and data:
            data[place % len(data)] = chance.randrange(256)
        elif change == 3 and data:
            data[place % len(data)] ^= 1 << chance.randrange(8)
        elif change == 4:
            other = chance.choice(recorded)
            data[place:] = other[chance.randrange(len(other) + 1) :]
    return bytes(data)


def total(state: dict[str, Any]) -> int:
    return sum(done["inputs"] for done in state.values())


def report(state: dict[str, Any]) -> str:
    """The table of docs/CHAOS.md."""
    lines = ["| target | inputs | seconds |", "|---|---|---|"]
    for target, done in sorted(state.items()):
        lines.append(f"| {target} | {done['inputs']:,} | {done['seconds']:,.0f} |")
    lines.append(f"| all | {total(state):,} | {sum(done['seconds'] for done in state.values()):,.0f} |")
    return "\n".join(lines) + "\n"


def load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def save(path: Path, state: dict[str, Any]) -> None:
    """Replaced whole: a run that is killed leaves the state before or after a round."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(state, indent=1))
    part.replace(path)


if __name__ == "__main__":
    sys.exit(main())

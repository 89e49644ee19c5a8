"""Coverage-guided fuzzing: `python -m tests.fuzz.run --seconds 600`, for all targets or those named.

Each target runs in a process of its own, because the fuzzer ends the process at a finding. Exits with 1 if any
target found something and says with which bytes; `--replay FILE TARGET` runs a target once on such bytes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

INPUT_BYTES_MAX = 4096


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz.run", description=__doc__)
    parser.add_argument("targets", nargs="*", help="all if none is named")
    parser.add_argument("--seconds", type=int, default=60, help="for all targets together")
    parser.add_argument("--replay", type=Path, help="bytes to run the target on once")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.alone:
        fuzz(given.targets[0], given.seconds)
        return 0
    from tests.fuzz.targets import TARGETS

    if given.replay is not None:
        TARGETS[given.targets[0]](given.replay.read_bytes())
        return 0
    chosen = given.targets or sorted(TARGETS)
    share = max(given.seconds // len(chosen), 1)
    return max([apart(target, share) for target in chosen])


def apart(target: str, seconds: int) -> int:
    command = [sys.executable, "-m", "tests.fuzz.run", "--alone", "--seconds", str(seconds), target]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    if done.returncode == 0:
        return 0
    sys.stderr.write(f"{target}: a finding\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}\n")
    return 1


def fuzz(target: str, seconds: int) -> None:
    """Does not return: libFuzzer ends the process, with 0 when its time is over."""
    import atheris

    with atheris.instrument_imports(include=["magnetar.base", "magnetar.wire", "magnetar.ledger", "magnetar.topic"]):
        from tests.fuzz.targets import SEEDS, TARGETS

    with tempfile.TemporaryDirectory(prefix="magnetar-fuzz-") as folder:
        for place, seed in enumerate(SEEDS.get(target, list)()):
            (Path(folder) / f"seed-{place:04}").write_bytes(seed)
        options = [f"-max_total_time={seconds}", f"-max_len={INPUT_BYTES_MAX}", "-timeout=10", "-rss_limit_mb=1024"]
        atheris.Setup(
            [target, *options, f"-artifact_prefix={tempfile.gettempdir()}/{target}-", folder], TARGETS[target]
        )
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())

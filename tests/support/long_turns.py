"""Turns of a broker's loop that took too much processor time, of all brokers that the tests of this process started.

A broker in this process reports them here; one in a process of its own writes them into a file, which `watch` names.
The hook behind each test takes what is new. It reads files alone and starts nothing.
"""

from __future__ import annotations

from pathlib import Path

from magnetar.testing.host import BrokerHost

_here: list[float] = []
_read: dict[Path, int] = {}  # how much of each file was taken


def watch(file: Path) -> None:
    """A broker process writes a line for each long turn into it: its seconds and where it was."""
    _read.setdefault(file, 0)


def take() -> list[str]:
    """What is new in each: seconds, and the stack of the turn if it is known."""
    turns = [f"{seconds:.3f} s" for seconds in _here]
    _here.clear()
    for file, begin in _read.items():
        try:
            with file.open() as lines:
                lines.seek(begin)
                turns += lines.read().splitlines()
                _read[file] = lines.tell()
        except FileNotFoundError:
            continue
    return turns


BrokerHost.on_long_turn = _here.append

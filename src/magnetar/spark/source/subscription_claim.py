"""Which run of which query has a subscription: two that share one would let go of what the other has not read.

Spark tells a source neither its query nor its checkpoint, so a run names itself when it holds: a random number, its
host, its process and when it began. A run that ended never holds again. So one that finds another run between two holds
of its own has proof that both are alive: the later one ends, the earlier one says so and goes on. A restart takes over
from a run that is dead, and is never refused. Decides only; brokers tell who held before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from magnetar.base.errors import Conflict

_OWNER = re.compile(r"Spark run ([0-9a-f]{8}) on (\S+), process (\d+)/(\d+), since (\S+)")


@dataclass(frozen=True, slots=True)
class Run:
    """`ticks`: when its process began, as the system counts; 0: not known. `here`: on this very machine."""

    token: str
    host: str
    process: int
    ticks: int
    began_ms: int
    here: bool = True

    @property
    def owner(self) -> str:
        """As a hold shows it."""
        since = datetime.fromtimestamp(self.began_ms / 1000, UTC).isoformat(timespec="milliseconds")
        return f"Spark run {self.token} on {self.host}, process {self.process}/{self.ticks}, since {since}"


def run_of(owner: str, host: str) -> Run | None:
    """The run that a hold names, seen from a host; None: it is of no run."""
    found = _OWNER.fullmatch(owner)
    if found is None:
        return None
    try:
        began = datetime.fromisoformat(found[5])
    except ValueError:
        return None
    began_ms = round(began.timestamp() * 1000)
    return Run(found[1], found[2], int(found[3]), int(found[4]), began_ms, found[2] == host)


class Claim:
    """Of one run, on all its topics. `tell` reaches the person who runs it."""

    def __init__(self, run: Run, tell: Callable[[str], None]) -> None:
        self._run = run
        self._tell = tell
        self._held: set[str] = set()  # topics that it has held before
        self._told: set[str] = set()  # runs it has complained about

    @property
    def owner(self) -> str:
        return self._run.owner

    def elsewhere(self, owner: str) -> Run | None:
        """The other run that a hold is of."""
        found = run_of(owner, self._run.host)
        return None if found is None or found.token == self._run.token else found

    def held(self, topic: str, subscription: str, before: str) -> None:
        """This run has just held; `before` had it until then. `Conflict`: another query has it, and had it first."""
        other = self.elsewhere(before)
        if topic not in self._held or other is None:
            self._held.add(topic)
            return
        if (other.began_ms, other.token) < (self._run.began_ms, self._run.token):
            raise taken(topic, subscription, other)
        if other.token not in self._told:
            self._told.add(other.token)
            self._tell(f"{_said(topic, subscription, other)}; it is the later one, and will end")


def taken(topic: str, subscription: str, other: Run) -> Conflict:
    return Conflict(
        f"option subscription: {_said(topic, subscription, other)}: stop that query, or give this one another "
        "subscription"
    )


def _said(topic: str, subscription: str, other: Run) -> str:
    since = datetime.fromtimestamp(other.began_ms / 1000, UTC).isoformat(timespec="seconds")
    return (
        f"{subscription} of {topic} is in use by another query (run {other.token} in process {other.process} on "
        f"{other.host} since {since}), and what is kept for two follows the one that is ahead"
    )

"""Ensures that one run of one query uses a subscription: with two runs, the broker would release messages that one of
them has not read.

Spark passes neither query nor checkpoint to a source, so each hold request names the run: a random number, its host,
its process and its start. A run that has ended never holds again. If a run finds another run between two of its own
holds, both are alive: the later one ends, the earlier one prints a warning and continues. A restart takes over from a
dead run and is never rejected. Pure; brokers report the previous holder.
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
    """`ticks`: the start of its process by the system's count; 0: unknown. `here`: on this machine."""

    token: str
    host: str
    process: int
    ticks: int
    began_ms: int
    here: bool = True

    @property
    def owner(self) -> str:
        """The text that a hold shows as its owner."""
        since = datetime.fromtimestamp(self.began_ms / 1000, UTC).isoformat(timespec="milliseconds")
        return f"Spark run {self.token} on {self.host}, process {self.process}/{self.ticks}, since {since}"


def run_of(owner: str, host: str) -> Run | None:
    """The run that a hold names, seen from a host; None: the owner is not a run."""
    match = _OWNER.fullmatch(owner)
    if match is None:
        return None
    try:
        began = datetime.fromisoformat(match[5])
    except ValueError:
        return None
    began_ms = round(began.timestamp() * 1000)
    return Run(match[1], match[2], int(match[3]), int(match[4]), began_ms, match[2] == host)


class Claim:
    """The claims of one run on all its topics. `tell` shows a warning to the user."""

    def __init__(self, run: Run, tell: Callable[[str], None]) -> None:
        self._run = run
        self._tell = tell
        self._held: set[str] = set()  # topics that this run has held before
        self._told: set[str] = set()  # runs already reported

    @property
    def owner(self) -> str:
        return self._run.owner

    def elsewhere(self, owner: str) -> Run | None:
        """The other run that owns the hold."""
        run = run_of(owner, self._run.host)
        return None if run is None or run.token == self._run.token else run

    def held(self, topic: str, subscription: str, before: str) -> None:
        """This run has just taken the hold from `before`. `Conflict`: another query uses it and was first."""
        other = self.elsewhere(before)
        if topic not in self._held or other is None:
            self._held.add(topic)
            return
        if (other.began_ms, other.token) < (self._run.began_ms, self._run.token):
            raise taken(topic, subscription, other)
        if other.token not in self._told:
            self._told.add(other.token)
            self._tell(f"{_said(topic, subscription, other)}; that query is the later one, and will end")


def taken(topic: str, subscription: str, other: Run) -> Conflict:
    return Conflict(
        f"option subscription: {_said(topic, subscription, other)}: stop that query, or set another "
        "subscription for this one"
    )


def _said(topic: str, subscription: str, other: Run) -> str:
    since = datetime.fromtimestamp(other.began_ms / 1000, UTC).isoformat(timespec="seconds")
    return (
        f"{subscription} of {topic} is in use by another query (run {other.token} in process {other.process} on "
        f"{other.host} since {since}). The broker keeps messages only for the query that is ahead"
    )

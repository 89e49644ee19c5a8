"""Decides which connection failures deserve a warning: the first one, the loss of a connection, then one per minute.

It only decides; the pool writes the log. Each address has its own outage, which ends with the next connection. The
number of addresses is bounded: beyond the bound the oldest outage is dropped, and its next failure counts as a first.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass

from magnetar.base.limits import CLIENT_OUTAGE_LOG_S, CLIENT_OUTAGES_MAX

_ATTEMPT = re.compile(r"\[Errno (\d+)\] Connect call failed")  # the words of asyncio
# Errors of the system for an address family that the machine does not have: next to a refusal they do not matter.
_NO_SUCH_FAMILY = frozenset((errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT, errno.ENETUNREACH))


def is_refused(error: OSError) -> bool:
    """Whether every address of the host refused. For a host with several, asyncio joins their errors into one text."""
    numbers = [int(number) for number in re.findall(r"\[Errno (\d+)\]", str(error))]
    if not numbers and error.errno is not None:
        numbers = [error.errno]
    return errno.ECONNREFUSED in numbers and set(numbers) <= _NO_SUCH_FAMILY | {errno.ECONNREFUSED}


def reason(error: Exception) -> str:
    """The text of an error for users, without the numbers of the operating system and the addresses of the attempts."""
    attempts = [os.strerror(int(number)) for number in _ATTEMPT.findall(str(error))]
    if attempts:
        return ", ".join(dict.fromkeys(attempts))
    return re.sub(r"\[Errno -?\d+\] ", "", str(error)) or type(error).__name__


@dataclass(slots=True)
class _Outage:
    since: float
    log_at: float  # the next warning is due then
    attempts: int = 0


class Outages:
    """The outages of one client."""

    def __init__(self, *, log_s: float = CLIENT_OUTAGE_LOG_S) -> None:
        self._log_s = log_s
        self._open: dict[str, _Outage] = {}

    def lost(self, url: str, now: float) -> None:
        """A connection ended. The first failed attempt after it is logged as a warning too."""
        self._begin(url, now, log_at=now)

    def failed(self, url: str, now: float) -> tuple[int, float] | None:
        """An attempt failed. Returns the number of attempts and the length of the outage if a warning is due."""
        outage = self._open.get(url) or self._begin(url, now, log_at=now)
        outage.attempts += 1
        if now < outage.log_at:
            return None
        outage.log_at = now + self._log_s
        return outage.attempts, now - outage.since

    def ended(self, url: str, now: float) -> float | None:
        """A connection was made. Returns the length of the outage, None if there was none."""
        outage = self._open.pop(url, None)
        return None if outage is None else now - outage.since

    def _begin(self, url: str, now: float, *, log_at: float) -> _Outage:
        if len(self._open) >= CLIENT_OUTAGES_MAX:
            del self._open[next(iter(self._open))]
        outage = self._open[url] = _Outage(now, log_at)
        return outage

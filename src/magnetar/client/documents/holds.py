"""Holds of a scalable topic, as REST says them: what is kept for readers that commit rarely."""

from __future__ import annotations

import msgspec


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """`places`: from where on each segment is kept (`ledger:entry`, or DONE); segments before them are not, those
    behind them are kept whole. `state`: KEEPS, WARNED (its end was announced) or EXPIRED (it keeps nothing any more).
    `lagOldestMs`, `lagAgeS`: publish time and age of the oldest message that was not read; 0: there is none.
    `members`: of a group of checkpoint consumers that reads by it, those that are there.
    """

    hold: str
    owner: str = ""
    state: str = "KEEPS"
    lagMessages: int = 0
    lagBytes: int = 0
    lagOldestMs: int = 0
    lagAgeS: float = 0.0
    expiresS: int = 0
    untilMs: int = 0
    movedMs: int = 0
    warnedMs: int = 0
    expiredMs: int = 0
    members: list[str] = []
    places: dict[str, str] = {}

"""Documents of holds on scalable topics: the messages kept for readers that commit rarely."""

from __future__ import annotations

import msgspec


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """`places`: the first kept position of each segment (`ledger:entry`, or DONE); segments before them are not kept,
    segments after them are kept whole. `state`: KEEPS, WARNED (its end was announced) or EXPIRED (it keeps nothing).
    `lagOldestMs`, `lagAgeS`: publish time and age of the oldest unread message; 0 without one. `members`: the present
    members of the group of checkpoint consumers that reads by it.
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

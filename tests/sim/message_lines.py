"""How tales for the checkers tell of messages: `n` of key k stands at entry `n` of ledger 1, which is segment 0 unless
it is said otherwise.
"""

from __future__ import annotations

from simulation import history as record
from simulation.history import INVOKE, OK, History, Value


def sent(history: History, topic: str, *numbers: int) -> None:
    for n in numbers:
        for phase in (INVOKE, OK):
            place = (1, n, 0) if phase == OK else None
            history.note("p", record.SEND, phase, topic, value=Value("p", "k", n), place=place, session=1, segment=0)


def received(history: History, topic: str, *numbers: int, session: int, segment: int = 0, **facts: str) -> None:
    for n in numbers:
        value, place = Value("p", "k", n), (1, n, 0)
        history.note("r", record.READ, OK, topic, value=value, place=place, session=session, segment=segment, **facts)

"""The checkers of subscriptions that are moved, to times and past everything, of streams and of queues: what is wrong
in one way is found, what is legal is let through.
"""

from __future__ import annotations

from typing import Any

import pytest

from simulation import history as record
from simulation.check.suite import check_history
from simulation.history import FAIL, INVOKE, OK, UNKNOWN, History, Value
from simulation.observe import history_marks

TOPIC = "topic://public/default/t"
SUB = "s"


class Tale:
    """Every line takes a second. Message `n` of key k stands at entry `n` of ledger 1, which is segment 0."""

    def __init__(self, type: str = "Stream") -> None:
        self.history = History(lambda: float(len(self.history.lines)))
        self.type = type
        self.history.note("world", record.TOPIC, OK, TOPIC, scalable=True, kept=True)

    def sub(self, session: int = 10) -> Tale:
        for phase in (INVOKE, OK):
            self._note(record.SUBSCRIBE, phase, session=session, type=self.type, earliest=True)
        return self

    def send(self, *numbers: int) -> Tale:
        for n in numbers:
            value = Value("p", "k", n)
            self.history.note("p", record.SEND, INVOKE, TOPIC, value=value, session=1)
            self.history.note("p", record.SEND, OK, TOPIC, value=value, session=1, place=(1, n, 0), segment=0)
        return self

    def late(self, n: int) -> Tale:
        """Its sending begins; it stands where it stands."""
        self.history.note("p", record.SEND, INVOKE, TOPIC, value=Value("p", "k", n), session=2)
        return self

    def stored(self, n: int, entry: int) -> Tale:
        value = Value("p", "k", n)
        self.history.note("p", record.SEND, OK, TOPIC, value=value, session=2, place=(1, entry, 0), segment=0)
        return self

    def get(self, *numbers: int, session: int = 10) -> Tale:
        for n in numbers:
            self._note(record.RECEIVE, OK, session=session, value=Value("p", "k", n), place=(1, n, 0), segment=0)
        return self

    def ack(self, *numbers: int, confirm: bool = False) -> Tale:
        for n in numbers:
            self._note(record.ACK, INVOKE, place=(1, n, 0), segment=0)
            if confirm:
                self._note(record.ACK, OK, place=(1, n, 0))
        return self

    def seek(self, phase: str | None = OK, *, back_s: int | None = None, end: bool = False) -> Tale:
        """To the time of the line so many lines ago, to the end, or to the beginning; begun and not ended: None."""
        now = len(self.history.lines)
        facts: dict[str, Any] = {"acks_kept": True} if self.type == "Queue" else {}
        if back_s is not None:
            facts |= {"since": float(now - back_s), "by_time": True}
        elif end:
            facts["since"] = float(now + 1)
        self._note(record.SEEK, INVOKE, **facts)
        if phase is not None:
            self._note(record.SEEK, phase, **facts)
        return self

    def drained(self) -> Tale:
        self._note(record.DRAIN, INVOKE, session=99)
        self.sub(99)
        return self

    def empty(self) -> Tale:
        self._note(record.DRAIN, OK, session=99)
        return self

    def found(self) -> set[int]:
        return {finding.invariant for finding in check_history(self.history)}

    def _note(self, operation: str, phase: str, *, session: int = 10, **more: Any) -> None:
        self.history.note("c", operation, phase, TOPIC, subscription=SUB, session=session, **more)


def queue() -> Tale:
    return Tale("Queue").sub()


LEGAL = {
    "sent before the time, not brought": Tale().sub().send(0, 1).seek(back_s=1).send(2).get(2).ack(2).drained().empty(),
    "published before the time, behind what is younger": Tale()
    .sub()
    .late(7)
    .send(0)
    .seek(back_s=2)
    .stored(7, 1)
    .drained()
    .empty(),
    "passed over": Tale().sub().send(0, 1).seek(end=True).send(2).get(2).ack(2).drained().empty(),
    "passed over while it was sent": Tale().sub().late(0).seek(end=True).stored(0, 0).drained().empty(),
    "out of order while nobody knows how a seek forward ends": Tale().sub().send(0, 1, 2).seek(None, end=True).get(2),
    "the same when nobody heard its end": Tale()
    .sub()
    .send(0, 1)
    .seek(UNKNOWN, end=True)
    .seek()
    .get(1)
    .drained()
    .empty(),
    "what a consumer of before had in its queue": Tale().sub().send(0, 1).seek(end=True).get(0),
    "acknowledged once more after the queue was moved": queue()
    .send(0)
    .get(0)
    .ack(0, confirm=True)
    .seek()
    .get(0)
    .ack(0)
    .drained()
    .empty(),
    "acknowledged before the queue was moved, without a receipt": queue()
    .send(0)
    .get(0)
    .ack(0)
    .seek()
    .drained()
    .empty(),
    "taken before the queue was moved, acknowledged after": queue().send(0).get(0).seek().ack(0).drained().empty(),
}
WRONG = {
    "sent after the time, not brought": (Tale().sub().send(0, 1).seek(back_s=3).drained().empty(), 1),
    "sent after the time, not brought again": (
        Tale().sub().send(0, 1).get(0, 1).ack(0, 1).seek(back_s=10).drained().empty(),
        9,
    ),
    "sent after the time, out of order": (Tale().sub().send(0, 1).seek(back_s=5).get(1), 4),
    "sent after all was passed over": (Tale().sub().send(0).seek(end=True).send(1).drained().empty(), 1),
    "out of order after a seek that was refused": (Tale().sub().send(0, 1).seek(FAIL, end=True).get(1), 4),
    "passed over, and brought to who came later": (Tale().sub().send(0).seek(end=True).sub(11).get(0, session=11), 16),
    "acknowledged with a receipt, and not brought again when the queue was moved": (
        queue().send(0).get(0).ack(0, confirm=True).seek().drained().empty(),
        9,
    ),
}


@pytest.mark.parametrize("name", LEGAL)
def test_what_is_legal_is_let_through(name: str) -> None:
    assert LEGAL[name].found() == set()


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name: str) -> None:
    tale, invariant = WRONG[name]
    assert invariant in tale.found()


def test_what_was_done_is_counted_for_marks() -> None:
    tale = queue().send(0).seek().seek(back_s=1).seek(UNKNOWN, end=True)
    assert history_marks.count_marks(tale.history) == {"queue.sought": 2, "time.sought": 1}
    tale.history.note("mover", record.SEEK, OK, TOPIC, subscription=SUB, since=1.0, acks_kept=True)
    assert history_marks.count_marks(tale.history)["subscription.skipped"] == 1

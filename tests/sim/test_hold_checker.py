"""The checker of holds: one that ends unannounced and one under which something is gone are found; legal ends are let
through, and readers of what is left are judged each by its own beginning.
"""

from __future__ import annotations

import pytest

from simulation import history as record
from simulation.check.suite import check_history
from simulation.history import OK, History
from simulation.observe import history_marks
from tests.sim.message_lines import received, sent

TOPIC = "topic://public/gone/t"
NOTICE_S = 3


class Tale:
    """Every line takes a second, and more where it is said. Nothing is kept but by the hold h of reader h."""

    def __init__(self) -> None:
        self.history = History(self._now)
        self.waited_s = 0.0
        self.history.note("world", record.TOPIC, OK, TOPIC, scalable=True, kept=False)

    def hold(self, state: str = "", *, name: str = "h") -> Tale:
        warned, expired = state in ("warned", "over"), state == "over"
        facts = {"warned": warned, "expired": expired}
        self.history.note("world", record.HOLD, OK, TOPIC, hold=name, notice_s=float(NOTICE_S), **facts)
        return self

    def wait(self, seconds: float = NOTICE_S) -> Tale:
        self.waited_s += seconds
        return self

    def gap(self, session: int = 1, name: str = "h") -> Tale:
        self.history.note("r", record.GAP, OK, TOPIC, session=session, reader=name, hold=name, segments=[0])
        return self

    def send(self, *numbers: int) -> Tale:
        sent(self.history, TOPIC, *numbers)
        return self

    def reads(self, *numbers: int, session: int = 1, name: str = "h") -> Tale:
        self.history.note("r", record.READ_FROM, OK, TOPIC, session=session, checkpoint="", reader=name)
        received(self.history, TOPIC, *numbers, session=session, reader=name)
        return self

    def all(self, session: int = 1, name: str = "h") -> Tale:
        self.history.note("r", record.READ_ALL, OK, TOPIC, session=session, reader=name)
        return self

    def found(self) -> set[int]:
        return {finding.invariant for finding in check_history(self.history)}

    def _now(self) -> float:
        return len(self.history.lines) + self.waited_s


LEGAL = {
    "announced long enough": lambda: Tale().hold("warned").wait().hold("over"),
    "its reader came, and stayed away again": lambda: (
        Tale().hold("warned").hold().wait().hold("warned").wait().hold("over")
    ),
    "a gap when it was over": lambda: Tale().hold("warned").wait().hold("over").gap(),
    "a gap that is told late": lambda: Tale().hold("warned").wait().hold("over").hold().gap(),
    "after a gap another reader sees what is left": lambda: (
        Tale()
        .reads(session=1)
        .send(0, 1, 2)
        .hold("warned")
        .wait()
        .hold("over")
        .gap()
        .reads(2, session=2, name="i")
        .all(2, "i")
    ),
}
WRONG = {
    "never announced": (12, lambda: Tale().hold("over")),
    "announced too late": (12, lambda: Tale().hold("warned").hold("over")),
    "announced before its reader came": (12, lambda: Tale().hold("warned").wait().hold().hold("over")),
    "something is gone under it": (9, lambda: Tale().hold("warned").gap()),
    "something is gone under another reader's": (9, lambda: Tale().hold("warned").wait().hold("over").gap(name="i")),
    "a gap of which nobody was told": (
        9,
        lambda: Tale().reads(1, session=2).send(0, 1).hold("warned").wait().hold("over").reads(1, session=3).all(3),
    ),
}


@pytest.mark.parametrize("name", LEGAL)
def test_what_is_legal_is_let_through(name: str) -> None:
    assert LEGAL[name]().found() == set()


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name: str) -> None:
    invariant, tale = WRONG[name]
    assert invariant in tale().found()


def test_gap_that_was_told_is_counted_for_marks() -> None:
    assert history_marks.count_marks(Tale().hold("warned").wait().hold("over").gap().history) == {"gap.told": 1}

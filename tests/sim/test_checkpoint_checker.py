"""The checker of readers with checkpoints: what is wrong in one way is found, what is legal is let through."""

from __future__ import annotations

import pytest

from simulation import history as record
from simulation.check.checkpoints import check
from simulation.history import OK, History
from tests.sim.message_lines import received, sent

TOPIC = "topic://public/default/t"


class Tale:
    """A topic and its readers; messages as in `telling`."""

    def __init__(self, *, kept: bool = True) -> None:
        self.history = History()
        self.history.note("world", record.TOPIC, OK, TOPIC, scalable=True, kept=kept)

    def send(self, *numbers: int) -> Tale:
        sent(self.history, TOPIC, *numbers)
        return self

    def begin(self, session: int, checkpoint: str = "") -> Tale:
        self.history.note("r", record.READ_FROM, OK, TOPIC, session=session, checkpoint=checkpoint, reader="r")
        return self

    def read(self, session: int, *numbers: int, segment: int = 0) -> Tale:
        received(self.history, TOPIC, *numbers, session=session, segment=segment)
        return self

    def keep(self, session: int, checkpoint: str) -> Tale:
        self.history.note("r", record.KEPT, OK, TOPIC, session=session, checkpoint=checkpoint)
        return self

    def all(self, session: int) -> Tale:
        self.history.note("r", record.READ_ALL, OK, TOPIC, session=session, reader="r")
        return self

    def found(self) -> list[int]:
        return [finding.invariant for finding in check(self.history)]


LEGAL = {
    "one reader, from a checkpoint on": Tale()
    .send(0, 1, 2)
    .begin(1)
    .read(1, 0)
    .keep(1, "a")
    .begin(2, "a")
    .read(2, 1, 2),
    "what was read behind a checkpoint is read again": Tale().begin(1).read(1, 0).keep(1, "a").read(1, 1).begin(2, "a"),
    "one reader is behind another": Tale().begin(1).read(1, 0, 1, 2).begin(2).read(2, 0),
    "a reader that saw all": Tale().send(0, 1).begin(1).read(1, 0, 1).all(1),
    "what was sent before a hold may be gone": Tale(kept=False).send(0).begin(1).send(1).read(1, 1).all(1),
    "what nobody was told of may be missing": Tale().send(0).begin(1).read(1, 0).all(1).send(1),
}
WRONG = {
    "received twice": (Tale().begin(1).read(1, 0).keep(1, "a").begin(2, "a").read(2, 0, 1), 12),
    "another order than another reader's": (Tale().begin(1).read(1, 0, 1).begin(2).read(2, 1, 0), 12),
    "another segment than another reader's": (Tale().begin(1).read(1, 0).begin(2).read(2, 0, segment=5), 12),
    "one passed over under a hold": (Tale(kept=False).begin(1).send(0, 1).read(1, 1).all(1), 9),
    "one passed over": (Tale().send(0, 1, 2).begin(1).read(1, 0).keep(1, "a").begin(2, "a").read(2, 2).all(2), 9),
}


@pytest.mark.parametrize("name", LEGAL)
def test_what_is_legal_is_let_through(name):
    assert LEGAL[name].found() == []


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_found(name):
    tale, invariant = WRONG[name]
    assert invariant in tale.found()

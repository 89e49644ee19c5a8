"""Whatever is lost, answered, refused or given up: entries are answered in order, written in order, and once over they
are over."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from magnetar.base.errors import InvalidTransition
from magnetar.client.producer.pending import ChunkedSend, Pending, PendingSend
from tests.support.search_effort import examples


def an_op(
    sequence: int, highest: int | None = None, *, deadline: float = 0.0, whole: ChunkedSend | None = None
) -> PendingSend:
    return PendingSend(
        b"frame",
        sequence,
        sequence if highest is None else highest,
        count=1,
        size=1,
        deadline=deadline,
        dones=[],
        whole=whole,
    )


def written(pending: Pending) -> list[int]:
    found = []
    while (op := pending.next_write()) is not None:
        found.append(op.sequence)
    return found


def test_after_loss_everything_unanswered_is_written_again_in_order():
    pending = Pending()
    for sequence in range(4):
        pending.push(an_op(sequence))
    assert written(pending) == [0, 1, 2, 3]
    assert pending.answered(0) is not None
    pending.push(an_op(4))
    pending.rewind()
    assert written(pending) == [1, 2, 3, 4]
    assert written(pending) == []


def test_what_was_given_up_is_not_written():
    pending = Pending()
    pending.push(an_op(0, deadline=1.0))
    pending.push(an_op(1, deadline=5.0))
    assert [op.sequence for op in pending.expired(2.0)] == [0]
    assert written(pending) == [1]
    assert pending.answered(0) is None, "its receipt came late"


def test_any_id_of_batch_answers_it():
    pending = Pending()
    pending.push(an_op(0, 9))
    written(pending)
    found = pending.answered(7)
    assert found is not None
    assert found.over


def test_receipt_for_what_is_not_oldest_is_refused():
    pending = Pending()
    pending.push(an_op(0))
    pending.push(an_op(1))
    written(pending)
    with pytest.raises(InvalidTransition):
        pending.answered(1)


def test_receipt_for_what_was_never_written_is_refused():
    pending = Pending()
    pending.push(an_op(0))
    with pytest.raises(InvalidTransition):
        pending.answered(0)


def test_refused_chunk_takes_its_message_with_it():
    pending = Pending()
    whole = ChunkedSend()
    for op in (an_op(0), an_op(1, whole=whole), an_op(1, whole=whole), an_op(2)):
        pending.push(op)
    written(pending)
    assert len(pending.refused(1)) == 2
    assert len(pending) == 2
    assert pending.refused(9) == []


class Life(RuleBasedStateMachine):
    """Against a plain list: what must still be stored, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.pending = Pending()
        self.expected: list[PendingSend] = []  # not over yet
        self.on_wire: list[PendingSend] = []  # written on this attachment, unanswered, in order
        self.next = 0
        self.now = 0.0

    @rule(width=st.integers(1, 3))
    def push(self, width: int) -> None:
        op = an_op(self.next, self.next + width - 1, deadline=self.now + 10)
        self.next += width
        self.pending.push(op)
        self.expected.append(op)

    @rule()
    def write_one(self) -> None:
        op = self.pending.next_write()
        unwritten = [other for other in self.expected if other not in self.on_wire]
        assert op is (unwritten[0] if unwritten else None)
        if op is not None:
            self.on_wire.append(op)

    @precondition(lambda self: self.on_wire)
    @rule(choice=st.integers(0, 2))
    def answer(self, choice: int) -> None:
        op = self.on_wire.pop(0)
        sequence = min(op.sequence + choice, op.highest)
        found = self.pending.answered(sequence)
        if op.over and op not in self.expected:
            assert found is None
        else:
            assert found is op
            self.expected.remove(op)

    @precondition(lambda self: self.on_wire)
    @rule()
    def refuse(self) -> None:
        op = self.on_wire.pop(0)
        found = self.pending.refused(op.sequence)
        if op in self.expected:
            assert found == [op]
            self.expected.remove(op)
        else:
            assert found == []

    @rule()
    def lose_and_attach_again(self) -> None:
        self.on_wire.clear()
        self.pending.rewind()

    @rule(seconds=st.integers(0, 8))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds
        late = [op for op in self.expected if op.deadline <= self.now]
        assert self.pending.expired(self.now) == late
        self.expected = self.expected[len(late) :]

    @invariant()
    def nothing_is_lost_and_nothing_comes_back(self) -> None:
        assert len(self.pending) == len(self.expected)
        assert all(not op.over for op in self.expected)
        assert self.pending.newest is (self.expected[-1] if self.expected else None)
        assert self.pending.deadline == (self.expected[0].deadline if self.expected else None)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)

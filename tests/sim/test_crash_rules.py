"""The checker catches what it is for: one small history for each rule, wrong in one way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simulation.crash import rules
from simulation.crash.history import History, Message

TOPIC, SUB = "t", "s"


def message(number: int, key: str = "k") -> Message:
    return Message("p", key, number)


def whole(count: int = 3, *, ordered: bool = True, keyed: bool = False) -> tuple[History, int]:
    """Sent, receipted, and delivered once, in order."""
    history = History()
    session = history.subscribed(TOPIC, SUB, ordered=ordered, keyed=keyed)
    for number in range(count):
        history.sending(TOPIC, [message(number)])
        history.receipt(TOPIC, [message(number)], 1, number)
        history.delivered(TOPIC, SUB, session, (1, number, 0), message(number).payload)
    return history, session


def invented() -> History:
    history, session = whole()
    history.delivered(TOPIC, SUB, session, (1, 3, 0), message(9).payload)
    return history


def no_message_at_all() -> History:
    history, session = whole()
    history.delivered(TOPIC, SUB, session, (1, 3, 0), b"noise")
    return history


def rewritten_place() -> History:
    history, _ = whole()
    history.next_life()
    history.delivered(
        TOPIC, SUB, history.subscribed(TOPIC, SUB, ordered=True, keyed=False), (1, 0, 0), message(1).payload
    )
    return history


def receipt_for_another_place() -> History:
    history, _ = whole()
    history.sent[TOPIC][message(1)].places[0] = (1, 0, 0)
    return history


def stored_twice_though_sent_once() -> History:
    history, session = whole()
    history.delivered(TOPIC, SUB, session, (1, 3, 0), message(2).payload)
    return history


def stored_twice_with_deduplication() -> History:
    history, session = whole()
    history.once.add(TOPIC)
    history.sending(TOPIC, [message(2)])
    history.delivered(TOPIC, SUB, session, (1, 3, 0), message(2).payload)
    return history


def log_out_of_order() -> History:
    history, session = whole(0)
    history.sending(TOPIC, [message(0), message(1)])
    for place, number in enumerate((1, 0)):
        history.delivered(TOPIC, SUB, session, (1, place, 0), message(number).payload)
    return history


def delivered_backwards() -> History:
    history, session = whole()
    history.delivered(TOPIC, SUB, session, (1, 1, 0), message(1).payload)
    return history


def key_at_two_consumers() -> History:
    history, _ = whole(keyed=True, ordered=False)
    other = history.subscribed(TOPIC, SUB, ordered=False, keyed=True)
    history.delivered(TOPIC, SUB, other, (1, 1, 0), message(1).payload)
    return history


def never_delivered() -> History:
    history, _ = whole()
    history.sending(TOPIC, [message(3)])
    history.receipt(TOPIC, [message(3)], 1, 3)
    return history


def cursor_ahead() -> History:
    history, _ = whole()
    history.acking(TOPIC, SUB, [message(0)])
    history.next_life()
    session = history.subscribed(TOPIC, SUB, ordered=True, keyed=False)
    history.delivered(TOPIC, SUB, session, (1, 2, 0), message(2).payload)
    return history


def forgotten_acknowledgement() -> History:
    history, _ = whole()
    history.durable(TOPIC, SUB, [message(0)])
    history.next_life()
    session = history.subscribed(TOPIC, SUB, ordered=True, keyed=False)
    for number in range(3):
        history.delivered(TOPIC, SUB, session, (1, number, 0), message(number).payload)
    return history


def back_from_a_deleted_topic() -> History:
    history, _ = whole()
    history.deleting(TOPIC)
    history.deleted(TOPIC)
    session = history.subscribed(TOPIC, SUB, ordered=True, keyed=False)
    history.delivered(TOPIC, SUB, session, (1, 0, 0), message(0).payload)
    return history


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        (invented, "never_sent"),
        (rewritten_place, "contradictions"),
        (receipt_for_another_place, "contradictions"),
        (stored_twice_though_sent_once, "duplicates"),
        (stored_twice_with_deduplication, "duplicates"),
        (log_out_of_order, "out_of_order"),
        (delivered_backwards, "delivered_out_of_order"),
        (key_at_two_consumers, "delivered_out_of_order"),
        (never_delivered, "missing"),
        (cursor_ahead, "not_redelivered"),
        (forgotten_acknowledgement, "redelivered_after_ack"),
        (back_from_a_deleted_topic, "delivered_after_deletion"),
    ],
)
def test_breach_is_caught(wrong: Callable[[], History], rule: str) -> None:
    assert [finding for finding in rules.check_at_rest(wrong()) if finding.startswith(f"{rule}:")]


def test_noise_is_caught() -> None:
    assert list(rules.never_sent(no_message_at_all()))


def test_what_is_right_is_let_through() -> None:
    history, _ = whole()
    history.acking(TOPIC, SUB, [message(0)])
    history.durable(TOPIC, SUB, [message(0)])
    history.next_life()
    session = history.subscribed(TOPIC, SUB, ordered=True, keyed=False)
    for number in (1, 2):
        history.delivered(TOPIC, SUB, session, (1, number, 0), message(number).payload)
    history.sending(TOPIC, [message(2)])  # again, its receipt was lost
    history.receipt(TOPIC, [message(2)], 1, 3)
    history.delivered(TOPIC, SUB, session, (1, 3, 0), message(2).payload)
    assert rules.check_at_rest(history) == []

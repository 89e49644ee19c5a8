"""What is not acknowledged in time comes due in the order it was handed out; a new message of a batch renews it."""

from __future__ import annotations

from magnetar.client.consumer.ack.ack_timeouts import AckTimeouts


def test_due_in_order_and_once():
    timeouts = AckTimeouts(10)
    timeouts.add((1, 2), now=0)
    timeouts.add((1, 1), now=1)
    timeouts.add((1, 3), now=5)
    assert timeouts.next_due() == 10
    assert timeouts.take_due(9.9) == []
    assert timeouts.take_due(11) == [(1, 1), (1, 2)]
    assert timeouts.next_due() == 15
    assert len(timeouts) == 1


def test_next_message_of_batch_renews_deadline():
    timeouts = AckTimeouts(10)
    timeouts.add((1, 1), now=0)
    timeouts.add((1, 2), now=1)
    timeouts.add((1, 1), now=8)
    assert timeouts.take_due(12) == [(1, 2)]
    assert timeouts.take_due(18) == [(1, 1)]


def test_acknowledged_messages_are_not_due():
    timeouts = AckTimeouts(10)
    for entry in range(5):
        timeouts.add((1, entry), now=0)
    timeouts.remove((1, 4))
    timeouts.remove_until((1, 1))
    assert timeouts.take_due(100) == [(1, 2), (1, 3)]
    timeouts.add((1, 0), now=100)
    timeouts.forget()
    assert timeouts.next_due() is None

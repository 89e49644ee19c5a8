"""Removal of the producers and consumers of a closed connection: a bounded number leaves the topics in each turn.

One connection may have thousands of them, and all other clients wait while they leave. All are marked as closed
immediately, so that they receive nothing more. A new client that conflicts with one of them does not wait: the topic
asks the connection, which is dead, and removes it. Consumers of one subscription leave in succession, so that its
dispatcher decides once per turn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from magnetar.base.limits import LEAVING_TURN_CLIENTS_MAX, LEAVING_TURN_ENTRIES_MAX

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection
    from magnetar.broker.topics.topics import AnyTopic
    from magnetar.topic.subscriptions.consumer import Consumer


class Leaving:
    """Takes over all producers and consumers of the connection."""

    def __init__(self, connection: Connection) -> None:
        self._producers = deque(connection.producers.values())
        by_subscription: dict[int, list[Consumer]] = {}
        for consumer in connection.consumers.values():
            by_subscription.setdefault(id(consumer.subscription), []).append(consumer)
        self._consumers = deque(consumer for found in by_subscription.values() for consumer in found)
        for producer in self._producers:
            producer.closed = True
        for consumer in self._consumers:
            consumer.closed = True
        connection.producers.clear()
        connection.consumers.clear()

    def go(self) -> None:
        """Removes the first ones now, the others in the next turns."""
        self._step()
        if self._producers or self._consumers:
            asyncio.get_running_loop().call_soon(self.go)

    def _step(self) -> None:
        left = LEAVING_TURN_CLIENTS_MAX
        while self._producers and left:
            left -= 1
            producer = self._producers.popleft()
            producer.topic.producers.leave(producer)
        entries = LEAVING_TURN_ENTRIES_MAX
        going: dict[AnyTopic, list[Consumer]] = {}
        while self._consumers and left and entries > 0:
            left -= 1
            consumer = self._consumers.popleft()
            if consumer.subscription is not None:
                entries -= len(consumer.pending)
                going.setdefault(consumer.subscription.topic, []).append(consumer)
        for topic, consumers in going.items():
            topic.remove_consumers(consumers)

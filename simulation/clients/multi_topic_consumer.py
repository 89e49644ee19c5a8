"""A consumer of several topics under one subscription name. It records what it receives topic by topic.

It behaves like any other consumer process (`simulation.clients.consumer`). One subscribe call makes several
subscriptions: when it fails, the client does not know which of them exist. The checkers judge it at the end, when a
fresh consumer of each topic takes the rest. They do not judge it while it is attached, because one number cannot name
the connection on which a message arrived.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from magnetar.base.errors import MagnetarError
from magnetar.client.client import Client
from magnetar.client.consumer.consumer import Consumer
from magnetar.client.message import Message
from simulation import history as record
from simulation.clients.consumer import ClientContext, ConsumerProcess
from simulation.history import INVOKE, OK, UNKNOWN
from simulation.world.workload import SubscriptionPlan

ALL = SubscriptionPlan("all", "Shared", refuses=0.02, leaves=0.02)


class MultiTopicConsumerProcess(ConsumerProcess):
    def __init__(
        self, context: ClientContext, client: Client, topics: Sequence[str], name: str, chance: random.Random
    ) -> None:
        super().__init__(context, client, topics[0], ALL, name, chance)
        self._topics = list(topics)

    def about(self, message: Message[bytes]) -> None:
        self._topic = message.topic

    async def open(self) -> Consumer[bytes] | None:
        self._session = self._context.history.session()
        self._held.clear()
        self._left.clear()
        self._epoch = lambda: 0
        self._tell(INVOKE)
        try:
            consumer = await self._client.subscribe(self._topics, ALL.name, **self._options())
        except MagnetarError as error:
            self._tell(UNKNOWN, type(error).__name__)
            return None
        self._consumer = consumer
        self._epoch = lambda: consumer.counters.attaches
        self._tell(OK)
        return consumer

    def _tell(self, phase: str, error: str = "") -> None:
        for topic in self._topics:
            self._topic = topic
            self.note(record.SUBSCRIBE, phase, type=ALL.type, earliest=ALL.earliest, error=error)

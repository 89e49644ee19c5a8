"""Clients of a real broker that never give up: each player on a connection of its own, back as soon as it can be.

What they saw is in one history; `gone` waits until the last byte of a killed broker was read, so that no delivery of
one life is taken for one of the next. Runs on the test's own loop; the broker is another process.
"""

from __future__ import annotations

import asyncio
import random

from magnetar.base.errors import MagnetarError
from simulation.check.history import History
from simulation.players import Manner, Publisher, Subscriber
from simulation.wire import Gone, Wire

RETRY_S = 0.02
TURN_S = 0.01
PENDING_MAX = 40  # sends without a receipt, per publisher
KEYS = [f"k{number}" for number in range(50)]


class Swarm:
    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.history = History()
        self.chance = random.Random(seed)
        self.publishers: list[Publisher] = []
        self.subscribers: list[Subscriber] = []
        self.publishing = True
        self.problems: list[str] = []
        self._wires: dict[Publisher | Subscriber, Wire] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._ids = 0

    def publisher(self, topic: str, name: str) -> Publisher:
        self._ids += 1
        made = Publisher(self.history, topic, name, self._ids)
        self.publishers.append(made)
        return made

    def subscriber(self, topic: str, subscription: str, kind: str, manner: Manner) -> Subscriber:
        self._ids += 1
        made = Subscriber(self.history, topic, subscription, self._ids, kind=kind, manner=manner)
        self.subscribers.append(made)
        return made

    async def subscribe_first(self) -> None:
        """Make every subscription before the first message: each is owed all of them."""
        for subscriber in self.subscribers:
            self._wires[subscriber] = wire = await Wire.open("localhost", self.port)
            await subscriber.attach(wire)

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        for player in [*self.subscribers, *self.publishers]:
            self._tasks.append(loop.create_task(self._keep(player)))
        for publisher in self.publishers:
            self._tasks.append(loop.create_task(self._publish(publisher)))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for wire in self._wires.values():
            wire.close()

    async def gone(self) -> None:
        """The broker is dead: read what it had said, to the end."""
        for player, wire in list(self._wires.items()):
            await wire.lost.wait()
            player.detach()

    async def back(self) -> None:
        """Everybody is attached."""
        while not all(player.attached for player in [*self.subscribers, *self.publishers]):
            await asyncio.sleep(TURN_S)

    async def _keep(self, player: Publisher | Subscriber) -> None:
        while True:
            try:
                wire = self._wires.get(player)
                if wire is None or wire.lost.is_set():
                    wire = await Wire.open("localhost", self.port)
                    self._wires[player] = wire
                    await player.attach(wire)
                while player.attached and not wire.lost.is_set():
                    await asyncio.sleep(TURN_S)
                player.detach()
                wire.close()
                await wire.lost.wait()
            except Gone:
                await asyncio.sleep(RETRY_S)
            except MagnetarError as error:
                self.problems.append(f"{type(player).__name__} {player.id}: {error!r}")
                await asyncio.sleep(RETRY_S)

    async def _publish(self, publisher: Publisher) -> None:
        while True:
            await asyncio.sleep(TURN_S * self.chance.uniform(0.5, 1.5))
            if self.publishing and publisher.attached and len(publisher.pending) < PENDING_MAX:
                keys = self.chance.choices(KEYS, k=self.chance.randint(1, 5))
                batch = self.chance.random() < 0.5 and publisher.topic.rpartition("/")[2] != "keyed"
                publisher.publish(keys, batch=batch)

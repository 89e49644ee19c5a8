"""Clients of a real broker that never give up: each player on a connection of its own, back as soon as it can be.

What they saw is in one history; `gone` waits until the last byte of a killed broker was read, so that no delivery of
one life is taken for one of the next. Runs on the test's own loop; the broker is another process.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial

from magnetar.base.errors import MagnetarError
from simulation.crash import rules
from simulation.crash.frame_clients import AckPolicy, Publisher, Subscriber
from simulation.crash.frame_connection import ConnectionGone, FrameConnection
from simulation.crash.history import History

RETRY_S = 0.02
TURN_S = 0.01
OWED_S = 120.0  # a broker that does not deliver what it owes within this is stuck, not slow
PENDING_MAX = 40  # sends without a receipt, per publisher
KEYS = [f"k{number}" for number in range(50)]


async def until(condition: Callable[[], bool], turn_s: float = TURN_S) -> None:
    """Look again and again: what is waited for is in another process, or a sum over many players."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(turn_s)


class Swarm:
    def __init__(self, port: int, seed: int) -> None:
        self.port = port
        self.seed = seed
        self.history = History()
        self.chance = random.Random(seed)
        self.publishers: list[Publisher] = []
        self.subscribers: list[Subscriber] = []
        self.publishing = True
        self.problems: list[str] = []
        self._wires: dict[Publisher | Subscriber, FrameConnection] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._ids = 0

    def publisher(self, topic: str, name: str, *, padding: int = 0) -> Publisher:
        self._ids += 1
        made = Publisher(self.history, topic, name, self._ids, padding=padding)
        self.publishers.append(made)
        return made

    def subscriber(self, topic: str, subscription: str, kind: str, manner: AckPolicy) -> Subscriber:
        self._ids += 1
        made = Subscriber(self.history, topic, subscription, self._ids, kind=kind, manner=manner)
        self.subscribers.append(made)
        return made

    async def subscribe_first(self) -> None:
        """Make every subscription before the first message: each is owed all of them."""
        for subscriber in self.subscribers:
            self._wires[subscriber] = wire = await FrameConnection.open("localhost", self.port)
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
            await wire.lost.wait()

    async def gone(self) -> None:
        """The broker is dead: read what it had said, to the end."""
        for player, wire in list(self._wires.items()):
            await wire.lost.wait()
            player.detach()

    async def back(self) -> None:
        """Everybody is attached."""
        await until(lambda: all(player.attached for player in [*self.subscribers, *self.publishers]))

    async def _keep(self, player: Publisher | Subscriber) -> None:
        while True:
            try:
                wire = self._wires.get(player)
                if wire is None or wire.lost.is_set():
                    wire = await FrameConnection.open("localhost", self.port)
                    self._wires[player] = wire
                    await player.attach(wire)
                await until(partial(_apart, player, wire))
                player.detach()
                wire.close()
                await wire.lost.wait()
            except ConnectionGone:
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

    # At the end

    async def owed(self, when: str) -> None:
        """Until everything that was owed when the last broker died has come again."""
        try:
            async with asyncio.timeout(OWED_S):
                await self.back()
                await until(lambda: not list(rules.not_redelivered(self.history)), 0.02)
        except TimeoutError:
            missing = list(rules.not_redelivered(self.history))[:5]
            attached = [player.attached for player in [*self.subscribers, *self.publishers]]
            raise AssertionError(
                f"seed {self.seed}, {when}: {missing}, attached {attached}, {self.problems[-3:]}"
            ) from None

    async def at_rest(self, when: str) -> None:
        """No new messages; all receipts in, everything delivered, then the whole checker."""
        await self.owed(when)
        self.publishing = False
        try:
            async with asyncio.timeout(OWED_S):
                for publisher in self.publishers:
                    await publisher.settled()
                await until(lambda: not list(rules.missing(self.history)), 0.1)
        except TimeoutError:
            pass  # the checker says what is missing
        found = rules.check_at_rest(self.history) + [text for item in self.publishers for text in item.problems]
        assert found == [], f"seed {self.seed}, {when}"


def _apart(player: Publisher | Subscriber, wire: FrameConnection) -> bool:
    return wire.lost.is_set() or not player.attached

"""A real broker on one simulated machine, the real client on another, and messages there and back.

Run as a program it prints what was received and the trace of the run: `python -m tests.sim.exchange SEED`.
"""

from __future__ import annotations

import logging
import sys

from magnetar import InitialPosition
from magnetar.aio import Client
from magnetar.broker.node import Node
from magnetar.ledger.local.engine import LocalLedgers
from magnetar.policy.settings import Settings
from simulation.environment.host import Host
from simulation.environment.isolation import isolated
from simulation.environment.loop import VirtualLoop
from simulation.environment.network import Network
from simulation.environment.random_streams import RandomStreams
from simulation.environment.runtime import SimulatedRuntime
from simulation.stores.metadata import MemoryStore

PORT = 6650
TOPIC = "persistent://public/default/there-and-back"


class Exchange:
    def __init__(self, seed: int, *, hostile: bool = False) -> None:
        self.streams = RandomStreams(seed)
        self.loop = VirtualLoop(seed=seed, hostile=self.streams.fork("schedule", "turns") if hostile else None)
        self.network = Network(self.loop, self.streams)
        self.broker = Host("broker", self.loop, self.network, self.streams)
        self.client = Host("client", self.loop, self.network, self.streams)
        self.store = MemoryStore()
        self.received: list[bytes] = []
        self.sent = 0

    async def serve(self, runtime: SimulatedRuntime) -> None:
        ledgers = await LocalLedgers.start("/data/ledgers", runtime, self.store, segment_bytes=8 * 1024)
        node = Node(runtime=runtime, metadata=self.store, ledgers=ledgers, settings=Settings(None, {}))
        ledgers.journal.on_failure.append(node.fail)
        await node.start("0.0.0.0", PORT, host_shown="broker")
        await node.serve(8080)
        await node.stopping.wait()

    async def talk(self, runtime: SimulatedRuntime, messages: int) -> None:
        async with Client(f"pulsar://broker:{PORT}", runtime=runtime) as client:
            consumer = await client.subscribe(TOPIC, "back", initial_position=InitialPosition.EARLIEST)
            producer = await client.create_producer(TOPIC)
            for _ in range(messages):
                self.sent += 1
                await producer.send(b"message %d" % self.sent)
            while len(self.received) < self.sent:
                message = await consumer.receive()
                self.received.append(message.value)
                await consumer.acknowledge(message)

    def play(self, messages: int = 1) -> None:
        """Until everything came back; the loop is closed, and its errors are there to look at."""

        async def whole() -> None:
            self.broker.run(self.serve)
            await self.client.run(lambda runtime: self.talk(runtime, messages))

        with isolated(self.loop):
            self.loop.run_until_complete(whole())
            self.loop.close()


def main() -> None:
    logging.disable()
    exchange = Exchange(int(sys.argv[1]))
    exchange.play(20)
    assert not exchange.loop.errors, exchange.loop.errors
    sys.stdout.write(f"{exchange.received} {exchange.loop.time()} {exchange.loop.trace()}\n")


if __name__ == "__main__":
    main()

"""A recorded load: the same clients do the same things at the same virtual times, for every seed of the disk.

It has five topics: one retains everything, one has deduplication, one has keys, one is trimmed while it is read, one is
deleted and created again. Ledgers, cursor snapshots and journal segments roll over several times. `LoadClients`
survives the broker: after a crash its clients come back, send again what has no receipt, and read what they are owed.
"""

from __future__ import annotations

import asyncio

from magnetar.base.errors import AlreadyExists
from magnetar.base.names import namespace_name, topic_name
from magnetar.policy.policies import Policies
from magnetar.topic.topic import Topic
from simulation.crash.frame_clients import (
    AckPolicy,
    Publisher,
    Subscriber,
    ack_batch_indexes,
    ack_cumulatively,
    ack_each,
    ack_nothing,
    ack_some,
)
from simulation.crash.history import History
from simulation.crash.single_broker import BrokerRun

KEPT = "persistent://public/kept/plain"
ONCE = "persistent://public/once/exact"
KEYED = "persistent://public/kept/keyed"
BRIEF = "persistent://public/brief/read"
DOOMED = "persistent://public/brief/doomed"
WHOLE = [KEPT, ONCE, KEYED]  # nothing of these is ever trimmed

SETTINGS = {
    "managedLedgerMaxEntriesPerLedger": "12",
    "managedLedgerMinLedgerRolloverTimeMinutes": "0",
    "brokerDeduplicationEntriesInterval": "9",
}
PADDING_BYTES = 700  # in entries that are trimmed: the journal has segments to copy away and to free
SNAPSHOT_ENTRIES_MAX = 3  # in a snapshot ledger of a cursor: it rolls within the load
STEPS = 36
KEYS = ["a", "b", "c", "d", "e", "f", "g"]
SETTLE_S = 60.0  # of virtual time for receipts: a broker that is well needs none of it
REST_S = 8.0  # longer than a flush, a housekeeping round and a failover together


class LoadClients:
    def __init__(self) -> None:
        self.history = History()
        self.history.once.add(ONCE)
        self.finished = False
        self._ids = 0
        self.publishers: list[Publisher] = []
        self.subscribers: list[Subscriber] = []
        for topic, names in ((KEPT, "pq"), (ONCE, "rs"), (KEYED, "k"), (BRIEF, "b"), (DOOMED, "d")):
            padding = 0 if topic in WHOLE else PADDING_BYTES
            self.publishers += [Publisher(self.history, topic, name, self._next(), padding=padding) for name in names]
        self._subscribe(KEPT, "all", "Exclusive", ack_cumulatively)
        self._subscribe(KEPT, "part", "Shared", ack_some)
        self._subscribe(KEPT, "bits", "Shared", ack_batch_indexes)
        self._subscribe(ONCE, "over", "Failover", ack_cumulatively)
        self._subscribe(ONCE, "over", "Failover", ack_cumulatively)
        self._subscribe(ONCE, "bits", "Shared", ack_batch_indexes)
        self._subscribe(KEYED, "keys", "Key_Shared", ack_each)
        self._subscribe(KEYED, "keys", "Key_Shared", ack_each)
        self._subscribe(BRIEF, "eat", "Exclusive", ack_each)
        self._subscribe(DOOMED, "last", "Shared", ack_some)

    def _next(self) -> int:
        self._ids += 1
        return self._ids

    def _subscribe(self, topic: str, subscription: str, kind: str, manner: AckPolicy) -> None:
        self.subscribers.append(Subscriber(self.history, topic, subscription, self._next(), kind=kind, manner=manner))

    def of(self, topic: str) -> list[Publisher]:
        return [publisher for publisher in self.publishers if publisher.topic == topic]

    # The load

    async def play(self, life: BrokerRun) -> None:
        await prepare(life)
        await self._enter(life)
        for step in range(STEPS):
            for place, publisher in enumerate(self.publishers):
                if (step + place) % 2 == 0:
                    continue
                count = 1 + (step * 5 + place) % 4
                keys = [KEYS[(step * 3 + place + index) % len(KEYS)] for index in range(count)]
                publisher.publish(keys, batch=step % 3 != 1 and publisher.topic != KEYED)
            await life.rest(0.05)
            if step % 5 == 4:
                await life.rest(1.2)  # cursors are flushed
                _shorten(life)
            if step == 17:
                await self._reattach_some(life)
            if step == 23:
                await self._delete_doomed(life)
            for publisher in self.publishers:
                if publisher.refused:
                    await publisher.attach(await life.connect())
        await life.rest(REST_S)
        for subscriber in self.subscribers[:4]:
            await subscriber.leave()
        await life.rest(1.0)
        self.finished = True

    async def _enter(self, life: BrokerRun) -> None:
        wires = [await life.connect() for _ in range(3)]
        for place, subscriber in enumerate(self.subscribers):
            await subscriber.attach(wires[place % 3])
        for place, publisher in enumerate(self.publishers):
            await publisher.attach(wires[place % 3] if place != 2 else await life.connect())

    async def _reattach_some(self, life: BrokerRun) -> None:
        """A consumer leaves and comes back as a new one; a producer's connection breaks and it sends again."""
        leaving = self.subscribers[1]
        await leaving.leave()
        await leaving.attach(await life.connect())
        publisher = self.publishers[2]
        wire = await life.connect()
        publisher.publish(["a", "b"])  # under way when its connection breaks
        publisher.hang_up()
        await publisher.attach(wire)

    async def _delete_doomed(self, life: BrokerRun) -> None:
        publisher, subscriber = self.of(DOOMED)[0], self.subscribers[-1]
        await publisher.settled()
        publisher.detach()
        subscriber.detach()
        self.history.deleting(DOOMED)
        await life.node.topics.delete(topic_name(DOOMED), force=True)
        self.history.deleted(DOOMED)
        wire = await life.connect()
        await subscriber.attach(wire)
        await publisher.attach(wire)

    # After it

    async def judge(self, life: BrokerRun) -> None:
        """The next run: all clients come back, receive what they are owed, and go on working."""
        await prepare(life)
        for subscriber in self.subscribers:
            subscriber.manner = ack_each
        await self._enter(life)
        logs = await self._read_logs(life)
        await life.rest(REST_S)
        async with asyncio.timeout(SETTLE_S):
            for publisher in self.publishers:
                await publisher.settled()
                publisher.publish(["a", "b"], batch=publisher.topic != KEYED)
                publisher.publish(["c"])
                await publisher.settled()
        await life.rest(REST_S)
        for log in logs:
            log.detach()

    async def part(self, life: BrokerRun) -> None:
        """All clients leave in order: from here on all acknowledgements are durable, and nothing comes again."""
        for subscriber in self.subscribers:
            await subscriber.leave()
        for publisher in self.publishers:
            publisher.detach()

    async def nothing_left(self, life: BrokerRun) -> None:
        for subscriber in self.subscribers:
            subscriber.manner = ack_nothing
        await self._enter(life)
        await life.rest(REST_S)

    async def _read_logs(self, life: BrokerRun) -> list[Subscriber]:
        logs = []
        for topic in WHOLE:
            log = Subscriber(self.history, topic, "log", self._next(), kind="Exclusive", manner=ack_nothing)
            await log.attach(await life.connect(), durable=False, start=(-1, -1))
            logs.append(log)
        return logs

    def forget_logs(self) -> None:
        for topic in WHOLE:
            self.history.unsubscribed(topic, "log")

    def problems(self) -> list[str]:
        return [problem for publisher in self.publishers for problem in publisher.problems]


async def prepare(life: BrokerRun) -> None:
    for name, document in (
        ("public/kept", {"retention_policies": _FOREVER}),
        ("public/once", {"retention_policies": _FOREVER, "deduplicationEnabled": True}),
        ("public/brief", {}),
    ):
        try:
            await life.node.namespaces.create(namespace_name(name), Policies.of(document))
        except AlreadyExists:
            pass


_FOREVER = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}


def _shorten(life: BrokerRun) -> None:
    """Makes the snapshot ledgers of cursors roll over within the load: their real bound is far beyond it."""
    for topic in life.node.topics.loaded.values():
        if isinstance(topic, Topic):
            for subscription in topic.subscriptions:
                snapshots = subscription.cursor._snapshots
                if snapshots is not None:
                    snapshots.entries_max = SNAPSHOT_ENTRIES_MAX

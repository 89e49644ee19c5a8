"""One topic, every way to consume it, under splits, merges and `kill -9`: real processes, counted from the messages.
Every other key has large messages, in chunks, between which those of the others lie.

Stream consumers see every key in order and nothing new out of turn, also those that acknowledge every N messages, by
time or only at close (H-F20), and then close and reopen, or join and leave. A queue gets every message. A reader with
checkpoints sees each message of a key once, and every checkpoint it took replays what followed, and nothing else.

No time limit belongs to the whole: a slow machine takes longer. The test fails when nothing more arrives.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from magnetar import InitialPosition, Message, NoMessage, SegmentsChanged, aio, errors
from magnetar.base.limits import EARLY_ACKS_WAIT_S
from magnetar.client.options import ProducerOptions, StreamOptions
from tests.servers.standalone import Standalone

EARLIEST = InitialPosition.EARLIEST
TOPIC = "topic://public/default/everybody"
SETTINGS = {
    "brokerDeduplicationEnabled": True,
    "defaultRetentionTimeInMinutes": -1,
    "defaultRetentionSizeInMB": -1,
    "maxMessageSize": 1000,
}
LARGE = b" " * 3000  # behind a number, which it does not change
KEYS, MESSAGES = 16, 2400
KILLS = 3
BURST = 24  # sent before a flush
CHECKPOINTS_EVERY = 300
ACKS_EVERY = 70  # not a divisor of anything here: messages are unacknowledged at most splits
ACKS_AFTER_S = 0.7
REOPENS_EVERY = 330  # messages of one late consumer; then it closes and comes back
JOINED_S, AWAY_S = 1.5, 1.0  # of the member that joins and leaves
RESHAPES_EVERY = 50  # messages that arrive anywhere: a slow machine reshapes as often as a fast one
WAIT_S = 120
STALLED_S = 150  # nothing arrives anywhere


class Sequence:
    """What came of each key: message n of the topic is number n // KEYS of key n % KEYS."""

    def __init__(self, last: dict[str, int] | None = None, *, repeats: bool) -> None:
        self.last = dict(last or {})
        self.new = 0
        self._repeats = repeats

    def came(self, message: Message[bytes]) -> None:
        key, number = message.key, int(message.data) // KEYS
        assert key is not None
        known = self.last.get(key, -1)
        if self._repeats and number <= known:
            return  # not acknowledged on disk when the broker died
        assert number == known + 1, f"{key}: {number} came behind {known}"
        self.last[key] = number
        self.new += 1


@dataclass
class Late:
    """A stream subscription whose members acknowledge late. What they acknowledged does not come again, except if the
    broker is killed before that is on disk."""

    name: str
    is_due: Callable[[int, float], bool]  # of the messages and seconds since the last acknowledgement
    at_close: bool = False
    sequence: Sequence = field(default_factory=lambda: Sequence(repeats=True))
    acked: dict[str, int] = field(default_factory=dict)  # the last number of each key
    durable: dict[str, int] = field(default_factory=dict)
    kills: int = 0
    repeats: int = 0
    drained: bool = False

    @property
    def complete(self) -> bool:
        return self.sequence.new == MESSAGES

    def killed(self) -> None:
        self.kills += 1
        self.acked = dict(self.durable)

    def came(self, message: Message[bytes]) -> None:
        key, number = message.key, int(message.data) // KEYS
        assert key is not None
        assert number > self.acked.get(key, -1), f"{self.name}: {key}: {number} came after it was acknowledged"
        new = self.sequence.new
        self.sequence.came(message)
        self.repeats += self.sequence.new == new


class LateMember:
    """One consumer of such a subscription, from open to close."""

    def __init__(self, late: Late) -> None:
        self.late = late
        self.count = 0
        self.opened_s = self._acked_s = time.monotonic()
        self._kills = late.kills
        self._taken: list[tuple[int, str, int]] = []  # segment, key and number of each message
        self._acked: dict[str, int] = {}
        self._since = 0
        self._last: Message[bytes] | None = None
        self.consumer: aio.StreamConsumer[bytes]

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.opened_s

    def changed(self, change: SegmentsChanged) -> None:
        """What it has of an earlier time of a segment comes again."""
        self._taken = [each for each in self._taken if each[0] not in change.gained]

    async def step(self, wait_s: float) -> None:
        with contextlib.suppress(NoMessage):
            message = await self.consumer.receive(wait_s)
            self._check_kills()
            self.late.came(message)
            assert message.key is not None
            self._taken.append((message.id.segment, message.key, int(message.data) // KEYS))
            self._last = message
            self.count += 1
            self._since += 1
        if self.late.is_due(self._since, time.monotonic() - self._acked_s):
            await self.acknowledge()

    async def acknowledge(self) -> None:
        if self._last is not None:
            await self.consumer.acknowledge_cumulative(self._last)
            self._check_kills()
            open = set(self.consumer.segments)
            for segment, key, number in self._taken:
                if segment in open:
                    for acked in (self._acked, self.late.acked):
                        acked[key] = max(number, acked.get(key, -1))
            self._taken.clear()
        self._since, self._acked_s = 0, time.monotonic()

    async def close(self) -> None:
        """Waits, with a bound, until what it acknowledged is on disk."""
        began_s = time.monotonic()
        await self.consumer.close()
        self._check_kills()
        if time.monotonic() - began_s < EARLY_ACKS_WAIT_S:
            for key, number in self._acked.items():
                self.late.durable[key] = max(number, self.late.durable.get(key, -1))

    def _check_kills(self) -> None:
        if self._kills != self.late.kills:
            self._kills = self.late.kills
            self._taken.clear()
            self._acked.clear()


class Everybody:
    def __init__(self, client: aio.Client, admin: aio.Admin, broker: Standalone) -> None:
        self.client = client
        self.admin = admin
        self.broker = broker
        self.sent = 0
        self.streamed = Sequence(repeats=True)
        self.late = (
            Late("every-n", lambda count, _: count >= ACKS_EVERY),
            Late("by-time", lambda _, seconds: seconds >= ACKS_AFTER_S),
            Late("at-close", lambda count, seconds: False, at_close=True),
        )
        self.queued: set[int] = set()
        self.read = Sequence(repeats=False)
        self.checkpoints: list[tuple[bytes, dict[str, int]]] = []
        self.reshapes = self.killed = 0
        self._chance = random.Random(7)

    @property
    def done(self) -> bool:
        late = all(each.drained for each in self.late)
        return late and self.streamed.new == len(self.queued) == self.read.new == MESSAGES

    @property
    def arrived(self) -> int:
        late = sum(each.sequence.new + each.repeats for each in self.late)
        return self.streamed.new + len(self.queued) + self.read.new + late

    def __str__(self) -> str:
        late = {each.name: (each.sequence.new, each.repeats, each.drained) for each in self.late}
        return (
            f"{self.sent} sent, {self.streamed.new} streamed, {len(self.queued)} queued, {self.read.new} read, "
            f"late (new, again, drained) {late}, {self.reshapes} reshapes, {self.killed} kills"
        )

    async def send(self) -> None:
        options = ProducerOptions(send_timeout_s=0, chunking=True)
        async with (
            await self.client.create_producer(TOPIC, name="small", **options) as small,
            await self.client.create_producer(TOPIC, name="large", **options) as large,
        ):
            while self.sent < MESSAGES:
                for number in range(self.sent, min(self.sent + BURST, MESSAGES)):
                    if number % 2:
                        await large.post(b"%d" % number + LARGE, key=f"k{number % KEYS}")
                    else:
                        await small.post(b"%d" % number, key=f"k{number % KEYS}")
                await asyncio.gather(small.flush(), large.flush())
                self.sent = min(self.sent + BURST, MESSAGES)

    async def stream(self, name: str) -> None:
        async with await self.client.stream_consumer(TOPIC, "stream", name=name, initial_position=EARLIEST) as consumer:
            async for message in consumer:
                self.streamed.came(message)
                await consumer.acknowledge_cumulative(message)

    async def stream_late(self, late: Late) -> None:
        """One consumer after the other, under one name, until everything has come and is acknowledged."""
        while not late.complete:
            async with self.opened(late, "main") as member:
                while not late.complete and member.count < REOPENS_EVERY:
                    await member.step(ACKS_AFTER_S)
                if late.at_close:
                    await member.acknowledge()
        async with self.opened(late, "main") as member:
            while (await member.consumer.lag()).messages:  # what was received before a kill comes again
                await member.step(ACKS_AFTER_S)
                await member.acknowledge()
        late.drained = True

    async def join_and_leave(self, late: Late) -> None:
        while not late.complete:
            await asyncio.sleep(AWAY_S)
            async with self.opened(late, "second") as member:
                while not late.complete and member.seconds < JOINED_S:
                    await member.step(ACKS_AFTER_S)

    @contextlib.asynccontextmanager
    async def opened(self, late: Late, name: str) -> AsyncIterator[LateMember]:
        member = LateMember(late)
        options = StreamOptions(name=name, initial_position=EARLIEST, queue_messages=200, on_segments=member.changed)
        while True:
            try:
                member.consumer = await self.client.stream_consumer(TOPIC, late.name, **options)
                break
            except (errors.Unavailable, errors.Unknown):
                await asyncio.sleep(0.1)  # the broker is being restarted
        try:
            yield member
        finally:
            await member.close()

    async def queue(self) -> None:
        async with await self.client.queue_consumer(TOPIC, "queue", initial_position=EARLIEST) as consumer:
            async for message in consumer:
                self.queued.add(int(message.data))
                await consumer.acknowledge(message)

    async def keep(self) -> None:
        async with await self.client.checkpoint_consumer(TOPIC) as consumer:
            while self.read.new < MESSAGES:
                if self.read.new % CHECKPOINTS_EVERY == 0:
                    self.checkpoints.append(((await consumer.checkpoint()).to_bytes(), dict(self.read.last)))
                self.read.came(await consumer.receive(WAIT_S))

    async def reshape(self) -> None:
        while not self.done:
            try:
                metadata = await self.admin.scalable.metadata(TOPIC)
                found = [one for one in metadata.segments.values() if one.state == "ACTIVE"]
                active = [one.segmentId for one in sorted(found, key=lambda one: one.hashRange.start)]
                if len(active) < 3 or (len(active) < 6 and self._chance.random() < 0.5):
                    await self.admin.scalable.split(TOPIC, self._chance.choice(active))
                else:
                    lower = self._chance.randrange(len(active) - 1)
                    await self.admin.scalable.merge(TOPIC, active[lower : lower + 2])
                self.reshapes += 1
            except errors.MagnetarError:
                pass  # the broker is away, or another reshape goes on: it was killed in the middle of one
            await asyncio.sleep(0.1)
            arrived = self.arrived
            await until(lambda arrived=arrived: self.done or self.arrived >= arrived + RESHAPES_EVERY)

    async def kill(self) -> None:
        for number in range(1, KILLS + 1):
            wanted = MESSAGES * number // (KILLS + 1)
            while self.sent < wanted:  # noqa: ASYNC110  # what is waited for has no event
                await asyncio.sleep(0.02)
            for late in self.late:
                late.killed()
            await asyncio.to_thread(self.broker.kill)
            await asyncio.to_thread(self.broker.start)
            for late in self.late:
                late.killed()
            self.killed = number

    async def watch(self) -> None:
        """Fails when nothing arrives any more."""
        while not self.done:
            arrived = self.arrived
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STALLED_S):
                    await until(lambda arrived=arrived: self.done or self.arrived > arrived)
            assert self.done or self.arrived > arrived, f"nothing arrives: {self}"

    async def replayed(self, checkpoint: bytes, last: dict[str, int]) -> None:
        again = Sequence(last, repeats=False)
        rest = MESSAGES - sum(number + 1 for number in last.values())
        async with await self.client.checkpoint_consumer(TOPIC, checkpoint) as consumer:
            for _ in range(rest):
                again.came(await consumer.receive(WAIT_S))
        assert again.last == self.read.last


async def until(happened: Callable[[], bool]) -> None:
    while not happened():  # noqa: ASYNC110  # what is waited for has no event
        await asyncio.sleep(0.02)


async def drained(consumer: aio.StreamConsumer[bytes]) -> None:
    """Nothing comes again of what was acknowledged before the close, of whatever generation of segments."""
    with contextlib.suppress(NoMessage):
        message = await consumer.receive(1)
        raise AssertionError(f"{message.key}: {int(message.data)} came again")
    assert not (await consumer.lag()).messages


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_consumer_kind_keeps_promise_through_reshapes_and_kills(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    async def body(broker: Standalone) -> None:
        async with aio.Client(broker.url) as client, aio.Admin(broker.http) as admin:
            await admin.scalable.create(TOPIC, segments=2)
            everybody = Everybody(client, admin, broker)
            roles = [everybody.stream("a"), everybody.stream("b"), everybody.queue()]
            roles += [everybody.send(), everybody.keep(), everybody.reshape(), everybody.kill(), everybody.watch()]
            roles += [everybody.stream_late(late) for late in everybody.late]
            roles.append(everybody.join_and_leave(everybody.late[1]))
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(role) for role in roles]
                await until(lambda: everybody.done or any(one.done() and one.exception() for one in tasks))
                for task in tasks[:3]:
                    task.cancel()  # they would continue
            assert everybody.done
            assert everybody.reshapes > KILLS
            for late in everybody.late:
                async with client.stream_consumer(TOPIC, late.name) as consumer:
                    await drained(consumer)
            for checkpoint, last in everybody.checkpoints:
                await everybody.replayed(checkpoint, last)
            record_property("arrived", str(everybody))

    with Standalone(tmp_path, SETTINGS) as running:
        asyncio.run(body(running))

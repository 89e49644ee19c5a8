"""One topic, every way to consume it, under splits, merges and `kill -9`: real processes, counted from the messages.
Every other key has large messages, in chunks, between which those of the others lie.

Stream consumers see every key in order and nothing new out of turn, also those that acknowledge every N messages, by
time or only at close (H-F20). A queue gets every message. A reader with checkpoints sees each message of a key once,
and every checkpoint it took replays what followed, and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from magnetar import InitialPosition, Message, NoMessage, aio, errors
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
WAIT_S = 60
QUIET_S = 8
ENOUGH_S = 240


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


class Everybody:
    def __init__(self, client: aio.Client, admin: aio.Admin, broker: Standalone) -> None:
        self.client = client
        self.admin = admin
        self.broker = broker
        self.sent = 0
        self.streamed = Sequence(repeats=True)
        self.late = {name: Sequence(repeats=True) for name in ("every-n", "by-time", "at-close")}
        self.queued: set[int] = set()
        self.read = Sequence(repeats=False)
        self.checkpoints: list[tuple[bytes, dict[str, int]]] = []
        self.reshapes = 0
        self._chance = random.Random(7)

    @property
    def done(self) -> bool:
        late = all(one.new == MESSAGES for one in self.late.values())
        return late and self.streamed.new == len(self.queued) == self.read.new == MESSAGES

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

    async def stream_late(self, subscription: str, is_due: Callable[[int, float], bool]) -> None:
        """Acknowledges everything at close, and where `is_due` says so of the messages and seconds since then."""
        options = StreamOptions(name=subscription, initial_position=EARLIEST, queue_messages=200)
        async with self.client.stream_consumer(TOPIC, subscription, **options) as consumer:
            last, count, since_s = None, 0, time.monotonic()
            while self.late[subscription].new < MESSAGES:
                last = await consumer.receive(WAIT_S)
                count += 1
                self.late[subscription].came(last)
                if is_due(count, time.monotonic() - since_s):
                    await consumer.acknowledge_cumulative(last)
                    count, since_s = 0, time.monotonic()
            with contextlib.suppress(NoMessage):
                while True:  # what was received before a kill comes again, and only then it can be acknowledged
                    last = await consumer.receive(QUIET_S)
                    self.late[subscription].came(last)
            assert last is not None
            await consumer.acknowledge_cumulative(last, confirm=True)

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

    async def kill(self) -> None:
        for number in range(1, KILLS + 1):
            wanted = MESSAGES * number // (KILLS + 1)
            while self.sent < wanted:  # noqa: ASYNC110  # what is waited for has no event
                await asyncio.sleep(0.02)
            await asyncio.to_thread(self.broker.kill)
            await asyncio.to_thread(self.broker.start)

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
@pytest.mark.timeout(600)
def test_every_kind_of_consumer_keeps_its_promise_on_one_topic_through_reshapes_and_kills(
    tmp_path: Path,
) -> None:
    async def body(broker: Standalone) -> None:
        async with (
            asyncio.timeout(ENOUGH_S),
            aio.Client(broker.url) as client,
            aio.Admin(broker.http) as admin,
        ):
            await admin.scalable.create(TOPIC, segments=2)
            everybody = Everybody(client, admin, broker)
            roles = [everybody.send(), everybody.stream("a"), everybody.stream("b"), everybody.queue()]
            roles += [everybody.keep(), everybody.reshape(), everybody.kill()]
            roles.append(everybody.stream_late("every-n", lambda count, _: count >= ACKS_EVERY))
            roles.append(everybody.stream_late("by-time", lambda _, seconds: seconds >= ACKS_AFTER_S))
            roles.append(everybody.stream_late("at-close", lambda count, seconds: False))
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(role) for role in roles]
                await until(lambda: everybody.done or any(one.done() and one.exception() for one in tasks))
                for task in (tasks[1], tasks[2], tasks[3]):
                    task.cancel()  # they would go on for ever
            assert everybody.done
            assert everybody.reshapes > KILLS
            for subscription in everybody.late:
                async with client.stream_consumer(TOPIC, subscription) as consumer:
                    await drained(consumer)
            for checkpoint, last in everybody.checkpoints:
                await everybody.replayed(checkpoint, last)

    with Standalone(tmp_path, SETTINGS) as running:
        asyncio.run(body(running))

"""Key_Shared under everything at once, judged at every delivery; and the judge itself, tried on guards with a hole."""

from __future__ import annotations

import random

import pytest

from magnetar.base.hashes import murmur3
from magnetar.base.ids import Position
from magnetar.base.limits import REPLAY_TURN_ENTRIES_MAX
from magnetar.topic.dispatch.key_order import KeyOrder
from magnetar.topic.dispatch.key_shared import KeySharedDispatcher
from magnetar.topic.subscriptions.consumer import Consumer
from magnetar.topic.subscriptions.subscription import KEY_SHARED
from magnetar.topic.topic import Topic
from tests.unit.topic.world import Out, World, ack, an_entry, run, settle, subscription_of


def keyed(topic: Topic) -> KeySharedDispatcher:
    dispatcher = subscription_of(topic).dispatcher
    assert isinstance(dispatcher, KeySharedDispatcher)
    return dispatcher


class Watch:
    """Judges every delivery at the moment it is written: who else holds the key, and what older one waits."""

    def __init__(self) -> None:
        self.stored: dict[str, list[Position]] = {}
        self.key_of: dict[Position, str] = {}
        self.acked: set[Position] = set()
        self.held: dict[Position, int] = {}  # position -> generation of the consumer's outlet
        self.deliveries = 0

    def store(self, key: str, position: Position) -> None:
        self.stored.setdefault(key, []).append(position)
        self.key_of[position] = key

    def delivered(self, generation: int, position: Position) -> None:
        self.deliveries += 1
        assert position not in self.held, "delivered while somebody holds it"
        assert position not in self.acked, "delivered after its acknowledgement"
        for other in self.stored[self.key_of[position]]:
            assert self.held.get(other, generation) == generation, f"{other} of the same key is with another consumer"
            if other < position and other not in self.acked:
                assert other in self.held, f"{other} is older, of the same key, and still waits"
        self.held[position] = generation

    def of(self, generation: int) -> list[Position]:
        return sorted(position for position, holder in self.held.items() if holder == generation)

    def release(self, generation: int) -> None:
        for position in self.of(generation):
            del self.held[position]


class WatchedOut(Out):
    def __init__(self, generation: int, watch: Watch) -> None:
        super().__init__(generation)
        self._watch = watch
        self._seen = 0

    def look(self) -> None:
        found = self.delivered
        for one in found[self._seen :]:
            self._watch.delivered(self.generation, one.position)
        self._seen = len(found)


@pytest.mark.parametrize("seed", range(12))
def test_random_histories_never_put_key_at_two_consumers(seed: int) -> None:
    everything_at_once(seed)


class IgnoresHolders(KeyOrder[Consumer]):
    """A guard with a hole: an entry goes out although another consumer holds older ones of its key."""

    def may_send(self, slot: int, consumer: Consumer, position: Position) -> bool:
        holder = self._holders.pop(slot, None)
        try:
            return super().may_send(slot, consumer, position)
        finally:
            if holder is not None:
                self._holders[slot] = holder


class IgnoresWaiting(KeyOrder[Consumer]):
    """An entry overtakes older ones of its key that wait for another delivery."""

    def may_send(self, slot: int, consumer: Consumer, position: Position) -> bool:
        return self._holders.get(slot, consumer) is consumer


class FreesAtTheFirstAck(KeyOrder[Consumer]):
    """A key is free for others as soon as one of its entries is acknowledged."""

    def acked(self, slot: int, position: Position) -> bool:
        holder = self._holders.get(slot)
        if holder is not None and self._held[holder].get(position) == slot:
            for old in [place for place, its in self._held[holder].items() if its == slot]:
                super().acked(slot, old)
            return True
        return super().acked(slot, position)


@pytest.mark.parametrize("guard", [IgnoresHolders, FreesAtTheFirstAck])
def test_guard_with_hole_is_caught_by_random_story(guard: type[KeyOrder[Consumer]]) -> None:
    with pytest.raises(AssertionError, match="of the same key is with another consumer"):
        every_seed(guard)


def every_seed(guard: type[KeyOrder[Consumer]]) -> None:
    for seed in range(12):
        everything_at_once(seed, guard)


def test_waiting_entries_beyond_one_turn_are_not_overtaken() -> None:
    more_than_a_turn_waits(KeyOrder)


def test_guard_that_lets_what_is_new_overtake_is_caught() -> None:
    with pytest.raises(AssertionError, match="is older, of the same key, and still waits"):
        more_than_a_turn_waits(IgnoresWaiting)


def more_than_a_turn_waits(guard: type[KeyOrder[Consumer]]) -> None:
    """One consumer stalls until more waits for it than a turn hands out, and more of the same keys is unread."""

    async def body(world: World) -> None:
        topic = await world.topic()
        await topic.subscriptions.create("s", topic.managed.before(topic.managed.first))
        watch = Watch()
        busy, stalled = [WatchedOut(number, watch) for number in (1, 2)]
        working = await world.consumer(topic, busy, "c1", kind=KEY_SHARED)
        waiting = await world.consumer(topic, stalled, "c2", kind=KEY_SHARED)
        keyed(topic).guard = guard()
        selector = keyed(topic).selector
        keys = [f"k{number % 40}" for number in range(4 * REPLAY_TURN_ENTRIES_MAX)]
        owners = {key: selector.select(selector.slot(murmur3(key.encode()))) for key in keys}
        working.flow(sum(owners[key] is working for key in keys))
        for batch in (keys, [key for key in owners if owners[key] is waiting]):
            positions = await world.store(topic, *[an_entry(key, partition_key=key) for key in batch])
            for key, position in zip(batch, positions, strict=True):
                watch.store(key, position)
        assert keyed(topic).guard.waiting() > REPLAY_TURN_ENTRIES_MAX
        waiting.flow(10_000)
        await settle()
        stalled.look()
        assert len(stalled.delivered) > REPLAY_TURN_ENTRIES_MAX

    run(body)


def everything_at_once(seed: int, guard: type[KeyOrder[Consumer]] = KeyOrder) -> None:
    async def body(world: World) -> None:
        rng = random.Random(seed)
        if seed % 3 == 0:
            world = world.without_cache()
        topic = await world.topic(key_shared_ring=seed % 2 == 0, unacked_per_consumer_max=rng.choice([0, 5, 40]))
        await topic.subscriptions.create("s", topic.managed.before(topic.managed.first))
        watch = Watch()
        crew: dict[Consumer, WatchedOut] = {}
        generations = 0

        def look() -> None:
            for out in crew.values():
                out.look()

        async def join() -> None:
            nonlocal generations
            generations += 1
            out = WatchedOut(generations, watch)
            made = await world.consumer(topic, out, f"c{generations}", kind=KEY_SHARED)
            if type(keyed(topic).guard) is not guard:  # a new dispatcher: nobody has permits yet
                keyed(topic).guard = guard()
            crew[made] = out
            made.flow(rng.choice([1, 3, 20]))

        for _ in range(150):
            action = rng.random()
            consumer = rng.choice(list(crew)) if crew else None
            if action < 0.35:
                keys = [f"k{rng.randrange(50)}" for _ in range(rng.randrange(1, 12))]
                look()
                bodies = [an_entry(key, partition_key=key) for key in keys]
                # Known to the watch before anything can be delivered: positions of one ledger follow each other.
                last = topic.managed.last
                ledger, entry = (last.ledger, last.entry + 1) if topic.managed.entries else (None, 0)
                if ledger is not None:
                    for place, key in enumerate(keys):
                        watch.store(key, Position(ledger, entry + place))
                positions = await world.store(topic, *bodies)
                if ledger is None:
                    for key, position in zip(keys, positions, strict=True):
                        watch.store(key, position)
                assert all(watch.key_of[p] == key for p, key in zip(positions, keys, strict=True))
            elif consumer is None or (action < 0.45 and len(crew) < 8):
                await join()
            elif action < 0.52:
                look()
                out = crew.pop(consumer)
                watch.release(out.generation)
                topic.remove_consumer(consumer)
            elif action < 0.75:
                look()
                mine = watch.of(crew[consumer].generation)
                chosen = rng.sample(mine, min(len(mine), rng.randrange(1, 8)))
                for position in chosen:
                    watch.acked.add(position)
                    del watch.held[position]
                ack(topic, consumer, *chosen)
            elif action < 0.88:
                look()
                mine = watch.of(crew[consumer].generation)
                chosen = rng.sample(mine, min(len(mine), rng.randrange(1, 4)))
                for position in chosen if chosen != mine else mine:
                    del watch.held[position]
                subscription_of(topic).redeliver(consumer, chosen)
            else:
                consumer.flow(rng.randrange(1, 10))
            await settle(rng.choice([0, 1, 5]))
            look()
        if not crew:
            await join()
        for _ in range(400):
            for consumer, out in crew.items():
                consumer.flow(50)
                await settle(20)
                look()
                mine = watch.of(out.generation)
                for position in mine:
                    watch.acked.add(position)
                    del watch.held[position]
                ack(topic, consumer, *mine)
            if len(watch.acked) == len(watch.key_of):
                break
        assert len(watch.acked) == len(watch.key_of), "something was lost"
        assert subscription_of(topic).backlog == 0
        assert keyed(topic).guard.waiting() == 0
        assert keyed(topic).guard.held() == 0
        assert watch.deliveries >= len(watch.key_of)

    run(body)

"""Random lives of a producer over segments that are split, merged, cut off: no loss, no invention, each key in order.

The same steps, drawn from seeds, are taken by mutants of the queues: each of them breaks a promise that is looked at.
"""

from __future__ import annotations

import random
from collections import deque

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from magnetar.base.ids import SegmentId
from magnetar.client.producer.router import KeyRoute
from magnetar.client.producer.scalable.queued_messages import QueuedMessage
from magnetar.client.producer.scalable.segment_queue import SegmentQueue
from magnetar.client.producer.scalable.segment_queues import Effect, SegmentQueues
from magnetar.layout.layout import Layout
from tests.support.search_effort import examples
from tests.support.segment_owner_model import FAR, SLOTS, World

KEYS = sorted(SLOTS)


class Producing(RuleBasedStateMachine):
    world: World

    @initialize(deduplicated=st.booleans(), segments=st.integers(1, 3), batch=st.integers(1, 4))
    def begin(self, deduplicated: bool, segments: int, batch: int) -> None:
        self.world = World(deduplicated=deduplicated, segments=segments, batch=batch)

    def owner(self, place: int) -> SegmentId:
        ids = sorted(self.world.owners)
        return ids[-1 - place % len(ids)]

    @rule(key=st.sampled_from(KEYS), alone=st.booleans(), timeout=st.sampled_from([5.0, 1e6]))
    def send(self, key: str, alone: bool, timeout: float) -> None:
        self.world.send(key, alone=alone, timeout=timeout)

    @rule(place=st.integers(0, 5), count=st.integers(1, 3))
    def write(self, place: int, count: int) -> None:
        for _ in range(count):
            self.world.write(self.owner(place))

    @rule(place=st.integers(0, 5))
    def process(self, place: int) -> None:
        self.world.process(self.owner(place))

    @rule(place=st.integers(0, 5))
    def answer(self, place: int) -> None:
        self.world.answer(self.owner(place))

    @rule(place=st.integers(0, 5), processed=st.integers(0, 3))
    def lose(self, place: int, processed: int) -> None:
        self.world.lose(self.owner(place), processed)

    @rule(place=st.integers(0, 5))
    def open(self, place: int) -> None:
        self.world.open(self.owner(place))

    @rule(slot=st.sampled_from(sorted(SLOTS.values())))
    def split(self, slot: int) -> None:
        self.world.split(slot)

    @rule(place=st.integers(0, 3), count=st.integers(2, 3))
    def merge(self, place: int, count: int) -> None:
        self.world.merge(place, count)

    @rule()
    def seal(self) -> None:
        self.world.seal()

    @rule()
    def commit(self) -> None:
        self.world.commit()

    @rule(back=st.integers(0, 2))
    def push(self, back: int) -> None:
        self.world.push(-1 - back % len(self.world.layouts))

    @rule()
    def settle(self) -> None:
        for id in sorted(self.world.settling):
            self.world.settle(id)

    @rule(time=st.sampled_from([1.0, 6.0]))
    def wait(self, time: float) -> None:
        self.world.wait(time)

    @invariant()
    def promises_hold(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.finish()


TestProducing = Producing.TestCase
TestProducing.settings = settings(max_examples=examples(150), stateful_step_count=40, deadline=None)


def live(seed: int, make: type[SegmentQueues] = SegmentQueues, buckets: int = 1) -> None:
    """One life, its steps drawn from a seed; more of it happens between reshapes than hypothesis would let happen."""
    chance = random.Random(seed)
    world = World(
        deduplicated=chance.random() < 0.5,
        segments=chance.randint(1, 3),
        batch=chance.randint(1, 4),
        make=make,
        buckets=buckets,
    )
    lossy = chance.random() < 0.5
    timeout = chance.choice([8.0, FAR, FAR])
    for _ in range(chance.randint(20, 80)):
        id = chance.choice(sorted(world.owners)[-4:])
        match chance.randrange(14):
            case 0 | 1 | 2:
                world.send(chance.choice(KEYS), alone=chance.random() < 0.1, timeout=timeout)
            case 3 | 4:
                world.write(id)
            case 5:
                world.process(id)
            case 6:
                world.answer(id)
            case 7:
                world.open(id)
            case 8 if lossy:
                world.lose(id, chance.randint(0, 3))
            case 9 if chance.random() < 0.5:
                world.split(chance.choice(sorted(SLOTS.values())))
            case 9:
                world.merge(chance.randint(0, 2), 2)
            case 10:
                world.seal()
                world.commit()
            case 11:
                world.push(chance.randrange(len(world.layouts)))
            case 12 if world.settling:
                world.settle(chance.choice(sorted(world.settling)))
            case 13:
                world.wait(1.0)
    world.finish()


def lives(count: int, make: type[SegmentQueues] = SegmentQueues) -> None:
    for seed in range(count):
        live(seed, make)


def test_thousand_lives_keep_every_promise():
    lives(1_000)


class ReleasesBeforeTheRestCame(SegmentQueues):
    def _held(self, queue: SegmentQueue) -> bool:
        return False

    def _queue_of(self, route: KeyRoute) -> SegmentQueue:
        sealed, self._sealed = self._sealed, []
        try:
            return super()._queue_of(route)
        finally:
            self._sealed = sealed


class ForgetsWhatWasInFlight(SegmentQueues):
    def _close(self, segment: SegmentId, certain: bool) -> list[Effect]:
        queue = self.queue(segment)
        if queue is not None and queue.sealed:
            queue.pending.clear()
        return super()._close(segment, certain)


class RetriesEachOnItsOwn(SegmentQueues):
    def _hand_over(self, queue: SegmentQueue, messages: list[QueuedMessage]) -> None:
        queue.messages = deque([*queue.messages, *reversed(messages)])


class PutsParentsOneAfterTheOther(SegmentQueues):
    def _hand_over(self, queue: SegmentQueue, messages: list[QueuedMessage]) -> None:
        queue.messages = deque([*queue.messages, *messages])


class DoesNotWaitForTheLastAnswers(SegmentQueues):
    def _freeze(self, queue: SegmentQueue) -> list[Effect]:
        queue.detached(certain=False)
        return super()._freeze(queue)


class TakesOlderLayouts(SegmentQueues):
    def _advance(self, layout: Layout) -> list[Effect]:
        self.layout = None
        return super()._advance(layout)


class IgnoresTheMarkOfTheOwner(SegmentQueues):
    def _open(self, segment: SegmentId, last: int) -> list[Effect]:
        return super()._open(segment, -1)


class TakesALostAnswerForANo(SegmentQueues):
    def _close(self, segment: SegmentId, certain: bool) -> list[Effect]:
        return super()._close(segment, True)


MUTANTS = [
    TakesALostAnswerForANo,
    ReleasesBeforeTheRestCame,
    ForgetsWhatWasInFlight,
    RetriesEachOnItsOwn,
    PutsParentsOneAfterTheOther,
    DoesNotWaitForTheLastAnswers,
    TakesOlderLayouts,
    IgnoresTheMarkOfTheOwner,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_mutant_breaks_promise(mutant: type[SegmentQueues]):
    with pytest.raises(AssertionError):  # a Violation of the world, or earlier the machine's own validate()
        lives(3_000, mutant)

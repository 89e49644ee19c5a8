"""Two stream consumers under a controller that changes its mind: each ends with exactly what it was given last.

Segments are exclusive, answers are late, assignments overtake each other. The same steps are taken by mutants of
`AssignmentState`; each of them is caught.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.errors import ConsumerBusy, MagnetarError
from magnetar.base.ids import Epoch, SegmentId
from magnetar.client.consumer.scalable.stream.assignment import (
    Assigned,
    AssignmentState,
    CloseSegment,
    Effect,
    Event,
    LayoutAdvanced,
    OpenSegment,
    SegmentClosed,
    SegmentEnded,
    SegmentGrant,
    SegmentOpened,
    SegmentRefused,
    SegmentSettled,
    State,
    TimePassed,
)
from magnetar.layout.layout import initial
from magnetar.layout.lineage import ancestors

FIRST = initial(2, now_ms=0)
LAYOUT = FIRST.split(SegmentId(0), now_ms=1).merge([SegmentId(3), SegmentId(1)], now_ms=2)
GRANTS = [SegmentGrant(one.id, f"segment://t/n/x/{one.id}") for one in LAYOUT.segments]

Choose = Callable[[int], int]  # a number below this one


class Violation(AssertionError):
    pass


class World:
    def __init__(self, make: type[AssignmentState]) -> None:
        self.follows = [make(), make()]
        self.owners: dict[SegmentId, int] = {}
        self.asked: list[tuple[int, Effect]] = []  # not answered yet
        self.plans: list[list[Assigned]] = [[], []]
        self.ended: list[set[SegmentId]] = [set(), set()]
        self.now = 0.0
        for who in (0, 1):
            self.tell(who, LayoutAdvanced(LAYOUT))

    def tell(self, who: int, event: Event) -> None:
        for effect in self.follows[who].handle(event, self.now):
            if isinstance(effect, OpenSegment):
                self.opening(who, effect.grant.segment)
            if isinstance(effect, OpenSegment | CloseSegment):
                self.asked.append((who, effect))

    def opening(self, who: int, id: SegmentId) -> None:
        mine = {segment for segment, owner in self.owners.items() if owner == who}
        if id in mine:
            raise Violation(f"opened twice: {id}")
        if mine & ancestors(LAYOUT, id):
            raise Violation(f"opened before its ancestors were closed: {id}")

    def plan(self, choose: Choose) -> None:
        number = len(self.plans[0]) + 1
        shares: list[list[SegmentGrant]] = [[], []]
        for one in GRANTS:
            who = choose(3)
            if who < 2:
                shares[who].append(one)
        for who in (0, 1):
            self.plans[who].append(Assigned(Epoch(1 + number // 3), tuple(shares[who]), number))

    def deliver(self, who: int, choose: Choose) -> None:
        """Any of the last few: connections come and go."""
        if self.plans[who]:
            plan = self.plans[who][-1 - choose(min(3, len(self.plans[who])))]
            if (plan.generation or 0) > (self.follows[who].generation or 0):
                self.ended[who].clear()
            self.tell(who, plan)

    def answer(self, choose: Choose) -> None:
        if not self.asked:
            return
        who, effect = self.asked.pop(choose(len(self.asked)))
        if isinstance(effect, CloseSegment):
            if self.owners.get(effect.segment) == who:
                del self.owners[effect.segment]
            self.asked = [one for one in self.asked if not _opens(one, who, effect.segment)]  # it will not come to be
            self.tell(who, SegmentClosed(effect.segment))
        elif isinstance(effect, OpenSegment):
            id = effect.grant.segment
            if id in self.owners:
                self.tell(who, SegmentRefused(id, ConsumerBusy()))
            else:
                self.owners[id] = who
                self.tell(who, SegmentOpened(id))

    def settle(self, who: int) -> None:
        for id in sorted(self.follows[who].segments):
            if self.follows[who].segments[id].state is State.REVOKED:
                self.tell(who, SegmentSettled(id))
                return

    def end(self, who: int, choose: Choose) -> None:
        held = self.follows[who].segments
        ready = [id for id in sorted(held) if held[id].state is State.OPEN and not LAYOUT.segment(id).is_active]
        if ready:
            id = ready[choose(len(ready))]
            self.ended[who].add(id)
            self.tell(who, SegmentEnded(id))

    def wait(self, time: float) -> None:
        self.now += time
        for who in (0, 1):
            self.tell(who, TimePassed({}))

    def finish(self) -> None:
        for who in (0, 1):
            self.deliver(who, lambda count: 0)
            self.deliver(who, lambda count: count - 1)  # an older one was overtaken
        for _ in range(60):
            for _ in range(len(self.asked)):
                self.answer(lambda count: 0)
            for who in (0, 1):
                self.settle(who)
            self.wait(31.0)
        for who in (0, 1):
            given = {one.segment for one in self.plans[who][-1].grants} if self.plans[who] else set()
            given -= self.ended[who]
            free = {id for id in given if not given & ancestors(LAYOUT, id)}
            mine = {id for id, owner in self.owners.items() if owner == who}
            if not free <= mine <= given:
                raise Violation(f"consumer {who} has {sorted(mine)}, was given {sorted(given)}")


def _opens(one: tuple[int, Effect], who: int, id: SegmentId) -> bool:
    return one[0] == who and isinstance(one[1], OpenSegment) and one[1].grant.segment == id


def live(choose: Choose, steps: int, make: type[AssignmentState] = AssignmentState) -> None:
    world = World(make)
    for _ in range(steps):
        match choose(7):
            case 0:
                world.plan(choose)
            case 1:
                world.deliver(choose(2), choose)
            case 2 | 3:
                world.answer(choose)
            case 4:
                world.settle(choose(2))
            case 5:
                world.end(choose(2), choose)
            case 6:
                world.wait(1.0)
    world.finish()


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(0, 30))
def test_each_consumer_ends_with_what_it_was_given_last(data: st.DataObject, steps: int):
    live(lambda count: data.draw(st.integers(0, count - 1)), steps)


def lives(count: int, make: type[AssignmentState] = AssignmentState) -> None:
    for seed in range(count):
        chance = random.Random(seed)
        live(chance.randrange, 60, make)


def test_five_hundred_lives_keep_every_promise():
    lives(500)


class NeverTriesABusySegmentAgain(AssignmentState):
    def _refuse(self, segment: SegmentId, error: MagnetarError, now: float) -> list[Effect]:
        return []


class TakesOlderAssignments(AssignmentState):
    def _older(self, told: Assigned) -> bool:
        return False


class OpensBeforeTheOldOneIsClosed(AssignmentState):
    def _grant(self, grant: SegmentGrant) -> None:
        held = self.segments.get(grant.segment)
        if held is not None and held.state in (State.REVOKED, State.CLOSING):
            del self.segments[grant.segment]
        super()._grant(grant)


class OpensChildrenBesideTheirParents(AssignmentState):
    def _blocked(self, segment: SegmentId) -> bool:
        return False


class NeverClosesWhatWasTakenAway(AssignmentState):
    def _take_away(self, segment: SegmentId, now: float) -> list[Effect]:
        return []


@pytest.mark.parametrize(
    "mutant",
    [
        NeverTriesABusySegmentAgain,
        TakesOlderAssignments,
        OpensBeforeTheOldOneIsClosed,
        OpensChildrenBesideTheirParents,
        NeverClosesWhatWasTakenAway,
    ],
    ids=lambda mutant: mutant.__name__,
)
def test_mutant_is_caught(mutant: type[AssignmentState]):
    with pytest.raises(Violation):
        lives(500, mutant)

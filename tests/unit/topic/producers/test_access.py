"""The access modes: every mode against every state, reconnects, fencing, and a model that no sequence of joins and
leaves escapes.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from magnetar.topic.producers.access import (
    NO_EPOCH,
    Answer,
    Granted,
    GrantedAfterClosing,
    Mode,
    ProducerAccess,
    Queued,
    Refused,
    Request,
)
from tests.support.search_effort import examples

BUSY, FENCED = 16, 25
SHARED, EXCLUSIVE, WAIT, FENCING = Mode


def ask(name: str, mode: Mode, *, connection: str = "c", epoch: int = 0, topic_epoch: int | None = None) -> Request:
    return Request(name, mode, f"{connection}-{name}", 1, epoch, topic_epoch)


def state(kind: str) -> ProducerAccess:
    """The states of a topic, by who is on it."""
    access = ProducerAccess()
    if kind in ("shared", "shared, one waits"):
        access.join(ask("s1", SHARED))
        access.join(ask("s2", SHARED))
    elif kind != "nobody":
        holder = {"exclusive": EXCLUSIVE, "waited": WAIT, "fencing": FENCING}[kind.split(",")[0]]
        access.join(ask("x", holder))
    if kind.endswith("one waits"):
        assert access.join(ask("w", WAIT)) == Queued()
    return access


STATES = [
    "nobody",
    "shared",
    "shared, one waits",
    *(f"{holder}{tail}" for holder in ("exclusive", "waited", "fencing") for tail in ("", ", one waits")),
]


def outcome(answer: Answer) -> str | int:
    match answer:
        case Refused():
            return answer.code
        case Granted(epoch=None):
            return "shared"
        case Granted():
            return "exclusive"
        case Queued():
            return "queued"
        case GrantedAfterClosing():
            return "after closing"


TABLE = {
    ("nobody", SHARED): "shared",
    ("nobody", EXCLUSIVE): "exclusive",
    ("nobody", WAIT): "exclusive",
    ("nobody", FENCING): "exclusive",
    ("shared", SHARED): "shared",
    **{(kind, SHARED): BUSY for kind in STATES if kind not in ("nobody", "shared")},
    **{(kind, EXCLUSIVE): FENCED for kind in STATES if kind != "nobody"},
    **{(kind, WAIT): "queued" for kind in STATES if kind != "nobody"},
    **{(kind, FENCING): "after closing" for kind in STATES if kind != "nobody"},
}


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.name)
@pytest.mark.parametrize("kind", STATES)
def test_every_mode_meets_every_state_as_table_says(kind: str, mode: Mode) -> None:
    access = state(kind)
    before, producers, waiters = access.epoch, access.producers, access.waiters
    newcomer = ask("new", mode)
    answer = access.join(newcomer)
    assert outcome(answer) == TABLE[kind, mode]
    match answer:
        case Granted(epoch=None):
            assert access.producers == [*producers, newcomer]
            assert access.epoch == before
        case Granted():
            assert (answer.epoch, answer.persist) == (before + 1, True)
            assert access.producers == [access.exclusive] == [newcomer]
        case GrantedAfterClosing():
            assert (answer.epoch, answer.persist) == (before + 1, True)
            assert (answer.close, answer.fail) == (producers, waiters)
            assert (access.producers, access.waiters) == ([newcomer], [])
        case Queued():
            assert (access.producers, access.waiters) == (producers, [*waiters, newcomer])
            assert access.epoch == before
        case Refused():
            assert answer.holder in [*producers, *waiters]
            assert (access.producers, access.waiters, access.epoch) == (producers, waiters, before)


@pytest.mark.parametrize("kind", STATES)
def test_waiters_are_granted_in_order_with_growing_epochs(kind: str) -> None:
    access = state(kind)
    access.join(ask("later", WAIT))
    seen = [access.epoch]
    order: list[str] = []
    while access.producers:
        granted = access.leave(access.producers[0])
        assert bool(granted) == (bool(access.producers) and access.exclusive is not None)
        for waiter, epoch in granted:
            order.append(waiter.name)
            seen.append(epoch)
            assert access.exclusive == waiter
    assert access.waiters == []
    assert order == {"nobody": [], "one waits": ["w", "later"]}.get(kind.split(", ")[-1], ["later"])
    assert seen == list(range(seen[0], seen[0] + len(seen)))


@pytest.mark.parametrize("mode", [EXCLUSIVE, WAIT, FENCING], ids=lambda mode: mode.name)
@pytest.mark.parametrize("kind", STATES)
def test_returning_producer_with_older_epoch_is_fenced(kind: str, mode: Mode) -> None:
    access = state(kind)
    access.epoch = 5
    before = (access.producers, access.waiters)
    answer = access.join(ask("back", mode, topic_epoch=4))
    assert outcome(answer) == FENCED
    assert (access.producers, access.waiters, access.epoch) == (*before, 5)


@pytest.mark.parametrize("mode", [EXCLUSIVE, WAIT, FENCING], ids=lambda mode: mode.name)
def test_last_holder_returning_alone_keeps_epoch_without_write(mode: Mode) -> None:
    access = ProducerAccess(epoch=7)
    first = access.join(ask("p", mode))
    assert first == Granted(8, persist=True)
    assert access.leave(ask("p", mode)) == []
    back = ask("p", mode, connection="d", epoch=1, topic_epoch=8)
    assert access.join(back) == Granted(8, persist=False)
    assert access.exclusive == back


def test_epoch_topic_never_gave_is_not_believed() -> None:
    access = ProducerAccess(epoch=3)
    assert access.join(ask("p", EXCLUSIVE, topic_epoch=2**64 - 1)) == Granted(4, persist=True)


@pytest.mark.parametrize("mode", [EXCLUSIVE, WAIT], ids=lambda mode: mode.name)
def test_holder_behind_old_connection_is_busy_then_admitted(
    mode: Mode,
) -> None:
    access = ProducerAccess()
    old = ask("p", mode)
    access.join(old)
    back = ask("p", mode, connection="new", epoch=1, topic_epoch=0)
    refused = access.join(back)
    assert outcome(refused) == BUSY
    assert isinstance(refused, Refused)
    assert refused.holder == old
    assert access.leave(old) == []
    assert access.join(back) == Granted(0)


def test_fencing_holder_that_comes_back_closes_its_own_old_connection() -> None:
    access = ProducerAccess()
    old = ask("p", FENCING)
    access.join(old)
    assert access.join(ask("p", FENCING, connection="new", epoch=1, topic_epoch=0)) == GrantedAfterClosing(1, [old], [])


def test_two_fencing_producers_do_not_fence_each_other_for_ever() -> None:
    access = ProducerAccess()
    access.join(ask("a", FENCING))
    access.join(ask("b", FENCING))
    assert outcome(access.join(ask("a", FENCING, epoch=1, topic_epoch=0))) == FENCED
    assert access.exclusive == ask("b", FENCING)


def test_last_exclusive_producer_waits_in_front() -> None:
    access = ProducerAccess()
    access.join(ask("p", WAIT))
    access.leave(ask("p", WAIT))
    access.join(ask("s", SHARED))
    assert access.join(ask("w", WAIT)) == Queued()
    back = ask("p", WAIT, epoch=1, topic_epoch=0)
    assert access.join(back) == Queued()
    assert access.leave(ask("s", SHARED)) == [(back, 1)]
    assert access.leave(back) == [(ask("w", WAIT), 2)]


@pytest.mark.parametrize("mode", Mode, ids=lambda mode: mode.name)
def test_same_producer_of_same_connection_with_higher_epoch_replaces_itself(mode: Mode) -> None:
    access = ProducerAccess()
    old = ask("p", mode)
    access.join(old)
    new = ask("p", mode, epoch=1)
    answer = access.join(new)
    assert answer == Granted(None if mode is SHARED else 0, persist=False, replaced=old)
    assert access.producers == [new]
    assert access.leave(old) == [], "a late goodbye of the older self changes nothing"
    assert access.producers == [new]


@pytest.mark.parametrize(
    ("connection", "epoch"), [("c", 0), ("other", 0), ("other", 1)], ids=["same epoch", "other connection", "both"]
)
def test_another_shared_producer_of_connected_name_is_busy(connection: str, epoch: int) -> None:
    access = ProducerAccess()
    old = ask("p", SHARED)
    access.join(old)
    answer = access.join(ask("p", SHARED, connection=connection, epoch=epoch))
    assert outcome(answer) == BUSY
    assert isinstance(answer, Refused)
    assert answer.holder == old


def test_waiter_that_asks_again_keeps_its_place() -> None:
    access = state("exclusive, one waits")
    access.join(ask("w2", WAIT))
    again = ask("w", WAIT, epoch=1)
    assert access.join(again) == Queued(replaced=ask("w", WAIT))
    assert access.waiters == [again, ask("w2", WAIT)]
    assert access.leave(ask("x", EXCLUSIVE)) == [(again, 1)]


def test_waiter_that_goes_is_not_granted_and_frees_shared_producers() -> None:
    access = state("shared, one waits")
    assert access.leave(ask("w", WAIT)) == []
    assert access.join(ask("s3", SHARED)) == Granted()


def test_queue_has_end() -> None:
    access = ProducerAccess(waiters_max=2)
    access.join(ask("x", EXCLUSIVE))
    assert [outcome(access.join(ask(f"w{i}", WAIT))) for i in range(3)] == ["queued", "queued", BUSY]


def test_grant_whose_epoch_could_not_be_stored_uses_up_number() -> None:
    access = ProducerAccess()
    lost = ask("p", EXCLUSIVE)
    assert access.join(lost) == Granted(0, persist=True)
    assert access.leave(lost) == []
    assert access.join(ask("q", EXCLUSIVE)) == Granted(1, persist=True)


def test_successor_topic_inherits_fence() -> None:
    access = ProducerAccess()
    assert access.fence == NO_EPOCH
    access.join(ask("p", EXCLUSIVE))
    heir = ProducerAccess(epoch=access.fence)
    heir.join(ask("q", EXCLUSIVE))
    assert outcome(heir.join(ask("p", EXCLUSIVE, topic_epoch=0))) == FENCED


class AtMostOneExclusive(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.access = ProducerAccess(waiters_max=3)
        self.on: list[Request] = []  # as their connections see it: granted and not closed
        self.queue: list[Request] = []
        self.known: dict[str, int] = {}
        self.epochs: list[int] = []
        self.serial = 0

    def granted(self, request: Request, epoch: int | None) -> None:
        self.on.append(request)
        if epoch is not None:
            self.known[request.name] = epoch
            self.epochs.append(epoch)

    @rule(name=st.sampled_from("abcd"), mode=st.sampled_from(list(Mode)), back=st.booleans(), same=st.booleans())
    def join(self, name: str, mode: Mode, back: bool, same: bool) -> None:
        self.serial += 1
        connection = "c" if same else f"c{self.serial}"
        request = Request(name, mode, connection, 1, self.serial, self.known.get(name) if back else None)
        match self.access.join(request):
            case Granted(epoch=epoch, replaced=replaced):
                if replaced is not None:
                    self.on.remove(replaced)
                self.granted(request, epoch)
            case GrantedAfterClosing(epoch=epoch, close=close, fail=fail):
                assert (sorted(close, key=repr), fail) == (sorted(self.on, key=repr), self.queue)
                self.on, self.queue = [], []
                self.granted(request, epoch)
            case Queued(replaced=replaced):
                if replaced is not None:
                    self.queue[self.queue.index(replaced)] = request
                elif request.topic_epoch == self.access.epoch:
                    self.queue.insert(0, request)
                else:
                    self.queue.append(request)

    @precondition(lambda self: self.on or self.queue)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        goner = data.draw(st.sampled_from(self.on + self.queue))
        (self.on if goner in self.on else self.queue).remove(goner)
        for waiter, epoch in self.access.leave(goner):
            assert waiter == self.queue.pop(0)
            self.granted(waiter, epoch)

    @invariant()
    def nobody_shares_a_topic_with_an_exclusive_producer(self) -> None:
        assert sorted(self.access.producers, key=repr) == sorted(self.on, key=repr)
        assert self.access.waiters == self.queue
        exclusive = [p for p in self.on if p.mode is not Mode.SHARED]
        assert [self.access.exclusive] == (exclusive or [None])
        assert not exclusive or len(self.on) == 1
        assert self.on or not self.queue, "nobody waits for an empty topic"
        assert len({p.name for p in self.on}) == len(self.on)
        assert len(self.queue) <= 3

    @invariant()
    def epochs_never_fall(self) -> None:
        assert self.epochs == sorted(self.epochs)


AtMostOneExclusive.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestAtMostOneExclusive = AtMostOneExclusive.TestCase

"""The waits of a caller and of a receiver agree, whatever the network loses, delays, repeats or reorders."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from magnetar.base.names import topic_name
from magnetar.broker.peers.wait_sync import CallerWaits, ReceivedWaits
from magnetar.cluster.calls.topic_calls import AwaitAssignment
from magnetar.cluster.calls.wait_calls import AwaitAny, Happened, Wait, WaitResult

NAME = topic_name("topic://public/default/x")
REQUEST = AwaitAssignment(op="op", connection="c", seen=0, wait_s=30)
REPLY = msgspec.Raw(b"{}")
WAITS_MAX, CALLS_MAX, RESTARTS_MAX = 2, 3, 1


@dataclass
class Exchange:
    """Both ends, and what is in flight between them."""

    caller: CallerWaits = field(default_factory=lambda: CallerWaits("process"))
    receiver: ReceivedWaits | None = None
    calls: list[AwaitAny] = field(default_factory=list)
    answers: list[tuple[AwaitAny, Happened]] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)  # at the caller
    added: int = 0
    sent: int = 0
    restarts: int = 0

    def key(self) -> str:
        caller = {**vars(self.caller), "_waits": list(self.caller._waits)}
        receiver = None if self.receiver is None else vars(self.receiver)
        return repr((caller, receiver, self.calls, self.answers, self.waiting, self.added, self.sent, self.restarts))

    # Steps

    def add(self) -> None:
        self.waiting.append(self.caller.add(NAME, REQUEST))
        self.added += 1

    def forget(self) -> None:
        self.caller.remove(self.waiting.pop(0))

    def send(self) -> None:
        self.calls.append(self.caller.call())
        self.sent += 1

    def arrive(self, index: int, *, repeated: bool = False) -> None:
        call = self.calls[index] if repeated else self.calls.pop(index)
        if self.receiver is None:
            if call.base:
                self.answers.append((call, Happened(known=False)))
                return
            self.receiver = ReceivedWaits()
        known = self.receiver.apply(call) is not None
        self.answers.append((call, Happened(self.receiver.results if known else (), known)))

    def hear(self, index: int) -> None:
        call, answer = self.answers.pop(index)
        for result in self.caller.answered(call, answer):
            self.waiting.remove(result.id)
            self.caller.remove(result.id)

    def lose(self) -> None:
        self.caller.lost()

    def end(self, id: int) -> None:
        assert self.receiver is not None
        self.receiver.ended(id, REPLY)

    def restart(self) -> None:
        self.receiver = None
        self.restarts += 1

    def validate(self) -> None:
        self.caller.validate()
        assert sorted(self.caller._waits) == sorted(self.waiting)
        if self.receiver is not None:
            self.receiver.validate()

    def following(self) -> Iterator[Exchange]:
        def after(step: str, *arguments: int, **options: bool) -> Exchange:
            state = copy.deepcopy(self)
            getattr(state, step)(*arguments, **options)
            return state

        if self.added < WAITS_MAX:
            yield after("add")
        if self.waiting:
            yield after("forget")
        if self.sent < CALLS_MAX and not self.caller.is_idle:
            yield after("send")
        for index in range(len(self.calls)):
            yield after("arrive", index)
            yield after("arrive", index, repeated=True)
        for index in range(len(self.answers)):
            yield after("hear", index)
            lost = copy.deepcopy(self)
            lost.answers.pop(index)
            lost.lose()
            yield lost
        if self.receiver is not None:
            for id in self.receiver.running:
                yield after("end", id)
            if self.restarts < RESTARTS_MAX:
                yield after("restart")

    def finish(self) -> None:
        """From here on nothing is lost: every wait gets its result, and the receiver keeps nothing."""
        for _ in range(8):
            if self.caller.is_idle:
                break
            self.calls.clear()
            self.answers.clear()
            self.send()
            self.arrive(0)
            self.hear(0)
            if self.receiver is not None:
                for id in self.receiver.running:
                    self.end(id)
        assert not self.waiting
        assert self.caller.is_idle
        assert self.receiver is None or not self.sent or not len(self.receiver)


def test_every_wait_ends_after_any_faults() -> None:
    reached: dict[str, None] = {}
    left = [(Exchange(), 0)]
    while left:
        state, depth = left.pop(0)
        state.validate()
        copy.deepcopy(state).finish()
        if depth == 7:
            continue
        for following in state.following():
            key = following.key()
            if key not in reached:
                reached[key] = None
                left.append((following, depth + 1))
    assert len(reached) > 5_000


def test_unsent_wait_leaves_no_trace() -> None:
    caller = CallerWaits("process")
    caller.remove(caller.add(NAME, REQUEST))
    assert caller.is_idle


def test_call_contains_changes_since_confirmed_call() -> None:
    caller = CallerWaits("process")
    first, second = caller.add(NAME, REQUEST), caller.add(NAME, REQUEST)
    call = caller.call()
    assert (call.number, call.base, [wait.id for wait in call.added]) == (1, 0, [first, second])
    caller.answered(call, Happened())
    caller.remove(first)
    third = caller.add(NAME, REQUEST)
    call = caller.call()
    assert (call.number, call.base, [wait.id for wait in call.added], call.removed) == (2, 1, [third], (first,))


def test_result_is_repeated_until_removed() -> None:
    receiver = ReceivedWaits()
    wait = Wait(1, str(NAME), REQUEST)
    assert receiver.apply(AwaitAny(process="p", number=1, base=0, added=(wait,))) == ([wait], [])
    receiver.ended(1, REPLY)
    assert receiver.apply(AwaitAny(process="p", number=2, base=1)) == ([], [])
    assert receiver.results == (WaitResult(1, REPLY),)
    assert receiver.apply(AwaitAny(process="p", number=3, base=2, removed=(1,))) == ([], [])
    assert receiver.results == ()


def test_late_call_changes_nothing() -> None:
    receiver = ReceivedWaits()
    receiver.apply(AwaitAny(process="p", number=2, base=0))
    assert receiver.apply(AwaitAny(process="p", number=1, base=0, added=(Wait(1, str(NAME), REQUEST),))) == ([], [])
    assert len(receiver) == 0


def test_unknown_base_is_rejected() -> None:
    receiver = ReceivedWaits()
    receiver.apply(AwaitAny(process="p", number=2, base=0))
    assert receiver.apply(AwaitAny(process="p", number=5, base=4)) is None


def test_whole_set_replaces_waits() -> None:
    receiver = ReceivedWaits()
    waits = [Wait(id, str(NAME), REQUEST) for id in range(1, 4)]
    receiver.apply(AwaitAny(process="p", number=1, base=0, added=tuple(waits[:2])))
    assert receiver.apply(AwaitAny(process="p", number=2, base=0, added=tuple(waits[1:]))) == ([waits[2]], [1])
    assert receiver.running == (2, 3)

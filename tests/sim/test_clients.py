"""The workload of real clients on one real broker in a virtual loop: it keeps every invariant while topics are unloaded
and connections cut, it is the same every time, and each lie put into its history is found.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from functools import cache

import pytest

from magnetar.base.names import topic_name
from magnetar.client.client import Client
from simulation import history as record
from simulation.check.suite import check_history
from simulation.clients.lifecycle import ClientProcesses
from simulation.crash.load import prepare
from simulation.crash.single_broker import BrokerRun, SingleBrokerWorld
from simulation.environment.disk import SimulatedFiles
from simulation.environment.inline_runtime import InlineRuntime
from simulation.history import FAIL, INVOKE, OK, History, Line, Value
from simulation.world.workload import (
    ProducerPlan,
    SubscriptionPlan,
    TopicPlan,
    draw_topics,
)

PLAIN = "persistent://public/kept/t1"
ONCE = "persistent://public/once/t2"
STEPS = 16  # of half a second

EVERY_KIND = (
    SubscriptionPlan("exclusive", "Exclusive", refuses=0.0),
    SubscriptionPlan("failover", "Failover", 2, cumulative=True),
    SubscriptionPlan("keys", "Key_Shared", 2, refuses=0.0),
    SubscriptionPlan("shared", "Shared", 2, leaves=0.2, confirms=0.5, refuses=0.0, batch_index=True),
    SubscriptionPlan("read", "Reader"),
)
PLANS = [
    TopicPlan(
        PLAIN,
        producers=(ProducerPlan("t1-p0", batch_messages=4, by_key=True), ProducerPlan("t1-p1")),
        subscriptions=EVERY_KIND,
    ),
    TopicPlan(
        ONCE,
        deduplication=True,
        producers=(ProducerPlan("t2-p0", named=True, resends=True, send_timeout_s=0.0, stint_messages=10),),
        subscriptions=EVERY_KIND,
    ),
]


def played(seed: int, plans: list[TopicPlan] | None, *, broken: bool) -> tuple[History, list[str]]:
    """What the clients saw, and what the broker reports as its own failures."""
    chance = random.Random(seed)
    histories: list[History] = []

    async def story(life: BrokerRun) -> None:
        await prepare(life)
        history = History(asyncio.get_running_loop().time)
        histories.append(history)
        runtime = InlineRuntime(SimulatedFiles(seed), seed)
        clients = [Client("pulsar://memory:6650", runtime=runtime, operation_timeout_s=10) for _ in range(3)]
        workload = plans or draw_topics(chance, plain=[PLAIN], once=[ONCE])
        crew = ClientProcesses(history, chance, lambda _: chance.choice(clients), workload)
        crew.start()
        for _ in range(STEPS):
            await life.rest(0.5)
            if broken:
                await _break(life, history, chance)
        await crew.stop_sending()
        await crew.settle()
        await crew.drain()
        await crew.read_logs()
        await crew.close()

    world = SingleBrokerWorld(seed)
    assert world.live(story)
    return histories[0], world.failures


async def _break(life: BrokerRun, history: History, chance: random.Random) -> None:
    if chance.random() < 0.4:
        history.note("world", record.FAULT, OK, what="unload")
        await life.node.topics.unload(topic_name(chance.choice((PLAIN, ONCE))))
    if chance.random() < 0.3 and life.node.connections:
        history.note("world", record.FAULT, OK, what="cut")
        chance.choice(list(life.node.connections)).abort("cut by the test")


@cache
def quiet() -> History:
    history, failures = played(7, PLANS, broken=False)
    assert failures == []
    return history


@pytest.mark.parametrize("seed", range(6))
def test_unloaded_topics_and_cut_connections_break_no_invariant(seed: int) -> None:
    history, failures = played(seed, None, broken=True)
    assert failures == []
    assert [str(finding) for finding in check_history(history)] == []
    done = {(line.operation, line.phase) for line in history.lines}
    assert {(record.SEND, OK), (record.RECEIVE, OK), (record.DRAIN, OK), (record.SETTLE, OK)} <= done


def test_one_seed_gives_one_history() -> None:
    assert played(3, None, broken=True)[0].dump() == played(3, None, broken=True)[0].dump()


def test_every_kind_of_process_has_something_to_do() -> None:
    history = quiet()
    assert [str(finding) for finding in check_history(history)] == []
    receivers = {(line.topic, line.subscription.split(".")[0]) for line in of(history, record.RECEIVE)}
    assert {(topic, plan.name) for topic in (PLAIN, ONCE) for plan in EVERY_KIND} <= receivers
    assert any(line.facts.get("cumulative") for line in of(history, record.ACK))
    assert any(line.phase == OK for line in of(history, record.ACK))
    assert any(line.place is not None and line.place[2] for line in of(history, record.SEND))  # in a batch
    assert len({line.session for line in of(history, record.SEND, topic=ONCE)}) > 1


# Lies


def of(history: History, operation: str, phase: str = "", topic: str = "", sub: str = "") -> list[Line]:
    return [
        line
        for line in history.lines
        if line.operation == operation
        and phase in ("", line.phase)
        and topic in ("", line.topic)
        and sub in ("", line.subscription)
    ]


def altered(changes: dict[int, Line | None], added: Iterable[tuple[int, Line]] = ()) -> History:
    """The quiet history with lines changed, or left out, or put behind others; numbered anew."""
    behind: dict[int, list[Line]] = {}
    for number, line in added:
        behind.setdefault(number, []).append(line)
    history = History()
    for line in quiet().lines:
        kept = changes.get(line.number, line)
        for found in ([] if kept is None else [kept], behind.get(line.number, [])):
            history.lines += [each._replace(number=len(history.lines) + at) for at, each in enumerate(found)]
    return history


def drop_a_delivery(sub: str) -> History:
    """All deliveries of one acknowledged value to one subscription."""
    value = of(quiet(), record.RECEIVE, topic=ONCE, sub=sub)[10].value
    return altered({line.number: None for line in of(quiet(), record.RECEIVE, sub=sub) if line.value == value})


def drop_from_the_log() -> History:
    return altered({of(quiet(), record.RECEIVE, sub="t1-log")[5].number: None})


def swap_two(sub: str, topic: str = PLAIN) -> History:
    """Two neighbours of one key on one attachment."""
    last: dict[tuple[object, ...], Line] = {}
    for line in of(quiet(), record.RECEIVE, topic=topic, sub=sub):
        assert line.value is not None
        name = (line.session, line.epoch, line.value.key)
        before = last.get(name)
        if before is not None and before.place != line.place:
            return altered(
                {
                    before.number: before._replace(value=line.value, place=line.place),
                    line.number: line._replace(value=before.value, place=before.place),
                }
            )
        last[name] = line
    raise AssertionError("no two of one key")


def store_twice(topic: str) -> History:
    line = of(quiet(), record.RECEIVE, topic=topic, sub=f"{topic.rsplit('/', 1)[-1]}-log")[-1]
    assert line.place is not None
    ledger, entry, _ = line.place
    return altered({}, [(line.number, line._replace(place=(ledger, entry + 1, 0)))])


def invent_one() -> History:
    line = of(quiet(), record.RECEIVE, topic=PLAIN, sub="t1-log")[-1]
    assert line.place is not None
    return altered({}, [(line.number, line._replace(value=Value("t1-p0", "a", 99_999), place=(9_999, 0, 0)))])


def rewrite_a_place() -> History:
    """One observer sees another value of the same producer there."""
    first, second = of(quiet(), record.RECEIVE, topic=ONCE, sub="shared")[3:5]
    return altered({first.number: first._replace(value=second.value)})


def refuse_what_was_stored() -> History:
    line = of(quiet(), record.SEND, OK, topic=PLAIN)[4]
    return altered({line.number: line._replace(phase=FAIL, place=None, error="Busy")})


def exchange_receipts() -> History:
    first, second = of(quiet(), record.SEND, OK, topic=ONCE)[4:6]
    return altered(
        {
            first.number: first._replace(place=second.place),
            second.number: second._replace(place=first.place),
        }
    )


def receipt_of_an_old_owner() -> History:
    line = of(quiet(), record.SEND, OK, topic=PLAIN)[-1]
    return altered({line.number: line._replace(place=(-1, 0, 0))})


def skip_what_was_left() -> History:
    """The fresh consumer does not get one that nobody acknowledged."""
    drain = of(quiet(), record.DRAIN, INVOKE, topic=PLAIN, sub="shared")[-1]
    left = [line for line in of(quiet(), record.RECEIVE, topic=PLAIN, sub="shared") if line.number > drain.number]
    assert left, "nobody left anything"
    return altered({left[0].number: None})


def undo_an_acknowledgement() -> History:
    acked = of(quiet(), record.ACK, OK, topic=PLAIN, sub="shared")[0]
    got = next(line for line in of(quiet(), record.RECEIVE, topic=PLAIN, sub="shared") if line.place == acked.place)
    return altered({}, [(acked.number, got)])


def forget_a_subscription() -> History:
    line = quiet().lines[-1]
    return altered({}, [(line.number, line._replace(operation=record.LIST, phase=OK, facts={"subscriptions": []}))])


def grow_without_bound() -> History:
    line = quiet().lines[-1]
    facts = {"measured": 11, "limit": 10}
    return altered({}, [(line.number, line._replace(operation=record.SAMPLE, process="queue", facts=facts))])


@pytest.mark.parametrize(
    ("lie", "invariant"),
    [
        *[(lambda sub=sub: drop_a_delivery(sub), 1) for sub in ("exclusive", "failover", "keys", "shared")],
        (drop_from_the_log, 1),
        (invent_one, 2),
        (lambda: store_twice(PLAIN), 3),
        (lambda: store_twice(ONCE), 3),
        *[(lambda sub=sub: swap_two(sub), 4) for sub in ("exclusive", "failover", "keys", "t1-log")],
        (exchange_receipts, 4),
        (rewrite_a_place, 6),
        (receipt_of_an_old_owner, 6),
        (skip_what_was_left, 9),
        (undo_an_acknowledgement, 9),
        (grow_without_bound, 15),
        (refuse_what_was_stored, 16),
        (forget_a_subscription, 16),
    ],
)
def test_lie_in_good_history_is_found(lie: Callable[[], History], invariant: int) -> None:
    assert invariant in {finding.invariant for finding in check_history(lie())}

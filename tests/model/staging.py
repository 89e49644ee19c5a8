"""A small world around the real decider of staged publishing: drivers, tasks, a record, stage topics, a target topic
that deduplicates, and two brokers that may publish.

Drivers run one batch after another. A run of a batch cuts its rows into tasks in its own way (a shuffle does); a task
begins a stage, writes row by row, seals, reports. The driver commits when every task has reported once. Faults: a task
is repeated while its first attempt goes on, a driver dies and its successor runs the batch again while the tasks and
the commit of the first are still under way, an answer of a commit is lost (the driver then aborts, as Spark does, and
is started again), a lease ends, a publishing broker dies or is taken for dead and goes on. Each call on the record is
one step: compare-and-set makes it so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from magnetar.base.errors import MagnetarError
from magnetar.staged import machine
from magnetar.staged.machine import AlreadyCommitted, CommittedStage, Sink, StageBegun
from tests.model.explore import Move

FAR = 1 << 60  # no lease ends by itself


class Topic(NamedTuple):
    """A stage's. Rows are (batch, row)."""

    rows: tuple[tuple[int, int], ...] = ()
    sealed: bool = False


class Task(NamedTuple):
    """An attempt. `rows` are still to be written; `stage` -1: not begun."""

    driver: int
    batch: int
    part: int
    rows: tuple[tuple[int, int], ...]
    stage: int = -1
    done: bool = False


class Driver(NamedTuple):
    """`cut`: how it cuts a batch into tasks. `reports`: (part, stage or -1) of the batch that runs."""

    batch: int = 0
    cut: int = 0
    begun: bool = False
    reports: tuple[tuple[int, int], ...] = ()
    up: bool = True
    committing: bool = False


class Broker(NamedTuple):
    """What a publishing broker holds of one stage: it read the record once and goes on by itself."""

    chosen: CommittedStage | None = None
    at: int = 0


class World(NamedTuple):
    sink: Sink
    topics: tuple[tuple[int, Topic], ...] = ()
    target: tuple[tuple[int, int], ...] = ()
    marks: tuple[int, ...] = ()  # the highest sequence id of each producer
    drivers: tuple[Driver, ...] = ()
    tasks: tuple[Task, ...] = ()
    brokers: tuple[Broker, ...] = (Broker(), Broker())
    told: int = -1  # the highest batch that a driver was told of
    repeats: int = 0
    deaths: int = 0
    losses: int = 0
    leases: int = 0
    crashes: int = 0
    wrong: str = ""


@dataclass
class Rules:
    begin: Callable[..., Any] = machine.begin
    seal: Callable[..., Any] = machine.seal
    commit: Callable[..., Any] = machine.commit
    drop: Callable[..., Any] = machine.drop
    expire: Callable[..., Any] = machine.expire
    published: Callable[..., Any] = machine.published
    due: Callable[..., Any] = machine.due
    deduplicates: bool = True


@dataclass
class Staging:
    """`rows` of each batch; `cuts[i]`: how driver i gives them to tasks."""

    batches: int
    cuts: tuple[tuple[tuple[int, ...], ...], ...]
    rules: Rules

    def start(self, **faults: int) -> World:
        sink = Sink(topic="t", name="s", life="l", sequences=(0, 0))
        return World(sink, marks=(-1, -1), drivers=(Driver(),), **faults)  # type: ignore[arg-type]

    def moves(self, world: Any) -> Iterator[Move]:
        if world.wrong:
            return
        for number, driver in enumerate(world.drivers):
            yield from self._drive(world, number, driver)
        for place, task in enumerate(world.tasks):
            yield from self._work(world, place, task)
        for number, broker in enumerate(world.brokers):
            yield from self._publish(world, number, broker)
        if world.sink.dropped:
            yield "a dropped topic is deleted", self._delete(world, world.sink.dropped[0]), False
        if world.leases and world.sink.stages:
            for one in world.sink.stages:
                ended = machine.msgspec.structs.replace(one, lease_ms=0)
                sink = machine.msgspec.structs.replace(world.sink, stages=machine._with(world.sink.stages, ended))
                after = world._replace(sink=self.rules.expire(sink, now_ms=1), leases=world.leases - 1)
                yield f"the lease of stage {one.number} ends", after, True

    # Drivers

    def _drive(self, world: World, number: int, driver: Driver) -> Iterator[Move]:
        if not driver.up or driver.batch >= self.batches:
            return
        cut = self.cuts[driver.cut]
        if not driver.begun:
            made = tuple(
                Task(number, driver.batch, part, tuple((driver.batch, row) for row in rows))
                for part, rows in enumerate(cut)
            )
            after = self._driver(world, number, driver._replace(begun=True))
            yield f"driver {number} runs batch {driver.batch}", after._replace(tasks=(*world.tasks, *made)), False
        elif {part for part, _ in driver.reports} == set(range(len(cut))):
            yield from self._commit(world, number, driver)
        if world.deaths:
            yield (
                f"driver {number} dies",
                self._restarted(world, number, driver)._replace(deaths=world.deaths - 1),
                True,
            )
            # taken for dead: its successor runs while it goes on
            left = self._successor(world, driver)
            yield f"driver {number} is replaced and lives on", left._replace(deaths=world.deaths - 1), True

    def _commit(self, world: World, number: int, driver: Driver) -> Iterator[Move]:
        chosen: dict[int, int] = {}
        for part, stage in driver.reports:
            chosen.setdefault(part, stage)
        stages = tuple(stage for stage in chosen.values() if stage >= 0)
        label = f"driver {number} commits batch {driver.batch} with {stages}"
        try:
            sink, outcome = self.rules.commit(world.sink, driver.batch, stages, partitions=0, now_ms=1)
        except MagnetarError as error:
            if isinstance(error, machine.Busy):
                return
            yield f"{label}: {type(error).__name__}", self._aborted(world, number, driver, stages), False
            return
        told = max(world.told, driver.batch)
        after = world._replace(sink=sink)
        again = driver._replace(batch=driver.batch + 1, begun=False, reports=())
        yield f"{label}: {type(outcome).__name__}", self._driver(after._replace(told=told), number, again), False
        if world.losses:
            lost = after._replace(losses=world.losses - 1)
            yield f"{label}, the answer is lost", self._aborted(lost, number, driver, stages), True

    def _aborted(self, world: World, number: int, driver: Driver, stages: tuple[int, ...]) -> World:
        """Spark calls abort with all messages after a commit that failed; then the query is started again."""
        sink = self.rules.drop(world.sink, stages, now_ms=1)
        return self._restarted(world._replace(sink=sink), number, driver)

    def _restarted(self, world: World, number: int, driver: Driver) -> World:
        return self._successor(self._driver(world, number, driver._replace(up=False)), driver)

    def _successor(self, world: World, driver: Driver) -> World:
        cut = min(driver.cut + 1, len(self.cuts) - 1)
        if len(world.drivers) > 3:
            return world._replace(wrong="too many drivers for this model")
        return world._replace(drivers=(*world.drivers, Driver(driver.batch, cut)))

    def _driver(self, world: World, number: int, driver: Driver) -> World:
        drivers = list(world.drivers)
        drivers[number] = driver
        return world._replace(drivers=tuple(drivers))

    # Tasks

    def _work(self, world: World, place: int, task: Task) -> Iterator[Move]:
        if task.done:
            return
        who = f"task {task.part} of driver {task.driver}, batch {task.batch}"
        if task.stage < 0:
            sink, begun = self.rules.begin(world.sink, task.batch, run="", now_ms=1, lease_ms=FAR)
            if isinstance(begun, AlreadyCommitted):
                yield f"{who} is told: already", self._report(world, place, task, -1), False
            else:
                assert isinstance(begun, StageBegun)
                topics = dict(world.topics)
                topics.setdefault(begun.number, Topic())
                after = world._replace(sink=sink, topics=_sorted(topics))
                yield f"{who} begins stage {begun.number}", self._task(after, place, task, stage=begun.number), False
        elif task.rows:
            topics = dict(world.topics)
            stage = topics.get(task.stage)
            if stage is None or stage.sealed:
                yield f"{who} cannot write", self._task(world, place, task, done=True), False
            else:
                topics[task.stage] = stage._replace(rows=(*stage.rows, task.rows[0]))
                after = world._replace(topics=_sorted(topics))
                yield f"{who} writes {task.rows[0]}", self._task(after, place, task, rows=task.rows[1:]), False
        else:
            yield f"{who} seals", self._seal(world, place, task), False
        if world.repeats and task.stage >= 0:
            rows = tuple((task.batch, row) for row in self.cuts[world.drivers[task.driver].cut][task.part])
            twin = Task(task.driver, task.batch, task.part, rows)
            after = world._replace(tasks=(*world.tasks, twin), repeats=world.repeats - 1)
            yield f"{who} is started a second time", after, True

    def _seal(self, world: World, place: int, task: Task) -> World:
        topics = dict(world.topics)
        stage = topics.get(task.stage)
        if stage is None:
            return self._task(world, place, task, done=True)
        topics[task.stage] = stage._replace(sealed=True)
        try:
            sink = self.rules.seal(world.sink, task.stage, len(stage.rows), now_ms=1)
        except MagnetarError:
            return self._task(world, place, task, done=True)
        return self._report(world._replace(sink=sink, topics=_sorted(topics)), place, task, task.stage)

    def _report(self, world: World, place: int, task: Task, stage: int) -> World:
        driver = world.drivers[task.driver]
        if driver.up and driver.begun and driver.batch == task.batch:
            reports = tuple(sorted({*driver.reports, (task.part, stage)}))
            world = self._driver(world, task.driver, driver._replace(reports=reports))
        return self._task(world, place, task, done=True)

    def _task(self, world: World, place: int, task: Task, **changes: Any) -> World:
        tasks = list(world.tasks)
        tasks[place] = task._replace(**changes)
        return world._replace(tasks=tuple(tasks))

    # Brokers

    def _publish(self, world: World, number: int, broker: Broker) -> Iterator[Move]:
        if broker.chosen is None:
            taken = {other.chosen.number for other in world.brokers if other.chosen is not None}
            for one in self.rules.due(world.sink):
                both = one.number in taken
                if both and not world.crashes:
                    continue  # the lock keeps two leaders apart; a session that ends unheard does not
                after = world._replace(crashes=world.crashes - 1) if both else world
                yield f"broker {number} takes up {one}", self._broker(after, number, Broker(one, one.published)), both
            return
        chosen = broker.chosen
        if broker.at < chosen.messages:
            topics = dict(world.topics)
            stage = topics.get(chosen.number)
            if stage is None or len(stage.rows) <= broker.at:
                yield f"broker {number} finds nothing to read", self._broker(world, number, Broker()), False
            else:
                sequence = chosen.first + broker.at
                target, marks = world.target, list(world.marks)
                if sequence > marks[chosen.producer] or not self.rules.deduplicates:
                    target = (*target, stage.rows[broker.at])
                    marks[chosen.producer] = max(sequence, marks[chosen.producer])
                after = world._replace(target=target, marks=tuple(marks))
                step = self._broker(after, number, broker._replace(at=broker.at + 1))
                yield f"broker {number} publishes {stage.rows[broker.at]} as {chosen.producer}:{sequence}", step, False
        if broker.at > chosen.published:
            sink = self.rules.published(world.sink, chosen.number, broker.at, now_ms=1)
            if broker.at >= chosen.messages:
                yield (
                    f"broker {number} is done with {chosen.number}",
                    self._broker(world._replace(sink=sink), number, Broker()),
                    False,
                )
            elif sink != world.sink:
                yield f"broker {number} notes {broker.at}", world._replace(sink=sink), True
        if world.crashes:
            yield (
                f"broker {number} dies",
                self._broker(world, number, Broker())._replace(crashes=world.crashes - 1),
                True,
            )

    def _broker(self, world: World, number: int, broker: Broker) -> World:
        brokers = list(world.brokers)
        brokers[number] = broker
        return world._replace(brokers=tuple(brokers))

    def _delete(self, world: World, number: int) -> World:
        topics = dict(world.topics)
        topics.pop(number, None)
        return world._replace(sink=machine.deleted(world.sink, (number,), now_ms=1), topics=_sorted(topics))

    # What must hold

    def broken(self, world: Any) -> str:
        if world.wrong:
            return str(world.wrong)
        if len(set(world.target)) != len(world.target):
            return f"a row is twice in the topic: {world.target}"
        if any(batch > world.sink.last for batch, _ in world.target):
            return f"a row of a batch that was not committed is in the topic: {world.target}"
        batches = [batch for batch, _ in world.target]
        if batches != sorted(batches):
            return f"a batch overtook another: {world.target}"
        return ""

    def unsettled(self, world: Any) -> str:
        rows = {row for part in self.cuts[0] for row in part}
        wanted = {(batch, row) for batch in range(world.sink.last + 1) for row in rows}
        if set(world.target) != wanted:
            return f"rows are lost: {sorted(wanted - set(world.target))}"
        if world.told > world.sink.last:
            return "a driver was told of a batch that is not committed"
        if world.topics and not any(number in {one.number for one in world.sink.stages} for number, _ in world.topics):
            return f"stage topics are left: {world.topics}"
        if world.sink.chosen or world.sink.dropped:
            return "something is chosen or dropped and nobody does it"
        return ""


def _sorted(topics: dict[int, Topic]) -> tuple[tuple[int, Topic], ...]:
    return tuple(sorted(topics.items()))

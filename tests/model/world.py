# long: the whole small cluster stands in one place, so that what a move does can be read without turning pages
"""A small cluster around the REAL deciders: two brokers that may lead, one record with compare-and-set, segment owners
with their memory of terms, subscriptions, and calls that are under way.

One move executes one call where it arrives and gives its answer to the decider that asked. Faults: a leader crashes and
stays down while its calls may still arrive; a session ends without its broker hearing of it; the answer of a call is
lost, the call executed now, later or never. Producers are in it as a question put to every state: whatever layout one
has cached, may its message be accepted where a subscription would miss it? Each call is atomic at its owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from magnetar.base.errors import Fenced, Refused
from magnetar.base.ids import Position, SegmentId, Term
from magnetar.cluster.calls import topic_calls
from magnetar.layout.segment import Ending, State
from magnetar.scalable.machines import admission, deletion, pruning, reshape, subscription_change, takeover
from magnetar.scalable.machines import effects as machines_effects
from magnetar.scalable.record import record
from magnetar.scalable.record.record import Lifecycle, Record
from magnetar.scalable.record.subscription import Subscription, SubscriptionState
from tests.model.explore import Move

SEAL = machines_effects.SealSummary(Ending(Position(1, 1)))
BROKERS = ("A", "B")
LEAD = takeover.OP
READS = (
    machines_effects.ReadRecord,
    machines_effects.ReadSubscription,
    machines_effects.ListSubscriptions,
    takeover.CompeteForLock,
)


class Ref:
    """A value that equals only itself; `Refs` gives equal values the same one, so that worlds compare in no time."""

    __slots__ = ("number", "value")

    def __init__(self, number: int, value: Any) -> None:
        self.number = number
        self.value = value


class Refs:
    def __init__(self) -> None:
        self._refs: dict[Any, Ref] = {}

    def __call__(self, value: Any) -> Ref:
        found = self._refs.get(value)
        if found is None:
            found = self._refs[value] = Ref(len(self._refs), value)
        return found


class Topic(NamedTuple):
    """What the owner of one segment has on disk."""

    id: SegmentId
    incarnation: int
    sealed: bool = False
    term: int = 0
    cursors: frozenset[tuple[str, int]] = frozenset()


class Broker(NamedTuple):
    up: bool = True
    lead: takeover.TakeOver = takeover.TakeOver()
    tasks: tuple[tuple[str, Any], ...] = ()  # operation -> decider's state
    pending: frozenset[tuple[str, Any]] = frozenset()  # operation and the call it waits for


class World(NamedTuple):
    record: Ref
    version: int
    subscriptions: Ref  # tuple of (subscription, version)
    lock: str
    topics: Ref  # tuple of Topic
    brokers: tuple[Ref, ...]
    workers: Ref  # those who make and remove subscriptions: (op, state), and their pending calls
    asked: tuple[Any, ...]  # requests that nobody has taken up
    acked: frozenset[tuple[str, int]]  # subscriptions that somebody was told of
    ghosts: frozenset[Any]  # calls under way whose caller is gone or does not wait any more
    crashes: int
    expiries: int
    losses: int
    wrong: str


@dataclass
class Rules:
    """The deciders and the owners' checks. A mutant is made by replacing one of them."""

    takeover_step: Callable[..., Any] = takeover.step
    reshape_begin: Callable[..., Any] = reshape.begin
    reshape_step: Callable[..., Any] = reshape.step
    deletion_step: Callable[..., Any] = deletion.step
    pruning_step: Callable[..., Any] = pruning.step
    subscriptions_step: Callable[..., Any] = subscription_change.step
    check_provision: Callable[..., bool] = admission.check_provision
    check_term: Callable[..., None] = admission.check_term
    created: Callable[..., Record] = record.created
    tombstone: bool = True
    proof: bool = True


class Delete(NamedTuple):
    op: str


class Prune(NamedTuple):
    """Of everything that is sealed when a leader takes it up: no segment has messages here."""

    op: str


class Recreate(NamedTuple):
    op: str


@dataclass
class Cluster:
    rules: Rules = field(default_factory=Rules)
    refuse: tuple[SegmentId, int] | None = None  # a child that its owner refuses for good, and from which term on
    ref: Refs = field(default_factory=Refs)

    def start(
        self,
        segments: int,
        asked: tuple[Any, ...],
        *,
        work: tuple[Any, ...] = (),
        subscribed: tuple[str, ...] = (),
        crashes: int = 0,
        expiries: int = 0,
        losses: int = 0,
    ) -> World:
        first = record.created(None, segments, now_ms=1)
        made = tuple((Subscription(name, subscription_change.Type.STREAM, 0, 1, ready=True), 0) for name in subscribed)
        cursors = frozenset((name, 0) for name in subscribed)
        topics = tuple(Topic(one.id, 1, cursors=cursors) for one in first.layout.segments)
        return World(
            record=self.ref(first),
            version=0,
            subscriptions=self.ref(made),
            lock="",
            topics=self.ref(topics),
            brokers=tuple(self.ref(Broker()) for _ in BROKERS),
            workers=self.ref(
                (
                    tuple((state.op, state) for state, _ in work),
                    frozenset((state.op, call) for state, effects in work for call in effects),
                )
            ),
            asked=asked,
            acked=cursors,
            ghosts=frozenset(),
            crashes=crashes,
            expiries=expiries,
            losses=losses,
            wrong="",
        )

    # Moves

    def moves(self, world: World) -> Iterator[Move]:
        """The brokers are alike, so a world and its mirror image are one; names in a way are those before the move."""
        for label, after, fault in self._moves(world):
            first, second = after.brokers
            if first.number > second.number:
                lock = {"A": "B", "B": "A"}.get(after.lock, "")
                after = after._replace(brokers=(second, first), lock=lock)
            yield label, after, fault

    def _moves(self, world: World) -> Iterator[tuple[str, World, bool]]:
        for index, name in enumerate(BROKERS):
            broker: Broker = world.brokers[index].value
            if broker.up:
                yield from self._broker_moves(world, index, name, broker)
        states, pending = world.workers.value
        for op, call in pending:
            rest = world._replace(workers=self.ref((states, pending - {(op, call)})))
            yield from self._outcomes(f"{op}: ", rest, op, call, self._to_worker)
        for ghost in world.ghosts:
            after, _ = self._execute(world._replace(ghosts=world.ghosts - {ghost}), ghost)
            yield f"late: {_name(ghost)}", after, True
        current: Record | None = world.record.value
        if current is None or current.lifecycle is Lifecycle.GONE:
            for one in world.asked:
                if isinstance(one, Recreate):
                    yield "created again", self._recreate(world, one, current), False

    def _broker_moves(self, world: World, index: int, name: str, broker: Broker) -> Iterator[tuple[str, World, bool]]:
        current: Record | None = world.record.value
        for op, call in broker.pending:
            rest = self._with(world, index, broker._replace(pending=broker.pending - {(op, call)}))
            if isinstance(call, takeover.CompeteForLock):
                won = not rest.lock
                rest = rest._replace(lock=rest.lock or name)
                event = takeover.LockWon() if won else takeover.LockTaken()
                yield f"{name}: {event}", self._to_broker(index, rest, LEAD, event), False
                continue

            def answered(after: World, op: str, event: Any) -> World:
                return self._to_broker(index, after, op, event)

            yield from self._outcomes(f"{name}: ", rest, op, call, answered)
        phase = broker.lead.phase
        work = bool(world.asked) or (current is not None and (current.intent or not current.is_live or current.going()))
        if phase is takeover.Phase.FOLLOWING and not world.lock and work and current and not _gone(current):
            yield f"{name}: needed", self._to_broker(index, world, LEAD, takeover.Needed()), False
        leading = phase is takeover.Phase.LEADING
        deposed = current is None or current.term != broker.lead.term or _gone(current)
        if leading and self.rules.proof and deposed and (LEAD, machines_effects.ReadRecord(LEAD)) not in broker.pending:
            yield f"{name}: proof due", self._to_broker(index, world, LEAD, takeover.ProofDue()), False
        if leading:
            for one in world.asked:
                if not isinstance(one, Recreate):
                    rest = world._replace(asked=tuple(other for other in world.asked if other != one))
                    yield f"{name}: asked for {one.op}", self._take_up(rest, index, one), False
        going = current is not None and current.is_live and current.going()
        if leading and going and not any(isinstance(state, pruning.Pruning) for _, state in broker.tasks):
            yield f"{name}: looks for segments to prune", self._take_up(world, index, Prune("prune")), False
        if world.crashes and phase is not takeover.Phase.FOLLOWING:
            ghosts = self._under_way(world, (call for _, call in broker.pending))
            down = self._with(world, index, Broker(up=False))
            lock = "" if world.lock == name else world.lock
            yield (
                f"{name}: CRASH",
                down._replace(lock=lock, ghosts=ghosts, crashes=world.crashes - 1),
                True,
            )
        if world.expiries and world.lock == name:
            yield f"{name}: SESSION LOST silently", world._replace(lock="", expiries=world.expiries - 1), True

    def _outcomes(
        self, who: str, rest: World, op: str, call: Any, answered: Callable[[World, str, Any], World]
    ) -> Iterator[Move]:
        after, event = self._execute(rest, call)
        yield f"{who}{_name(call)} -> {type(event).__name__}", answered(after, op, event), False
        if not rest.losses:
            return
        lost = machines_effects.CallLost(op, call)
        if not isinstance(call, READS):
            fewer = after._replace(losses=rest.losses - 1)
            yield f"{who}{_name(call)} executed, ANSWER LOST", answered(fewer, op, lost), True
            later = rest._replace(losses=rest.losses - 1, ghosts=rest.ghosts | {call})
            yield f"{who}{_name(call)} LOST on its way", answered(later, op, lost), True
        else:
            yield f"{who}{_name(call)} LOST", answered(rest._replace(losses=rest.losses - 1), op, lost), True

    # Deciders

    def _to_broker(self, index: int, world: World, op: str, event: Any) -> World:
        broker: Broker = world.brokers[index].value
        if op == LEAD:
            lead, effects = self.rules.takeover_step(broker.lead, event)
            world = self._with(world, index, broker._replace(lead=lead))
            for effect in effects:
                world = self._lead_effect(world, index, effect)
            return world
        for number, (name, state) in enumerate(broker.tasks):
            if name == op:
                after, effects = self._decider(state)(state, event)
                final = after.phase in reshape.FINAL or after.phase in deletion.FINAL or after.phase in pruning.FINAL
                if final:
                    world = self._with(
                        world, index, broker._replace(tasks=broker.tasks[:number] + broker.tasks[number + 1 :])
                    )
                    world = self._let_go(world, index, {op})
                else:
                    tasks = (*broker.tasks[:number], (name, after), *broker.tasks[number + 1 :])
                    world = self._with(world, index, broker._replace(tasks=tasks))
                return self._task_effects(world, index, op, effects)
        return world

    def _decider(self, state: Any) -> Callable[..., Any]:
        match state:
            case deletion.Deletion():
                return self.rules.deletion_step
            case pruning.Pruning():
                return self.rules.pruning_step
            case _:
                return self.rules.reshape_step

    def _let_go(self, world: World, index: int, ops: set[str]) -> World:
        """Nobody waits for these calls any more; they may still arrive."""
        broker: Broker = world.brokers[index].value
        mine = frozenset((op, call) for op, call in broker.pending if op in ops)
        if not mine:
            return world
        world = self._with(world, index, broker._replace(pending=broker.pending - mine))
        return world._replace(ghosts=self._under_way(world, (call for _, call in mine)))

    def _under_way(self, world: World, more: Iterable[Any]) -> frozenset[Any]:
        """Without reads, and without writes that can never succeed any more: versions do not come back."""
        return frozenset(
            call
            for call in (*world.ghosts, *more)
            if not isinstance(call, READS)
            and not (
                self.rules.tombstone and isinstance(call, machines_effects.WriteRecord) and call.version < world.version
            )
        )

    def _task_effects(self, world: World, index: int, op: str, effects: tuple[Any, ...]) -> World:
        for effect in effects:
            if isinstance(effect, machines_effects.StepDown):
                world = self._to_broker(index, world, LEAD, takeover.TermRefused(effect.term))
            elif not isinstance(effect, machines_effects.Finished):
                broker: Broker = world.brokers[index].value
                world = self._with(world, index, broker._replace(pending=broker.pending | {(op, effect)}))
        return world

    def _lead_effect(self, world: World, index: int, effect: Any) -> World:
        broker: Broker = world.brokers[index].value
        match effect:
            case takeover.ReleaseLock():
                return world._replace(lock="") if world.lock == BROKERS[index] else world
            case takeover.BeginTerm():
                return world
            case takeover.EndTerm(term=term):
                ended = {op for op, state in broker.tasks if state.term == term}
                tasks = tuple((op, state) for op, state in broker.tasks if op not in ended)
                return self._let_go(self._with(world, index, broker._replace(tasks=tasks)), index, ended)
            case takeover.ResumeReshape(term=term, record=found, version=version):
                state, effects = reshape.resume(found, version, term=term, now_ms=1)
                return self._started(world, index, state, effects)
            case takeover.ResumeDeletion(term=term, record=found, version=version):
                state, effects = deletion.resume("delete", found, version, term=term)
                return self._started(world, index, state, effects)
            case call:
                return self._with(world, index, broker._replace(pending=broker.pending | {(LEAD, call)}))

    def _take_up(self, world: World, index: int, request: Any) -> World:
        broker: Broker = world.brokers[index].value
        term, incarnation = broker.lead.term, broker.lead.incarnation
        if isinstance(request, Delete):
            state, effects = deletion.begin(request.op, term=term, incarnation=incarnation)
        elif isinstance(request, Prune):
            found: Record | None = world.record.value
            sealed = [] if found is None else [one.id for one in found.layout.segments if not one.is_active]
            state, effects = pruning.begin(request.op, term=term, incarnation=incarnation, empty=frozenset(sealed))
        else:
            state, effects = self.rules.reshape_begin(request, term=term, incarnation=incarnation)
        return self._started(world, index, state, effects)

    def _started(self, world: World, index: int, state: Any, effects: tuple[Any, ...]) -> World:
        broker: Broker = world.brokers[index].value
        world = self._with(world, index, broker._replace(tasks=(*broker.tasks, (state.op, state))))
        return self._task_effects(world, index, state.op, effects)

    def _to_worker(self, world: World, op: str, event: Any) -> World:
        states, pending = world.workers.value
        kept: list[tuple[str, Any]] = []
        acked = world.acked
        for name, state in states:
            if name != op:
                kept.append((name, state))
                continue
            after, effects = self.rules.subscriptions_step(state, event)
            for effect in effects:
                if not isinstance(effect, machines_effects.Finished):
                    pending = pending | {(op, effect)}
                elif effect.refusal is None and after.verb is subscription_change.ChangeKind.CREATE:
                    assert after.subscription is not None
                    acked = acked | {(after.name, after.subscription.life)}
            if (
                after.verb is subscription_change.ChangeKind.DELETE
                and after.phase is not subscription_change.Phase.LOOK
            ):
                acked = frozenset(one for one in acked if one[0] != after.name)  # nobody counts on it any more
            if after.phase not in subscription_change.FINAL:
                kept.append((name, after))
        return world._replace(workers=self.ref((tuple(kept), pending)), acked=acked)

    def _recreate(self, world: World, request: Recreate, before: Record | None) -> World:
        new = self.rules.created(before, 1, now_ms=1)
        topics = {one.id: one for one in world.topics.value}
        for one in new.layout.segments:
            if one.id not in topics:
                topics[one.id] = Topic(one.id, new.incarnation)
        return world._replace(
            record=self.ref(new),
            version=world.version + 1 if self.rules.tombstone else 0,
            topics=self.ref(tuple(topics[id] for id in sorted(topics))),
            asked=tuple(one for one in world.asked if one != request),
            acked=frozenset(),
        )

    # The store and the owners

    def _execute(self, world: World, call: Any) -> tuple[World, Any]:
        op: str = call.op
        subs: tuple[tuple[Subscription, int], ...] = world.subscriptions.value
        match call:
            case machines_effects.ReadRecord():
                return world, machines_effects.RecordRead(op, world.record.value, world.version)
            case machines_effects.WriteRecord(version=version, record=new):
                if version != world.version:
                    return world, machines_effects.RecordOvertaken(op)
                return self._put(world, new), machines_effects.RecordWritten(op, version + 1)
            case machines_effects.ListSubscriptions(incarnation=incarnation):
                live = [
                    one for one, _ in subs if one.incarnation == incarnation and one.standing is SubscriptionState.LIVE
                ]
                return world, machines_effects.SubscriptionsListed(op, tuple(replace(one, ready=False) for one in live))
            case machines_effects.ReadSubscription(name=name):
                for one, version in subs:
                    if one.name == name:
                        return world, machines_effects.SubscriptionRead(op, one, version)
                return world, machines_effects.SubscriptionRead(op, None, machines_effects.ABSENT)
            case machines_effects.WriteSubscription(version=version, subscription=new):
                found = next((at for one, at in subs if one.name == new.name), machines_effects.ABSENT)
                if found != version:
                    return world, machines_effects.SubscriptionOvertaken(op)
                others = [pair for pair in subs if pair[0].name != new.name]
                after = tuple(sorted([*others, (new, version + 1)], key=lambda pair: pair[0].name))
                return world._replace(subscriptions=self.ref(after)), machines_effects.SubscriptionWritten(
                    op, version + 1
                )
            case machines_effects.RemoveSubscription(version=version, name=name):
                found = next((at for one, at in subs if one.name == name), machines_effects.ABSENT)
                if found not in (version, machines_effects.ABSENT):
                    return world, machines_effects.SubscriptionOvertaken(op)
                after = tuple(pair for pair in subs if pair[0].name != name)
                return world._replace(subscriptions=self.ref(after)), machines_effects.SubscriptionRemoved(op)
            case machines_effects.RemoveSubscriptions(incarnation=incarnation):
                after = tuple(pair for pair in subs if pair[0].incarnation != incarnation)
                return world._replace(subscriptions=self.ref(after)), machines_effects.SubscriptionsRemoved(op)
            case machines_effects.AskOwner():
                return self._owner(world, call)
            case _:
                raise AssertionError(call)

    def _put(self, world: World, new: Record) -> World:
        before: Record | None = world.record.value
        wrong = world.wrong
        assert before is not None, "nothing is ever written over what is absent"
        if new.term < before.term or new.epoch < before.epoch:
            wrong = wrong or "a record went back in term or epoch"
        if not self.rules.tombstone and new.lifecycle is Lifecycle.GONE:
            return world._replace(record=self.ref(None), version=machines_effects.ABSENT)
        world = world._replace(record=self.ref(new), version=world.version + 1, wrong=wrong)
        return world._replace(ghosts=self._under_way(world, ())) if world.ghosts else world

    def _owner(self, world: World, call: machines_effects.AskOwner) -> tuple[World, Any]:
        op, request, id = call.op, call.request, call.segment.id
        topics: dict[SegmentId, Topic] = {one.id: one for one in world.topics.value}
        topic = topics.get(id)
        try:
            self.rules.check_term(Term(topic.term if topic else 0), getattr(request, "term", Term(1 << 30)))
        except Fenced:
            return world, machines_effects.CallFenced(op, call)
        event: Any
        match request:
            case topic_calls.ProvisionSegment():
                # Once a parent is sealed there is no way back, and somebody must make room: the refusal ends.
                down = any(one.sealed for one in topics.values())
                if self.refuse is not None and id == self.refuse[0] and request.term >= self.refuse[1] and not down:
                    return world, machines_effects.CallRefused(op, call, "no room")
                if not self.rules.check_provision(
                    world.record.value, op, id, incarnation=request.incarnation, subs_gen=request.subs_gen
                ):
                    return world, machines_effects.CallOvertaken(op, call)
                cursors = frozenset((one.name, one.life) for one in request.cursors)
                sealed = topic.sealed if topic else False
                topic = Topic(id, request.incarnation, sealed, request.term, cursors)
                event = machines_effects.ChildProvisioned(op, id, request.subs_gen)
            case topic_calls.Seal() | topic_calls.Fence():
                if topic is None:
                    return world, machines_effects.CallOvertaken(op, call)
                seals = isinstance(request, topic_calls.Seal)
                topic = topic._replace(sealed=topic.sealed or seals, term=request.term)
                event = (
                    machines_effects.ParentSealed(op, id, SEAL)
                    if seals
                    else machines_effects.ParentFenced(op, id, topic.sealed)
                )
            case topic_calls.Delete():
                topic = None
                event = machines_effects.SegmentDeleted(op, id)
            case topic_calls.PlaceCursor(subscription=key):
                event = machines_effects.CursorPlaced(op, id)
                found = next((one for one, _ in world.subscriptions.value if one.name == key.name), None)
                try:
                    admission.check_cursor(found, key.life)
                except Refused:
                    return world, machines_effects.CallRefused(op, call, "no such subscription")
                if topic is None:
                    return world, machines_effects.CallRefused(op, call, "no such segment")
                topic = topic._replace(cursors=topic.cursors | {(key.name, key.life)})
            case topic_calls.RemoveCursor(subscription=key):
                event = machines_effects.CursorRemoved(op, id)
                if topic is None:
                    return world, event
                topic = topic._replace(cursors=topic.cursors - {(key.name, key.life)})
            case _:
                raise AssertionError(call)
        topics.pop(id, None)
        if topic is not None:
            topics[id] = topic
        return world._replace(topics=self.ref(tuple(topics[key] for key in sorted(topics)))), event

    def _with(self, world: World, index: int, broker: Broker) -> World:
        brokers = list(world.brokers)
        brokers[index] = self.ref(broker)
        return world._replace(brokers=tuple(brokers))

    # What must hold

    def broken(self, world: World) -> str:
        """In every state."""
        current: Record | None = world.record.value
        if world.wrong:
            return world.wrong
        if current is None or not current.is_live:
            return ""
        topics = {one.id: one for one in world.topics.value}
        for one in current.layout.segments:
            topic = topics.get(one.id)
            if topic is None and one.state is State.PRUNING:
                continue
            if topic is None:
                return f"the record names segment {one.id}, which does not exist"
            if not one.is_active and not topic.sealed:
                return f"segment {one.id} is sealed in the record and open at its owner"
            if one.is_active and not topic.sealed and not topic.cursors >= world.acked:
                return f"segment {one.id} takes messages that an acknowledged subscription will never see"
        return ""

    def unsettled(self, world: World) -> str:
        """Where nothing moves any more."""
        current: Record | None = world.record.value
        topics: dict[SegmentId, Topic] = {one.id: one for one in world.topics.value}
        listed = {one.id for one in current.everything()} if current is not None else set()
        if set(topics) - listed:
            return f"orphan topics {sorted(set(topics) - listed)}"
        if current is None or current.lifecycle is Lifecycle.GONE:
            return ""
        if current.lifecycle is Lifecycle.DELETING:
            return "a deletion is left for ever"
        if current.intent is not None:
            return "an intent is left for ever"
        if current.going():
            return "a segment is pruned for ever"
        live = {(one.name, one.life) for one, _ in world.subscriptions.value}
        for one in current.layout.active:
            if topics[one.id].sealed:
                return f"the range of segment {one.id} is dead"
            if topics[one.id].cursors - live:
                return f"segment {one.id} has a cursor of no subscription"
        return ""


def _gone(current: Record) -> bool:
    return current.lifecycle is Lifecycle.GONE


def _name(call: Any) -> str:
    if isinstance(call, machines_effects.AskOwner):
        return f"{call.op}/{type(call.request).__name__} {call.segment.id}"
    return f"{call.op}/{type(call).__name__}"

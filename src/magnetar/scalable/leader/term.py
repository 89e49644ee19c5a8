"""The work of a leader during its term: reshapes one after the other, a deletion, and the stream subscriptions.

All its tasks are in one group that ends with the term and with nothing else (H-B12). An operation does not depend on
its caller: if the caller gives up, the operation continues. Machines decide; this module drives them and marks every
step. A test can stop the world at a mark, and operators can see the progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from magnetar.base.errors import MagnetarError
from magnetar.base.ids import SegmentId
from magnetar.base.limits import CALL_RETRY_S_MAX, CALL_RETRY_S_MIN
from magnetar.base.names import TopicName
from magnetar.metadata import paths
from magnetar.metadata.store import Change, Event
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner
from magnetar.scalable.consumers.coordinator import Coordinator
from magnetar.scalable.consumers.group import Group
from magnetar.scalable.consumers.stream_coordinator import StreamCoordinator
from magnetar.scalable.leader.migration import carry
from magnetar.scalable.leader.operations import Operation
from magnetar.scalable.leader.pruner import Pruner
from magnetar.scalable.leader.runner import MachineRunner
from magnetar.scalable.leader.subscription_runner import work
from magnetar.scalable.machines import deletion, effects, pruning, reshape
from magnetar.scalable.machines import seek as machines_seek
from magnetar.scalable.machines.deletion import Deletion
from magnetar.scalable.machines.effects import Call, Finished, StepDown
from magnetar.scalable.machines.pruning import Pruning
from magnetar.scalable.machines.reshape import Phase, Request, Reshape
from magnetar.scalable.machines.seek import Seeking
from magnetar.scalable.machines.subscription_change import SubscriptionChange
from magnetar.scalable.record.record import Kind, Record
from magnetar.scalable.record.subscription import Subscription, SubscriptionState, Type

if TYPE_CHECKING:
    from magnetar.scalable.leader.controller import ControllerContext

log = get("controller")

T = TypeVar("T")
M = TypeVar("M", Reshape, Deletion, Seeking, Pruning)

P, D, R = Phase, deletion.Phase, pruning.Phase
STEPS: dict[tuple[Phase, Phase], str] = {
    (P.INTENT, P.PROVISION): "intended",
    (P.PROVISION, P.CHECK): "provisioned",
    (P.CHECK, P.SEAL): "checked",
    (P.CHECK, P.PROVISION): "overtaken",
    (P.SEAL, P.SEED): "sealed",
    (P.SEAL, P.COMMIT): "sealed",
    (P.SEED, P.COMMIT): "seeded",
    (P.COMMIT, P.DONE): "committed",
    (P.COMMIT, P.PROVISION): "overtaken",
    (P.PREFLIGHT, P.PROVISION): "found",
    (P.PREFLIGHT, P.DONE): "found",
    (P.PROVISION, P.FENCE): "refused",
    (P.FENCE, P.ABANDON): "fenced",
    (P.ABANDON, P.CLEAN): "abandoned",
    (P.CLEAN, P.CLEAR): "cleaned",
    (P.CLEAR, P.REFUSED): "cleared",
}
WITHIN: dict[type[effects.Event], str] = {
    effects.ChildProvisioned: "child_provisioned",
    effects.ParentSealed: "parent_sealed",
}
DELETION_STEPS: dict[tuple[deletion.Phase, deletion.Phase], str] = {
    (D.MARK, D.CLEAN): "marked",
    (D.CLEAN, D.UNSUBSCRIBE): "cleaned",
    (D.UNSUBSCRIBE, D.BURY): "unsubscribed",
    (D.BURY, D.DONE): "buried",
}
PRUNING_STEPS: dict[tuple[pruning.Phase, pruning.Phase], str] = {
    (R.MARK, R.DELETE): "marked",
    (R.LIST, R.DELETE): "found",
    (R.LOOK, R.DELETE): "found",
    (R.DELETE, R.FORGET): "deleted",
    (R.FORGET, R.DONE): "forgotten",
}


@dataclass(frozen=True, slots=True)
class MachineKind(Generic[M]):
    """`label` names a step for people, from the state before, the event and the state after; "" for no step."""

    name: str
    step: Callable[[M, effects.Event], tuple[M, tuple[effects.Effect, ...]]]
    label: Callable[[M, effects.Event, M], str]


def _reshape_label(before: Reshape, event: effects.Event, after: Reshape) -> str:
    return STEPS.get((before.phase, after.phase), "") or WITHIN.get(type(event), "")


def _deletion_label(before: Deletion, event: effects.Event, after: Deletion) -> str:
    return DELETION_STEPS.get((before.phase, after.phase), "")


def _pruning_label(before: Pruning, event: effects.Event, after: Pruning) -> str:
    return PRUNING_STEPS.get((before.phase, after.phase), "")


def _seek_label(before: Seeking, event: effects.Event, after: Seeking) -> str:
    if after.phase is not before.phase:
        return after.phase.name.lower()
    return "segment_moved" if isinstance(event, effects.CursorReset) else ""


RESHAPE = MachineKind("reshape", reshape.step, _reshape_label)
DELETION = MachineKind("deletion", deletion.step, _deletion_label)
SEEK = MachineKind("seek", machines_seek.step, _seek_label)
PRUNING = MachineKind("pruning", pruning.step, _pruning_label)


class Term:
    """`refused`: a call met a higher term. `prove`: look at the record, it may be over."""

    def __init__(
        self,
        name: TopicName,
        record: Record,
        context: ControllerContext,
        *,
        refused: Callable[[Term, str], None],
        prove: Callable[[], None],
    ) -> None:
        self.name = name
        self.number = record.term
        self.incarnation = record.incarnation
        self.record = record  # as last seen; decisions read it again
        self.context = context
        self.owner = Owner(f"term {record.term} of {name}", context.failed)
        self.coordinators: dict[str, Coordinator] = {}
        self._refused = refused
        self._prove = prove
        self._one_reshape = asyncio.Lock()  # others wait (H-A5)
        self._working = 0
        self._loading: dict[str, asyncio.Task[Coordinator | None]] = {}
        self._stop = context.records.store.subscribe(paths.scalable_subscriptions(name), self._heard)
        self.spawn(self._restore())
        self.spawn(Pruner(name, context.contents, record=self._current, prune=self._prune).run())

    @property
    def busy(self) -> bool:
        return self._working > 0 or any(one.members for one in self.coordinators.values())

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self.context.runtime.spawn(self.owner, work)

    async def close(self) -> None:
        self._stop()
        for coordinator in self.coordinators.values():
            coordinator.close()
        await self.owner.close()

    # Reshapes

    def reshape(self, request: Request, operation: Operation) -> asyncio.Task[Finished | StepDown]:
        """Its end. Cancelled or StepDown: the term is over and another leader goes on."""
        begun = reshape.begin(request, term=self.number, incarnation=self.incarnation)
        return self.spawn(self._reshape(begun, operation))

    def resume_reshape(self, record: Record, version: int) -> None:
        now_ms = self.context.runtime.wall()
        assert record.intent is not None
        op, kind = record.intent.op, record.intent.kind
        operation = self.context.operations.begin(self.name, op, kind, now_ms)
        self._mark("reshape.resumed", op=op, kind=kind)
        operation.stepped("resumed", Phase.PROVISION.name, now_ms)
        self.spawn(self._reshape(reshape.resume(record, version, term=self.number, now_ms=now_ms), operation))

    async def _reshape(
        self, begun: tuple[Reshape, tuple[effects.Effect, ...]], operation: Operation
    ) -> Finished | StepDown:
        with self._work():
            async with self._one_reshape:
                outcome = await self._drive(RESHAPE, begun, operation)
                await self.look()
                return outcome

    async def look(self) -> None:
        """The layout may be another one: those who give segments out must know."""
        record, _ = await self._again(lambda: self.context.records.fresh(self.name))
        if record is not None and record.incarnation == self.incarnation:
            self.record = record
            for coordinator in list(self.coordinators.values()):
                coordinator.layout_seen(record.layout)

    # Deletion

    def delete(self, op: str, operation: Operation) -> asyncio.Task[Finished | StepDown]:
        return self.spawn(self._delete(deletion.begin(op, term=self.number, incarnation=self.incarnation), operation))

    def resume_deletion(self, record: Record, version: int) -> None:
        op = f"delete-{record.incarnation}"
        operation = self.context.operations.begin(self.name, op, "DELETE", self.context.runtime.wall())
        self._mark("deletion.resumed", op=op)
        self.spawn(self._delete(deletion.resume(op, record, version, term=self.number), operation))

    async def _delete(
        self, begun: tuple[Deletion, tuple[effects.Effect, ...]], operation: Operation
    ) -> Finished | StepDown:
        outcome = await self._drive(DELETION, begun, operation)
        self._prove()
        return outcome

    # Pruning

    async def _current(self) -> Record | None:
        record, _ = await self.context.records.fresh(self.name)
        return record if record is not None and record.term == self.number else None

    async def _prune(self, empty: frozenset[SegmentId]) -> None:
        """One round. It takes no turn of the reshapes: an owner that does not answer must not delay them."""
        op = f"prune-{self.number}-{self.context.runtime.rng('operations').getrandbits(32):08x}"
        operation = self.context.operations.begin(self.name, op, "PRUNE", self.context.runtime.wall())
        begun = pruning.begin(op, term=self.number, incarnation=self.incarnation, empty=empty)
        await self._drive(PRUNING, begun, operation)
        await self.look()

    # Seeks

    def seek(
        self, begun: tuple[Seeking, tuple[effects.Effect, ...]], operation: Operation
    ) -> asyncio.Task[Finished | StepDown]:
        """As `reshape`."""
        return self.spawn(self._drive(SEEK, begun, operation))

    def _resume_seek(self, subscription: Subscription) -> None:
        """An earlier leader left the seek unfinished."""
        assert subscription.seek is not None
        operation = self.context.operations.begin(self.name, subscription.seek.op, "SEEK", self.context.runtime.wall())
        self._mark("seek.resumed", op=subscription.seek.op)
        self.seek(machines_seek.resume(subscription), operation)

    # All

    @contextmanager
    def _work(self) -> Iterator[None]:
        """While it lasts, the term is busy."""
        self._working += 1
        try:
            yield
        finally:
            self._working -= 1

    async def _drive(
        self, kind: MachineKind[M], begun: tuple[M, tuple[effects.Effect, ...]], operation: Operation
    ) -> Finished | StepDown:
        """Drives one machine to its end, and shows its steps."""

        def moved(before: M, event: effects.Event, after: M) -> None:
            self._step(kind.name, kind.label(before, event, after), after.phase.name, operation)

        with self._work():
            runner = MachineRunner(self.context.runtime, self.owner, step=kind.step, perform=self._perform, moved=moved)
            state, outcome = await runner.run(*begun)
            self._ended(operation, state.phase.name, outcome)
            return outcome

    async def _perform(self, state: Reshape | Deletion | Seeking | Pruning, call: Call) -> effects.Event:
        if isinstance(state, Seeking) and state.waits and isinstance(call, effects.ReadSubscription):
            await asyncio.sleep(CALL_RETRY_S_MIN)  # for what the controller stores
        if isinstance(call, effects.AskOwner):
            return await self.context.segment_client.call(self.name, call)
        if (
            isinstance(call, effects.ListSubscriptions)
            and isinstance(state, Reshape)
            and not await self._carried(state)
        ):
            return effects.CallLost(call.op, call)
        return await self.context.records.call(self.name, call)

    async def _carried(self, state: Reshape) -> bool:
        """Subscriptions that plain topics had on their own are among those that are listed. False: not all yet."""
        if state.record is None or state.intent.kind is not Kind.MIGRATE:
            return True
        context = self.context

        async def begin(begun: tuple[SubscriptionChange, tuple[effects.Effect, ...]]) -> None:
            await work(context.runtime, self.owner, context.records, context.segment_client, self.name, begun)

        try:
            count = await carry(
                self.name,
                state.record,
                state.op,
                records=context.records,
                segment_client=context.segment_client,
                begin=begin,
            )
        except MagnetarError as error:
            log.warning("subscription_migration_failed", topic=str(self.name), term=self.number, error=str(error))
            return False
        self._mark("migration.carried", op=state.op, subscriptions=count)
        return True

    def _ended(self, operation: Operation, phase: str, outcome: Finished | StepDown) -> None:
        if isinstance(outcome, StepDown):
            self._refused(self, outcome.why)
            return
        refusal = outcome.refusal
        operation.ended(phase, self.context.runtime.wall(), "" if refusal is None else str(refusal.error()))
        if refusal is None:
            self.context.operations.count(operation)

    def _step(self, machine: str, step: str, phase: str, operation: Operation) -> None:
        if step:
            operation.stepped(step, phase, self.context.runtime.wall())
            self._mark(f"{machine}.{step}", op=operation.op, kind=operation.kind)

    def _mark(self, what: str, **facts: object) -> None:
        self.context.runtime.mark(what, topic=str(self.name), term=self.number, **facts)
        log.info(what.replace(".", "_"), topic=str(self.name), term=self.number, **facts)

    # Stream subscriptions

    async def coordinator(self, subscription: str) -> Coordinator | None:
        """None: the topic has no such subscription, or it is not one whose segments are given out."""
        coordinator = self.coordinators.get(subscription)
        if coordinator is not None:
            return coordinator
        loading = self._loading.get(subscription)
        if loading is None:
            loading = self._loading[subscription] = self.spawn(self._load(subscription))
        await asyncio.wait([loading])
        return None if loading.cancelled() else loading.result()

    async def _restore(self) -> None:
        """Everybody who is expected gets a fresh grace period from here on (H-F11)."""
        stored = await self._again(lambda: self.context.records.subscriptions(self.name, self.incarnation))
        for subscription in [one for one, _ in stored if one.seek is not None]:
            self._resume_seek(subscription)
        for name in [one.name for one, _ in stored if one.type is Type.STREAM or one.members]:
            await self._again(lambda name=name: self.coordinator(name))  # type: ignore[misc]

    async def _load(self, subscription: str) -> Coordinator | None:
        try:
            stored, version = await self.context.records.subscription(self.name, subscription)
            if (
                stored is None
                or stored.incarnation != self.incarnation
                or stored.standing is not SubscriptionState.LIVE
                or not stored.ready
            ):
                return None
            if stored.type is Type.QUEUE:
                return None
            kind = StreamCoordinator if stored.type is Type.STREAM else Group
            coordinator = kind(self, stored, version)
            await coordinator.claim()
            self.coordinators[subscription] = coordinator
            coordinator.layout_seen(self.record.layout)  # it may have changed during the load, without an event for it
            return coordinator
        finally:
            del self._loading[subscription]

    def dropped(self, coordinator: Coordinator, error: MagnetarError) -> None:
        """Its subscription is gone: this is why."""
        if self.coordinators.get(coordinator.name) is coordinator:
            del self.coordinators[coordinator.name]
        coordinator.close(error)

    def refused(self, why: str) -> None:
        self._refused(self, why)

    def _heard(self, event: Event) -> None:
        if event.change is not Change.CHILDREN_CHANGED and not self.owner.closed:
            for coordinator in list(self.coordinators.values()):
                if event.change is Change.RESYNC or coordinator.path == event.path:
                    coordinator.refresh()

    async def _again(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Repeats the work until the store answers: a term cannot start without this data."""
        while True:
            try:
                return await work()
            except MagnetarError as error:
                log.warning("store_request_failed", topic=str(self.name), term=self.number, error=str(error))
            await asyncio.sleep(CALL_RETRY_S_MAX)

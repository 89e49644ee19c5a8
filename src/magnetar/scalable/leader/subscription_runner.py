"""Creates and removes subscriptions of a scalable topic: drives the machine of `subscriptions.py` to its end.

Any broker may do it, and may repeat it. The caller gets the refusal, or an error that says that the outcome is unknown;
the work continues as long as its owner lives.
"""

from __future__ import annotations

import asyncio

from magnetar.base.errors import NotReady, TimedOut
from magnetar.base.limits import OPERATION_WAIT_S
from magnetar.base.names import TopicName
from magnetar.runtime.runtime import Owner, Runtime
from magnetar.scalable.leader.runner import MachineRunner
from magnetar.scalable.leader.segment_client import SegmentClient
from magnetar.scalable.machines import subscription_change
from magnetar.scalable.machines.effects import AskOwner, Call, Effect, Event, Finished
from magnetar.scalable.machines.subscription_change import SubscriptionChange
from magnetar.scalable.record.store import RecordStore


async def work(
    runtime: Runtime,
    owner: Owner,
    records: RecordStore,
    segment_client: SegmentClient,
    name: TopicName,
    begun: tuple[SubscriptionChange, tuple[Effect, ...]],
) -> None:
    def moved(before: SubscriptionChange, event: Event, after: SubscriptionChange) -> None:
        if after.phase is not before.phase:
            runtime.mark(f"subscription.{after.phase.name.lower()}", topic=str(name), op=after.op)

    async def perform(state: SubscriptionChange, call: Call) -> Event:
        if isinstance(call, AskOwner):
            return await segment_client.call(name, call)
        return await records.call(name, call)

    drive = MachineRunner(runtime, owner, step=subscription_change.step, perform=perform, moved=moved)
    task = runtime.spawn(owner, drive.run(*begun))
    await asyncio.wait([task], timeout=OPERATION_WAIT_S)
    if not task.done():
        raise TimedOut(
            "the subscription change did not finish in time and continues: read the subscription to see its state",
            topic=str(name),
        )
    if task.cancelled():
        raise NotReady("the broker is stopping: try again")
    _, outcome = task.result()
    if isinstance(outcome, Finished) and outcome.refusal is not None:
        raise outcome.refusal.error()

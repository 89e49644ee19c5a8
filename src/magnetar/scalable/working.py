"""Makes and removes subscriptions of a scalable topic: drives the machine of `subscriptions.py` to its end.

Anybody may, and it may be repeated. Whoever asked is told what refused it, or that the outcome is not known yet: the
work goes on as long as its owner lives.
"""

from __future__ import annotations

import asyncio

from magnetar.base.errors import NotReady, TimedOut
from magnetar.base.limits import OPERATION_WAIT_S
from magnetar.base.names import TopicName
from magnetar.runtime.runtime import Owner, Runtime
from magnetar.scalable import subscriptions
from magnetar.scalable.calls import Answer, Call, Effect, Event, OwnerCall, PlaceCursor, RemoveCursor
from magnetar.scalable.drive import Drive
from magnetar.scalable.owners import Owners
from magnetar.scalable.records import Records
from magnetar.scalable.subscriptions import Work


async def work(
    runtime: Runtime,
    owner: Owner,
    records: Records,
    owners: Owners,
    name: TopicName,
    begun: tuple[Work, tuple[Effect, ...]],
) -> None:
    def moved(before: Work, event: Event, after: Work) -> None:
        if after.phase is not before.phase:
            runtime.mark(f"subscription.{after.phase.name.lower()}", topic=str(name), op=after.op)

    async def perform(state: Work, call: Call) -> Event:
        if isinstance(call, OwnerCall):
            assert isinstance(call, PlaceCursor | RemoveCursor)
            return await owners.call(name, call, call.segment)
        return await records.call(name, call)

    drive = Drive(runtime, owner, step=subscriptions.step, perform=perform, moved=moved)
    task = runtime.spawn(owner, drive.run(*begun))
    await asyncio.wait([task], timeout=OPERATION_WAIT_S)
    if not task.done():
        raise TimedOut("the subscription was not changed in time: it goes on, look at it", topic=str(name))
    if task.cancelled():
        raise NotReady("the broker is stopping: ask again")
    _, outcome = task.result()
    if isinstance(outcome, Answer) and outcome.refusal is not None:
        raise outcome.refusal.error()

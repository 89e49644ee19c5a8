"""One machine driven to its end: calls go out together, lost answers come back later each time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from magnetar.runtime.runtime import Owner
from magnetar.scalable.leader.runner import MachineRunner
from magnetar.scalable.machines.effects import Call, CallLost, Effect, Event, Finished, ReadRecord, RecordRead
from simulation.environment.inline_runtime import InlineRuntime
from tests.unit.topic.world import NoFiles


@dataclass(frozen=True)
class Asking:
    """Asks three times at once and ends when all are answered; a lost call is repeated."""

    answered: int = 0
    phase: str = "asking"


def step(state: Asking, event: Event) -> tuple[Asking, tuple[Effect, ...]]:
    if isinstance(event, CallLost):
        return state, (event.call,)
    state = replace(state, answered=state.answered + 1)
    return state, (Finished("op"),) if state.answered == 3 else ()


async def test_calls_leave_together_and_lost_one_waits_longer() -> None:
    files: Any = NoFiles()
    runtime = InlineRuntime(files)
    owner = Owner("test")
    under_way = most = lost = 0
    times: list[float] = []

    async def perform(state: Asking, call: Call) -> Event:
        nonlocal under_way, most, lost
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        if lost < 4:
            lost += 1
            times.append(runtime.monotonic())
            return CallLost("op", call)
        return RecordRead("op", None, -1)

    steps: list[int] = []
    drive = MachineRunner(
        runtime, owner, step=step, perform=perform, moved=lambda before, event, after: steps.append(after.answered)
    )
    state, outcome = await drive.run(Asking(), (ReadRecord("op"), ReadRecord("op"), ReadRecord("op")))
    assert outcome == Finished("op")
    assert state.answered == 3
    assert most == 3
    assert steps[-1] == 3
    assert len(steps) == 7
    assert runtime.monotonic() > 0, "repeating costs nobody much"
    await owner.close()

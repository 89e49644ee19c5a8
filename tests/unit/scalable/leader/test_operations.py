"""Operations as people see them: their steps, their end, and a bound on how many are remembered."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import Conflict
from magnetar.base.limits import OPERATIONS_KEPT_MAX
from magnetar.base.names import topic_name
from magnetar.scalable.leader.operations import Operations, begun

NAME = topic_name("topic://public/default/orders")


def test_resumed_operation_continues_where_it_was() -> None:
    kept = Operations()
    first = kept.begin(NAME, "op", "SPLIT", 1)
    first.stepped("intended", "PROVISION", 2)
    assert kept.begin(NAME, "op", "SPLIT", 3) is first
    first.ended("DONE", 4)
    assert first.done
    assert [(step.name, step.at_ms) for step in first.steps] == [("intended", 2)]
    assert kept.find(NAME, "op") is first
    assert kept.of(NAME) == [first]
    assert kept.find(topic_name("topic://public/default/other"), "op") is None


@pytest.mark.real_clock
async def test_caller_without_wait_gets_first_step_or_refusal() -> None:
    operation = Operations().begin(NAME, "op", "SPLIT", 1)
    over = asyncio.Event()

    async def work() -> None:
        operation.stepped("intended", "PROVISION", 2)
        operation.stepped("provisioned", "CHECK", 3)
        await over.wait()

    async def refused() -> None:
        raise Conflict("sealed")

    task = asyncio.create_task(work())
    await begun(operation, task)
    assert not task.done()
    over.set()
    await task
    with pytest.raises(Conflict):
        await begun(Operations().begin(NAME, "op", "SPLIT", 1), asyncio.create_task(refused()))


def test_oldest_is_forgotten() -> None:
    kept = Operations()
    for number in range(OPERATIONS_KEPT_MAX + 5):
        kept.begin(NAME, f"op-{number}", "SPLIT", number)
    assert len(kept.of(NAME)) == OPERATIONS_KEPT_MAX
    assert kept.find(NAME, "op-4") is None
    assert kept.find(NAME, "op-5") is not None

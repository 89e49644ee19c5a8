"""A leader dies at every step of a split, a merge and a deletion, and another one finishes: the crash matrix."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import MagnetarError
from tests.unit.scalable.world import KEYS, NAME, Cluster, Writer, pass_s, run, settle, spawn

MARKS = [
    "reshape.intended",
    "reshape.child_provisioned",
    "reshape.provisioned",
    "reshape.checked",
    "topic.sealed",
    "reshape.sealed",
    "reshape.seeded",
    "reshape.committed",
]


async def attempt(work: asyncio.Task[object]) -> object:
    try:
        return await work
    except MagnetarError as error:
        return error


ROWS = [
    *((mark, "split") for mark in MARKS),
    *((mark.replace("child_provisioned", "parent_sealed"), "merge") for mark in MARKS),  # one child, two parents
]


@pytest.mark.parametrize(("mark", "kind"), ROWS)
def test_a_leader_that_dies_anywhere_in_a_reshape_is_finished_by_another(mark: str, kind: str) -> None:
    async def body(cluster: Cluster) -> None:
        first = cluster.members[0]
        await first.service.create(NAME, segments=2)
        writer = Writer(cluster)
        for key in KEYS:
            await writer.send(key)
        for member in cluster.members:
            member.kill_at(mark)
        work = first.service.split(NAME, 0) if kind == "split" else first.service.merge(NAME, [0, 1])
        task = spawn(attempt(spawn(work)))
        await settle()
        for _ in range(20):
            if any(one.dead for one in cluster.members):
                break
            await pass_s(0.1)
        assert sum(one.dead for one in cluster.members) >= 1, "the mark was never reached"
        for member in cluster.living:
            member.runtime.told = lambda name, facts: None
        after = await cluster.until(lambda record: record.intent is None and len(record.layout.segments) > 2)
        assert len(after.layout.active) == (3 if kind == "split" else 1)
        for key in KEYS:
            await writer.send(key)
        assert await cluster.contents() == writer.sent, "lost, invented, doubled or out of order"
        task.cancel()
        writer.close()

    run(body, 3, brokerDeduplicationEnabled="true")

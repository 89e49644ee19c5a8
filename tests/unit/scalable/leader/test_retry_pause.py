"""A topic whose segments refuse every term is tried less and less often (D20)."""

from __future__ import annotations

import asyncio

import pytest

from magnetar.base.errors import MagnetarError
from magnetar.base.limits import FENCED_CALM_S, FENCED_PAUSE_S_MAX
from magnetar.scalable.leader.retry_pause import Pause
from magnetar.topic.seal import TERM_PROPERTY
from tests.unit.scalable.world import NAME, Cluster, pass_s, spawn


def test_one_refusal_does_not_pause_and_more_pause_longer() -> None:
    pause = Pause()
    now, waited = 100.0, []
    for _ in range(10):
        waited.append(pause.refused(now))
        assert pause.lasts(now) == (waited[-1] > 0)
        now += waited[-1]
        assert not pause.lasts(now)
    assert waited == [0, 1, 2, 4, 8, 16, 32, FENCED_PAUSE_S_MAX, FENCED_PAUSE_S_MAX, FENCED_PAUSE_S_MAX]
    assert pause.refused(now + FENCED_PAUSE_S_MAX + FENCED_CALM_S) == 0


@pytest.mark.setup(1)
async def test_term_that_cannot_be_reached_is_tried_with_pauses(cluster: Cluster) -> None:
    """17 terms a second before, as long as a caller waited."""

    [only] = cluster.members
    await only.service.create(NAME, segments=1)
    [segment] = (await cluster.record()).layout.active
    topic = await only.segment(segment.topic(NAME))
    await topic.managed.set_properties({TERM_PROPERTY: str(2**40)})
    first = (await cluster.record()).term

    async def split() -> object:
        try:
            return await only.service.split(NAME, segment.id)
        except MagnetarError as error:
            return error

    asking = spawn(split())
    for _ in range(60):
        await pass_s(1)
        if only.marked("takeover.won") > 20:
            break
    assert 3 <= only.marked("takeover.won") <= 10
    assert (await cluster.record()).term - first <= 10
    asking.cancel()
    await asyncio.wait([asking])

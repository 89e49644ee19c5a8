"""Reshapes over REST; splits, merges and what is told of them are in test_scalable.py."""

from __future__ import annotations

import pytest

from tests.unit.admin.resources.scalable.test_topics import NAME, X, a_world

pytestmark = pytest.mark.real_clock


async def test_rebucket_answers_as_pulsar_does_and_is_told_as_operation() -> None:
    async with a_world() as world:
        await world.do("PUT", X)
        assert (await world.ask("POST", f"{X}/rebucket/0?bucketCount=8")).status == 204
        answer = await world.ask("POST", f"{X}/rebucket/1?bucketCount=16&show=operation&reason=more")
        assert answer.status == 200
        told = {key: answer.document[key] for key in ("kind", "phase", "parentIds", "childIds", "reason")}
        assert told == {
            "kind": "REBUCKET",
            "phase": "DONE",
            "parentIds": [1],
            "childIds": [2],
            "reason": "more",
        }
        segments = (await world.get(X))["segments"]
        assert [len(segments[id].get("entryBucketSplits", [])) + 1 for id in "012"] == [4, 8, 16]
        assert {str(segments[id]["hashRange"]) for id in "012"} == {str({"start": 0, "end": 65535})}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("rebucket/0?bucketCount=4", 412),
        ("rebucket/0?bucketCount=0", 412),
        ("rebucket/0?bucketCount=1025", 412),
        ("rebucket/0", 404),
        ("rebucket/9?bucketCount=8", 404),
    ],
)
async def test_rebucket_that_cannot_be_is_refused_and_changes_nothing(path: str, status: int) -> None:
    async with a_world() as world:
        await world.do("PUT", X)
        before = await world.get(X)
        assert (await world.ask("POST", f"{X}/{path}")).status == status, NAME
        assert await world.get(X) == before

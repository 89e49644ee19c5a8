"""How far an offset is behind its topic, by segment: the same numbers that a query plans with."""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.client.reads import Reads
from magnetar.spark.frontier import Frontier
from magnetar.spark.link import facts, run
from magnetar.spark.planner import DEFAULT, UNLIMITED


@dataclass(frozen=True, slots=True)
class Behind:
    topic: str
    segment: int
    position: str
    messages: int
    bytes: int


def behind(url: str, offset: Frontier) -> list[Behind]:
    """Of every segment that is being read or comes after those."""

    async def ask(client: Reads) -> list[Behind]:
        known = await facts(client, offset.topic)
        try:
            survey = await known.survey(offset, UNLIMITED, DEFAULT)
        finally:
            await known.close()
        found = sorted(survey.stretches.items())
        return [
            Behind(
                offset.topic,
                id,
                str(offset.places.get(id, one.start)),
                one.marks[-1].messages if one.marks else 0,
                one.marks[-1].bytes if one.marks else 0,
            )
            for id, one in found
        ]

    return run(url, ask)

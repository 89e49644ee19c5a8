"""The lag of an offset behind its topic, by segment, from the same numbers that a query uses for planning."""

from __future__ import annotations

from dataclasses import dataclass

from magnetar.client.read_client import ReadClient
from magnetar.spark.connect import facts, run
from magnetar.spark.source.batch_limits import UNLIMITED
from magnetar.spark.source.offset import SourceOffset
from magnetar.spark.source.planner import DEFAULT


@dataclass(frozen=True, slots=True)
class SegmentLag:
    topic: str
    segment: int
    position: str
    messages: int
    bytes: int


def behind(url: str, offset: SourceOffset) -> list[SegmentLag]:
    """The lag in every segment of the frontier and in all later segments."""

    async def ask(client: ReadClient) -> list[SegmentLag]:
        info = await facts(client, offset.topic)
        try:
            survey = await info.survey(offset, UNLIMITED, DEFAULT)
        finally:
            await info.close()
        ranges = sorted(survey.stretches.items())
        return [
            SegmentLag(
                offset.topic,
                id,
                str(offset.places.get(id, one.start)),
                one.marks[-1].messages if one.marks else 0,
                one.marks[-1].bytes if one.marks else 0,
            )
            for id, one in ranges
        ]

    return run(url, ask)

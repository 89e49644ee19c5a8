"""The interface to a server: the layout of a topic, positions of a publish time, and readable ranges from an offset.
`pulsar_topics` implements it for all servers, `magnetar_topics` for our own brokers. Every call sends a new request;
callers trust the answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from magnetar.base.ids import Epoch
from magnetar.layout.readable_range import Places
from magnetar.layout.segment import FIRST
from magnetar.spark.source.batch_limits import Limits
from magnetar.spark.source.offset import SourceOffset
from magnetar.spark.source.options import AtTime, Extreme
from magnetar.spark.source.planner import Rules
from magnetar.spark.source.readable_range import Stretches
from magnetar.spark.source.topic_layout import TopicLayout


@dataclass(frozen=True, slots=True)
class TopicSnapshot:
    """The state at one moment: `stretches` are measured from the requested positions, on the layout of `shape`."""

    shape: TopicLayout
    stretches: Stretches


class TopicInfo(Protocol):
    async def shape(self, epoch: Epoch = FIRST) -> TopicLayout:
        """At this epoch or a later one."""
        ...

    async def survey(self, start: SourceOffset, limits: Limits, rules: Rules) -> TopicSnapshot:
        """The readable ranges of a frontier's segments and of all later ones. May omit ranges far beyond the limits of
        a batch.
        """
        ...

    async def find(self, where: Extreme | AtTime) -> tuple[TopicLayout, Places]:
        """The start position in every segment; DONE if a sealed segment is entirely before it."""
        ...

    async def lost(self, places: Places) -> Places:
        """The segments whose messages at these positions were deleted, with the next existing position. Limited to
        losses that the server reports.
        """
        ...

    async def deleted(self) -> bool:
        """Whether messages before the earliest existing one were deleted. Limited to deletions that the server
        reports.
        """
        ...

    async def hold(self, at: SourceOffset) -> None:
        """Keeps messages after this position and releases those before. Called repeatedly; it only moves forward."""
        ...

    async def close(self) -> None: ...

"""What a query asks of a server before it reads: the shape of a topic, where the messages of a time are, and how much
there is to read from its offset on. The contract; who keeps it stands in `pulsar_topics`, and for our own brokers in
`magnetar_topics`. Everything is asked anew each time; whoever asks trusts the answers.
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
    """Of one moment: `stretches` are measured from the places that were asked about, on the layout of `shape`."""

    shape: TopicLayout
    stretches: Stretches


class TopicInfo(Protocol):
    async def shape(self, epoch: Epoch = FIRST) -> TopicLayout:
        """At this epoch or a later one."""
        ...

    async def survey(self, start: SourceOffset, limits: Limits, rules: Rules) -> TopicSnapshot:
        """What can be read from a frontier on: of its segments and of all that come after them. Of much more than a
        batch with these limits may take, the rest may be left out.
        """
        ...

    async def find(self, where: Extreme | AtTime) -> tuple[TopicLayout, Places]:
        """For every segment the place where reading starts; DONE where all of a sealed one lies before."""
        ...

    async def lost(self, places: Places) -> Places:
        """The segments in which messages at these places are gone, as far as the server tells, and what is left."""
        ...

    async def deleted(self) -> bool:
        """Are messages gone that came before the earliest that is left, as far as the server tells?"""
        ...

    async def hold(self, at: SourceOffset) -> None:
        """Keep what lies behind this place, let go of what lies before. Called again and again, only ever forward."""
        ...

    async def close(self) -> None: ...

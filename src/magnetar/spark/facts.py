"""What a query asks of a server before it reads: the shape of a topic, where the messages of a time are, and how much
there is to read from its offset on. The contract; who keeps it stands in `counted`, and for our own brokers in
`measured`. Everything is asked anew each time; whoever asks trusts the answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from magnetar.base.ids import Epoch
from magnetar.layout.segment import FIRST
from magnetar.layout.stretch import Places
from magnetar.spark.frontier import Frontier
from magnetar.spark.options import AtTime, Extreme
from magnetar.spark.planner import Limits, Rules
from magnetar.spark.shape import Shape
from magnetar.spark.stretch import Stretches


@dataclass(frozen=True, slots=True)
class Survey:
    """Of one moment: `stretches` are measured from the places that were asked about, on the layout of `shape`."""

    shape: Shape
    stretches: Stretches


class Facts(Protocol):
    async def shape(self, epoch: Epoch = FIRST) -> Shape:
        """At this epoch or a later one."""
        ...

    async def survey(self, start: Frontier, limits: Limits, rules: Rules) -> Survey:
        """What can be read from a frontier on: of its segments and of all that come after them. Of much more than a
        batch with these limits may take, the rest may be left out.
        """
        ...

    async def find(self, where: Extreme | AtTime) -> tuple[Shape, Places]:
        """For every segment the place where reading starts; DONE where all of a sealed one lies before."""
        ...

    async def lost(self, places: Places) -> Places:
        """The segments in which messages at these places are gone, as far as the server tells, and what is left."""
        ...

    async def hold(self, at: Frontier) -> None:
        """Keep what lies behind this place, let go of what lies before. Called again and again, only ever forward."""
        ...

    async def close(self) -> None: ...

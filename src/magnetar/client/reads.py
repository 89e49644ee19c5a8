"""What a client offers to readers in batches: how far a topic can be read, and keeping what they have not read yet.

A part of `Client`, which has what is declared here. For engines that plan their reads themselves; consumers need none
of it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from magnetar.base.ids import SegmentId
from magnetar.base.names import topic_name
from magnetar.client.holding import Hold, Holding, hold
from magnetar.client.lookup import Lookup
from magnetar.client.planning import Asking, From, Plan, Planning
from magnetar.layout.stretch import Place


class Reads(ABC):
    lookup: Lookup
    operation_timeout_s: float
    _planning: Planning

    async def plan(
        self,
        topic: str,
        places: Mapping[SegmentId, Place] | None = None,
        *,
        start: From | int = "start",
        messages_max: int = 0,
        bytes_max: int = 0,
        targets: Mapping[SegmentId, Place] | None = None,
        publish_times: bool = False,
        subscription: str = "",
    ) -> Plan:
        """How far a scalable topic can be read from `places`, by segment, with its layout; needs no admin rights.

        A segment that comes after those places is measured from its own beginning (`start`: "start"); without places
        all are, from "start", "earliest", "latest" or a publish time in milliseconds. About `messages_max` messages or
        `bytes_max` bytes are marked (0: all), and no segments beyond those that have so much; nothing at or behind
        `targets`. `publish_times`: at every mark, not only at each segment's first.
        """
        self._check()
        asking = Asking(
            str(topic_name(topic)),
            places or {},
            start,
            messages_max,
            bytes_max,
            targets,
            publish_times,
            subscription,
        )
        return await self._planning.plan(asking, self.operation_timeout_s)

    async def hold(
        self,
        topic: str,
        name: str,
        places: Mapping[SegmentId, Place] | None = None,
        *,
        expires_s: int = 0,
        owner: str = "",
        incarnation: int = 0,
    ) -> Hold:
        """Keep for a reader called `name` what lies behind `places`, whatever retention says, until `expires_s` after
        the last such call (0: as before, else seven days). Without places it only lives on; where there was no such
        hold, everything that is left is kept. Places move forward only. `incarnation`: of the plan they are from; those
        of another life of the topic are `Refused`. `owner`: who it is, for people.
        """
        self._check()
        asked = Holding(str(topic_name(topic)), name, places, expires_s, owner, incarnation)
        return await hold(self.lookup, asked, self.operation_timeout_s)

    async def release(self, topic: str, name: str) -> None:
        """End a hold: nothing is kept for it any more. `SubscriptionNotFound`: there is none, or it has just ended."""
        self._check()
        asked = Holding(str(topic_name(topic)), name, release=True)
        await hold(self.lookup, asked, self.operation_timeout_s)

    @abstractmethod
    def _check(self) -> None:
        """Closed: nothing more is done."""

"""The client of engines that read in batches: plans how far a topic is readable, and holds unread messages for them.

Engines such as Spark plan their reads themselves and need no consumers. This client takes a fraction of the import and
start time of the whole `Client`, which builds on it. It does no work before the first call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from magnetar.base.errors import Closed, Misuse
from magnetar.base.ids import SegmentId
from magnetar.base.limits import CLIENT_OPERATION_S
from magnetar.base.names import full_name, topic_name
from magnetar.client.arguments import check_topic
from magnetar.client.batch_read.hold import Hold, HoldRequest, hold
from magnetar.client.batch_read.plan import From, Plan, PlanClient, PlanRequest
from magnetar.client.connection.address import addresses
from magnetar.client.connection.backoff import persist
from magnetar.client.connection.lookup import Lookup
from magnetar.client.connection.pool import Pool
from magnetar.layout.readable_range import ReadPosition
from magnetar.runtime.runtime import Runtime
from magnetar.runtime.system_runtime import RealRuntime


class ReadClient:
    def __init__(
        self,
        url: str,
        *,
        runtime: Runtime | None = None,
        operation_timeout_s: float = CLIENT_OPERATION_S,
        listener: str = "",
    ) -> None:
        addresses(url)  # refuse an invalid URL here and not at the first call
        self.url = url
        self.closed = False
        self.operation_timeout_s = operation_timeout_s
        self._own_runtime = RealRuntime() if runtime is None else None
        self.runtime: Runtime = runtime if self._own_runtime is None else self._own_runtime  # type: ignore[assignment]
        self.pool = Pool(self.runtime)
        self.lookup = Lookup(self.pool, url, listener=listener, timeout_s=operation_timeout_s)
        self._planning = PlanClient(self.lookup)
        self._loop: asyncio.AbstractEventLoop | None = None  # of the first call

    async def plan(
        self,
        topic: str,
        places: Mapping[SegmentId, ReadPosition] | None = None,
        *,
        start: From | int = "start",
        messages_max: int = 0,
        bytes_max: int = 0,
        targets: Mapping[SegmentId, ReadPosition] | None = None,
        publish_times: bool = False,
        subscription: str = "",
    ) -> Plan:
        """Plan how far a scalable topic is readable from `places`, by segment, with its layout; needs no admin rights.

        A segment that is a descendant of those places is measured from its first message (`start`: "start"). Without
        places every segment is measured from "start", "earliest", "latest" or a publish time in milliseconds. The plan
        marks about `messages_max` messages or `bytes_max` bytes (0: all), and stops after the segments that contain
        that many; it never passes `targets`. `publish_times`: give the publish time at every mark, and not only at each
        segment's first.
        """
        self._check()
        check_topic(topic)
        asking = PlanRequest(
            str(topic_name(topic)),
            {} if places is None else places,
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
        places: Mapping[SegmentId, ReadPosition] | None = None,
        *,
        expires_s: int = 0,
        owner: str = "",
        incarnation: int = 0,
    ) -> Hold:
        """Keep the messages after `places` for a reader called `name`, regardless of retention, until `expires_s` after
        the last such call (0: as before, else seven days). Without places the call only renews the hold; if the hold
        does not exist, it then keeps all remaining messages. Places only move forward; a place that does not exist is
        `Refused`, and the hold does not change. `incarnation` is that of the plan with these places; places of another
        incarnation of the topic are `Refused`. `owner` is a description for operators.
        """
        self._check()
        check_topic(topic)
        request = HoldRequest(str(topic_name(topic)), name, places, expires_s, owner, incarnation)
        return await hold(self.lookup, request, self.operation_timeout_s)

    async def release(self, topic: str, name: str) -> None:
        """End a hold, so that its messages may be deleted. `SubscriptionNotFound`: the hold does not exist or ended."""
        self._check()
        check_topic(topic)
        request = HoldRequest(str(topic_name(topic)), name, release=True)
        await hold(self.lookup, request, self.operation_timeout_s)

    async def partitions(self, topic: str) -> list[str]:
        """The names of a topic's partitions, or the topic itself if it has no partitions. Does not create the topic."""
        self._check()
        check_topic(topic)
        named = topic_name(full_name(topic))
        count = await persist(
            self.runtime,
            self.operation_timeout_s,
            lambda: self.lookup.partitions(str(named), create=False),
            what=f"partitions of {topic}",
        )
        return [str(named.partition(index)) for index in range(count)] or [str(named)]

    async def close(self) -> None:
        if not self.closed:
            self._check_loop()
            self.closed = True
            await self._end()

    def _check(self) -> None:
        if self.closed:
            raise Closed("the client is closed")
        self._check_loop()

    def _check_loop(self) -> None:
        here = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = here
        elif self._loop is not here:
            raise Misuse(
                "the client belongs to another event loop. Create one client for each loop and each asyncio.run, or use"
                " magnetar.Client, which works from any thread and loop"
            )

    async def _end(self) -> None:
        await asyncio.shield(self.pool.close())
        if self._own_runtime is not None:
            self._own_runtime.close()

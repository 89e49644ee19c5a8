"""Scalable topics over REST: list, create, delete, layout, statistics, subscriptions, split, merge, rebucket and
migrate.

Names are whole (`topic://tenant/namespace/name`) or short (`name`, `tenant/namespace/name`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from magnetar.client.admin import paths
from magnetar.client.admin.aio.transport import RestTransport
from magnetar.client.admin.responses import RestResponse, decoded
from magnetar.client.documents.policies import Retention
from magnetar.client.documents.scalable import (
    MigrationPreview,
    Operation,
    ScalableSubscriptionStats,
    ScalableTopicMetadata,
    ScalableTopicStats,
    SeekPlaces,
    SubscriptionPlan,
)
from magnetar.client.documents.stats import TopicStats

Names = list[str]
Operations = list[Operation]


class ScalableTopics:
    def __init__(self, exchange: RestTransport) -> None:
        self._exchange = exchange

    # Life

    async def names(self, namespace: str, *, properties: dict[str, str] | None = None) -> Names:
        """All of a namespace, or those that have these properties."""
        filters = [f"{key}={value}" for key, value in (properties or {}).items()]
        return await self._exchange.read(paths.scalable_topics(namespace), Names, {"property": filters or None})

    async def list(self, namespace: str, *, properties: dict[str, str] | None = None) -> Names:
        """The same as `names`: every resource has a `list`."""
        return await self.names(namespace, properties=properties)

    async def create(self, name: str, *, segments: int = 1, properties: dict[str, str] | None = None) -> None:
        query = {"numInitialSegments": segments}
        await self._exchange.send("PUT", paths.scalable(name), properties or {}, query=query)

    async def delete(self, name: str, *, force: bool = False) -> None:
        """With `force`, also while it is used."""
        await self._exchange.send("DELETE", paths.scalable(name), query={"force": force or None})

    async def metadata(self, name: str) -> ScalableTopicMetadata:
        """Its layout: all segments, active and sealed."""
        return await self._exchange.read(paths.scalable(name), ScalableTopicMetadata)

    async def stats(self, name: str) -> ScalableTopicStats:
        return await self._exchange.read(f"{paths.scalable(name)}/stats", ScalableTopicStats)

    async def segment_stats(self, name: str, segment: int) -> TopicStats:
        return await self._exchange.read(f"{paths.scalable(name)}/segments/{segment}/stats", TopicStats)

    # Retention

    async def retention(self, name: str, *, applied: bool = False) -> Retention | None:
        """Its own; with `applied` the one that holds, of the namespace or of the broker where it has none."""
        query = {"applied": True} if applied else None
        answer = await self._exchange.call("GET", f"{paths.scalable(name)}/retention", query=query)
        return decoded(answer, Retention) if answer.body.strip() else None

    async def set_retention(self, name: str, retention: Retention) -> None:
        await self._exchange.send("POST", f"{paths.scalable(name)}/retention", retention)

    async def remove_retention(self, name: str) -> None:
        """The namespace's holds again."""
        await self._exchange.send("DELETE", f"{paths.scalable(name)}/retention")

    # Subscriptions

    async def subscriptions(self, name: str) -> dict[str, ScalableSubscriptionStats]:
        path = f"{paths.scalable(name)}/subscriptions"
        return await self._exchange.read(path, dict[str, ScalableSubscriptionStats])

    async def subscription(self, name: str, subscription: str) -> SubscriptionPlan:
        """Who reads what of a stream subscription, as the topic's controller sees it."""
        return await self._exchange.read(paths.scalable_subscription(name, subscription), SubscriptionPlan)

    async def create_subscription(
        self, name: str, subscription: str, *, type: str = "STREAM", earliest: bool = True
    ) -> None:
        """On all segments; one that is there stays as it is. `type` is STREAM or QUEUE."""
        query = {"type": type, "position": None if earliest else "latest"}
        await self._exchange.send("PUT", paths.scalable_subscription(name, subscription), query=query)

    async def delete_subscription(self, name: str, subscription: str) -> None:
        await self._exchange.send("DELETE", paths.scalable_subscription(name, subscription))

    async def seek(
        self,
        name: str,
        subscription: str,
        to: Literal["earliest", "latest"] | int | Mapping[int, tuple[int, int]],
    ) -> None:
        """On all segments, as one plan: nobody reads before all of it is done. `to` a time of publishing in
        milliseconds since 1970, or places: the ledger and entry of the first message to come, by segment. What came
        before those segments is skipped, what comes after them is read from its start, others stay where they are.
        """
        path = f"{paths.scalable_subscription(name, subscription)}/seek"
        if isinstance(to, int):
            await self._exchange.send("POST", path, query={"timestamp": to})
        elif isinstance(to, str):
            await self._exchange.send("POST", path, query={"to": to})
        else:
            places = SeekPlaces(places={str(segment): place for segment, place in to.items()})
            await self._exchange.send("POST", path, places)

    async def skip_all(self, name: str, subscription: str) -> None:
        """Everything there is, on all segments, without consuming it."""
        await self._exchange.send("POST", f"{paths.scalable_subscription(name, subscription)}/skip-all")

    # Reshapes

    async def split(
        self,
        name: str,
        segment: int,
        *,
        at: int | None = None,
        into: int | None = None,
        reason: str | None = None,
        wait: bool = True,
    ) -> Operation | None:
        """In two halves, `at` the hash where the second child begins, or `into` that many. Answers when it is done;
        without `wait` when it has begun, and `operation` tells the rest. A server that does not tell about operations
        says nothing of it, and answers when it is done."""
        query: dict[str, object] = {"at": None if at is None else f"{at:04x}", "into": into, **_asked(reason, wait)}
        path = f"{paths.scalable(name)}/split/{segment}"
        return _told(await self._exchange.call("POST", path, query=query))

    async def merge(
        self, name: str, segments: Sequence[int], *, reason: str | None = None, wait: bool = True
    ) -> Operation | None:
        """Neighbours become one segment; `wait` as in `split`. Apache Pulsar merges two at a time."""
        query = _asked(reason, wait)
        path = f"{paths.scalable(name)}/merge"
        if len(segments) == 2:
            path += f"/{segments[0]}/{segments[1]}"
        else:
            query["segments"] = ",".join(str(id) for id in segments)
        return _told(await self._exchange.call("POST", path, query=query))

    async def rebucket(
        self, name: str, segment: int, buckets: int, *, reason: str | None = None, wait: bool = True
    ) -> Operation | None:
        """A segment of the same range follows, with so many entry buckets: as many stream consumers can read it
        together. `wait` as in `split`."""
        query: dict[str, object] = {"bucketCount": buckets, **_asked(reason, wait)}
        path = f"{paths.scalable(name)}/rebucket/{segment}"
        return _told(await self._exchange.call("POST", path, query=query))

    async def migrate(
        self, name: str, *, force: bool = False, reason: str | None = None, wait: bool = True
    ) -> Operation | None:
        """A plain or partitioned topic becomes a scalable one, in place, for good; `wait` as in `split`. Refused with
        409 while clients that do not know scalable topics use it: `force` leaves them behind."""
        query = {"force": force or None, **_asked(reason, wait)}
        return _told(await self._exchange.call("POST", f"{paths.scalable(name)}/migrate", query=query))

    async def migration(self, name: str) -> MigrationPreview:
        """What `migrate` would find and make. Changes nothing. Apache Pulsar does not tell."""
        return await self._exchange.read(f"{paths.scalable(name)}/migrate", MigrationPreview)

    async def operations(self, name: str) -> Operations:
        """The reshape under way and those of the past, the newest first."""
        return await self._exchange.read(f"{paths.scalable(name)}/operations", Operations)

    async def operation(self, name: str, op: str) -> Operation:
        return await self._exchange.read(f"{paths.scalable(name)}/operations/{paths.part(op)}", Operation)

    # Segments: a controller makes, seals and deletes them; these see that it is so

    async def create_segment(self, segment_topic: str) -> None:
        await self._exchange.send("PUT", paths.segment(segment_topic), [])

    async def terminate_segment(self, segment_topic: str) -> None:
        await self._exchange.send("POST", f"{paths.segment(segment_topic)}/terminate")

    async def delete_segment(self, segment_topic: str, *, force: bool = False) -> None:
        await self._exchange.send("DELETE", paths.segment(segment_topic), query={"force": force or None})

    async def create_segment_subscription(self, segment_topic: str, subscription: str) -> None:
        await self._exchange.send("PUT", paths.segment_subscription(segment_topic, subscription))

    async def delete_segment_subscription(self, segment_topic: str, subscription: str) -> None:
        await self._exchange.send("DELETE", paths.segment_subscription(segment_topic, subscription))

    async def segment_backlog(self, segment_topic: str, subscription: str) -> int:
        """Entries that the subscription has not acknowledged there."""
        return await self._exchange.read(f"{paths.segment_subscription(segment_topic, subscription)}/backlog", int)


def _asked(reason: str | None, wait: bool) -> dict[str, object]:
    return {"reason": reason, "show": "operation", "wait": None if wait else False}


def _told(answer: RestResponse) -> Operation | None:
    return decoded(answer, Operation) if answer.body.strip() else None

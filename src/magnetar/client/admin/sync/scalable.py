"""Scalable topics over REST: list, create, delete, layout, statistics, subscriptions, split, merge, rebucket and
migrate.

Names are whole (`topic://tenant/namespace/name`) or short (`name`, `tenant/namespace/name`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from magnetar.client.admin import paths
from magnetar.client.admin.responses import RestResponse, decoded
from magnetar.client.admin.sync.resource import AdminResource
from magnetar.client.documents.autoscale import (
    AutoScaleOverride,
    AutoScaleReport,
    Decision,
    ScaleResult,
    WantedConsumers,
)
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
Decisions = list[Decision]


class ScalableTopics(AdminResource):
    # Topics

    def names(self, namespace: str, *, properties: dict[str, str] | None = None) -> Names:
        """The scalable topics of a namespace, optionally only those with these properties."""
        filters = [f"{key}={value}" for key, value in (properties or {}).items()]
        return self._exchange.read(paths.scalable_topics(namespace), Names, {"property": filters or None})

    def list(self, namespace: str, *, properties: dict[str, str] | None = None) -> Names:
        """The same as `names`: every resource has a `list`."""
        return self.names(namespace, properties=properties)

    def create(self, name: str, *, segments: int = 1, properties: dict[str, str] | None = None) -> None:
        query = {"numInitialSegments": segments}
        self._exchange.send("PUT", paths.scalable(name), properties or {}, query=query)

    def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a topic; with `force`, also while it is in use."""
        self._exchange.send("DELETE", paths.scalable(name), query={"force": force or None})

    def metadata(self, name: str) -> ScalableTopicMetadata:
        """The layout: all segments, active and sealed."""
        return self._exchange.read(paths.scalable(name), ScalableTopicMetadata)

    def stats(self, name: str) -> ScalableTopicStats:
        return self._exchange.read(f"{paths.scalable(name)}/stats", ScalableTopicStats)

    def segment_stats(self, name: str, segment: int) -> TopicStats:
        return self._exchange.read(f"{paths.scalable(name)}/segments/{segment}/stats", TopicStats)

    # Retention

    def retention(self, name: str, *, applied: bool = False) -> Retention | None:
        """The topic's own retention; with `applied` the effective one, which may be the namespace's or the broker's."""
        query = {"applied": True} if applied else None
        answer = self._exchange.call("GET", f"{paths.scalable(name)}/retention", query=query)
        return decoded(answer, Retention) if answer.body.strip() else None

    def set_retention(self, name: str, retention: Retention) -> None:
        self._exchange.send("POST", f"{paths.scalable(name)}/retention", retention)

    def remove_retention(self, name: str) -> None:
        """Remove the topic's retention, so that the namespace's applies."""
        self._exchange.send("DELETE", f"{paths.scalable(name)}/retention")

    # Subscriptions

    def subscriptions(self, name: str) -> dict[str, ScalableSubscriptionStats]:
        path = f"{paths.scalable(name)}/subscriptions"
        return self._exchange.read(path, dict[str, ScalableSubscriptionStats])

    def subscription(self, name: str, subscription: str) -> SubscriptionPlan:
        """The assignments of a stream subscription, as the topic's controller has them."""
        return self._exchange.read(paths.scalable_subscription(name, subscription), SubscriptionPlan)

    def create_subscription(self, name: str, subscription: str, *, type: str = "STREAM", earliest: bool = True) -> None:
        """Create it on all segments; an existing one does not change. `type` is STREAM or QUEUE."""
        query = {"type": type, "position": None if earliest else "latest"}
        self._exchange.send("PUT", paths.scalable_subscription(name, subscription), query=query)

    def delete_subscription(self, name: str, subscription: str) -> None:
        self._exchange.send("DELETE", paths.scalable_subscription(name, subscription))

    def seek(
        self,
        name: str,
        subscription: str,
        to: Literal["earliest", "latest"] | int | Mapping[int, tuple[int, int]],
    ) -> None:
        """Move it on all segments, as one plan: consumers read only after all of it is done. `to` is a publish time in
        milliseconds since 1970, or places: the ledger and entry of the first message to deliver, by segment. Messages
        before those segments are skipped, later segments are read from their start, other segments do not move.
        """
        path = f"{paths.scalable_subscription(name, subscription)}/seek"
        if isinstance(to, int):
            self._exchange.send("POST", path, query={"timestamp": to})
        elif isinstance(to, str):
            self._exchange.send("POST", path, query={"to": to})
        else:
            places = SeekPlaces(places={str(segment): place for segment, place in to.items()})
            self._exchange.send("POST", path, places)

    def skip_all(self, name: str, subscription: str) -> None:
        """Skip every message on all segments, without delivering it."""
        self._exchange.send("POST", f"{paths.scalable_subscription(name, subscription)}/skip-all")

    # Reshapes

    def split(
        self,
        name: str,
        segment: int,
        *,
        at: int | None = None,
        into: int | None = None,
        reason: str | None = None,
        wait: bool = True,
    ) -> Operation | None:
        """Split into two halves, with `at` the first hash of the second child, or into `into` children. Returns when it
        is done; without `wait` when it has begun, and `operation` returns its progress. A server without support for
        operations ignores `wait` and returns when it is done."""
        query: dict[str, object] = {"at": None if at is None else f"{at:04x}", "into": into, **_asked(reason, wait)}
        path = f"{paths.scalable(name)}/split/{segment}"
        return _told(self._exchange.call("POST", path, query=query))

    def merge(
        self, name: str, segments: Sequence[int], *, reason: str | None = None, wait: bool = True
    ) -> Operation | None:
        """Merge neighbours into one segment; `wait` as in `split`. Apache Pulsar merges two at a time."""
        query = _asked(reason, wait)
        path = f"{paths.scalable(name)}/merge"
        if len(segments) == 2:
            path += f"/{segments[0]}/{segments[1]}"
        else:
            query["segments"] = ",".join(str(id) for id in segments)
        return _told(self._exchange.call("POST", path, query=query))

    def rebucket(
        self, name: str, segment: int, buckets: int, *, reason: str | None = None, wait: bool = True
    ) -> Operation | None:
        """Replace a segment by one of the same range with this number of entry buckets, so that as many stream
        consumers can read it together. `wait` as in `split`."""
        query: dict[str, object] = {"bucketCount": buckets, **_asked(reason, wait)}
        path = f"{paths.scalable(name)}/rebucket/{segment}"
        return _told(self._exchange.call("POST", path, query=query))

    def migrate(
        self, name: str, *, force: bool = False, reason: str | None = None, wait: bool = True
    ) -> Operation | None:
        """Turn a plain or partitioned topic into a scalable one, in place and permanently; `wait` as in `split`.
        Refused with 409 while clients without support for scalable topics use it; `force` disconnects them."""
        query = {"force": force or None, **_asked(reason, wait)}
        return _told(self._exchange.call("POST", f"{paths.scalable(name)}/migrate", query=query))

    def migration(self, name: str) -> MigrationPreview:
        """A preview of `migrate`. Changes nothing. Apache Pulsar does not support it."""
        return self._exchange.read(f"{paths.scalable(name)}/migrate", MigrationPreview)

    def operations(self, name: str) -> Operations:
        """The present reshape and past ones, the newest first."""
        return self._exchange.read(f"{paths.scalable(name)}/operations", Operations)

    def operation(self, name: str, op: str) -> Operation:
        return self._exchange.read(f"{paths.scalable(name)}/operations/{paths.part(op)}", Operation)

    # Automatic scaling

    def auto_scale_policy(self, name: str) -> AutoScaleOverride | None:
        """The automatic scaling that the topic itself sets; None: nothing."""
        answer = self._exchange.call("GET", f"{paths.scalable(name)}/autoScalePolicy")
        return decoded(answer, AutoScaleOverride) if answer.body.strip() else None

    def set_auto_scale_policy(self, name: str, policy: AutoScaleOverride) -> None:
        self._exchange.send("POST", f"{paths.scalable(name)}/autoScalePolicy", policy)

    def remove_auto_scale_policy(self, name: str) -> None:
        self._exchange.send("DELETE", f"{paths.scalable(name)}/autoScalePolicy")

    def explain_auto_scale(self, name: str) -> AutoScaleReport:
        """The loads, the policy and the decisions of an evaluation that changes nothing."""
        return self._exchange.read(f"{paths.scalable(name)}/autoScale", AutoScaleReport)

    def auto_scale_history(self, name: str) -> Decisions:
        """The last automatic decisions of the leader, taken and suppressed, newest first."""
        return self._exchange.read(f"{paths.scalable(name)}/autoScale/history", Decisions)

    def pause_auto_scale(self, name: str) -> None:
        self._exchange.send("POST", f"{paths.scalable(name)}/autoScale/pause")

    def resume_auto_scale(self, name: str) -> None:
        self._exchange.send("POST", f"{paths.scalable(name)}/autoScale/resume")

    def scale(self, name: str, segments: int, *, hold_s: float = 0.0) -> ScaleResult:
        """Split until the topic has this number of active segments, and keep at least this number for `hold_s`."""
        query = {"segments": segments, "holdSeconds": int(hold_s) or None}
        answer = self._exchange.call("POST", f"{paths.scalable(name)}/scale", query=query)
        return decoded(answer, ScaleResult)

    def wanted_consumers(self, name: str, subscription: str) -> WantedConsumers:
        """How many consumers of a subscription would have work."""
        return self._exchange.read(
            f"{paths.scalable_subscription(name, subscription)}/wantedConsumers", WantedConsumers
        )

    # Segments: controllers create, seal and delete them; these methods are idempotent

    def create_segment(self, segment_topic: str) -> None:
        self._exchange.send("PUT", paths.segment(segment_topic), [])

    def terminate_segment(self, segment_topic: str) -> None:
        self._exchange.send("POST", f"{paths.segment(segment_topic)}/terminate")

    def delete_segment(self, segment_topic: str, *, force: bool = False) -> None:
        self._exchange.send("DELETE", paths.segment(segment_topic), query={"force": force or None})

    def create_segment_subscription(self, segment_topic: str, subscription: str) -> None:
        self._exchange.send("PUT", paths.segment_subscription(segment_topic, subscription))

    def delete_segment_subscription(self, segment_topic: str, subscription: str) -> None:
        self._exchange.send("DELETE", paths.segment_subscription(segment_topic, subscription))

    def segment_backlog(self, segment_topic: str, subscription: str) -> int:
        """The number of entries that the subscription has not acknowledged in the segment."""
        return self._exchange.read(f"{paths.segment_subscription(segment_topic, subscription)}/backlog", int)


def _asked(reason: str | None, wait: bool) -> dict[str, object]:
    return {"reason": reason, "show": "operation", "wait": None if wait else False}


def _told(answer: RestResponse) -> Operation | None:
    return decoded(answer, Operation) if answer.body.strip() else None

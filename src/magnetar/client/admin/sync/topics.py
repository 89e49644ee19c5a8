"""Topics over REST: list, create, delete, unload, partitions, statistics. Names are whole or short, as in the
client."""

from __future__ import annotations

from collections.abc import Iterator

from magnetar.base.limits import TOPICS_PAGE_MAX
from magnetar.client.admin import paths
from magnetar.client.admin.responses import decoded
from magnetar.client.admin.sync.resource import AdminResource
from magnetar.client.documents.lookup import LookupData
from magnetar.client.documents.policies import Retention
from magnetar.client.documents.stats import InternalStats, PartitionedInternalStats, TopicStats
from magnetar.client.documents.topics import MessageId, PartitionedTopicMetadata, ResetCursor, TopicSummary

Names = list[str]
Summaries = list[TopicSummary]


class Topics(AdminResource):
    # Listing

    def names(self, namespace: str, *, domain: str = "persistent", bundle: str | None = None) -> Names:
        """All topics in one answer, each partition separately."""
        return self._exchange.read(paths.topics(namespace, domain), Names, {"bundle": bundle})

    def list(self, namespace: str, *, domain: str = "persistent", bundle: str | None = None) -> Names:
        """The same as `names`: every resource has a `list`."""
        return self.names(namespace, domain=domain, bundle=bundle)

    def walk(
        self,
        namespace: str,
        *,
        domain: str = "persistent",
        after: str | None = None,
        page: int = TOPICS_PAGE_MAX,
    ) -> Iterator[str]:
        """The same page by page, so that neither side stores all. A server without paging sends all in one answer."""
        path, last_page = paths.topics(namespace, domain), [""]
        while True:
            names = self._exchange.read(path, Names, {"limit": page, "after": after})
            if names[:1] == last_page[:1]:
                return  # the server ignores `after` and starts from the first topic
            yield from names
            if len(names) != page:
                return
            last_page, after = names, names[-1]

    def summaries(self, namespace: str, *, after: str | None = None, limit: int | None = None) -> Summaries:
        """Topics with their number of messages and bytes, one page: persistent ones, then scalable ones. Magnetar
        only."""
        path = f"{paths.namespace(namespace)}/topicSummaries"
        return self._exchange.read(path, Summaries, query={"after": after, "limit": limit})

    def partitioned_names(self, namespace: str, *, domain: str = "persistent") -> Names:
        return self._exchange.read(f"{paths.topics(namespace, domain)}/partitioned", Names)

    def names_in_bundle(self, namespace: str, bundle: str) -> Names:
        """The loaded non-persistent topics of one bundle."""
        path = f"{paths.topics(namespace, 'non-persistent')}/{paths.part(bundle)}"
        return self._exchange.read(path, Names)

    # Lifecycle

    def create(self, name: str, *, partitions: int | None = None, properties: dict[str, str] | None = None) -> None:
        """Create a topic; with `partitions`, a partitioned one."""
        path = paths.topic(name)
        if partitions is None:
            self._exchange.send("PUT", path, properties or {})
        elif properties is None:
            self._exchange.send("PUT", f"{path}/partitions", partitions)
        else:
            self._exchange.send("PUT", f"{path}/partitions", PartitionedTopicMetadata(partitions, None, properties))

    def delete(self, name: str, *, partitioned: bool = False, force: bool = False) -> None:
        """With `force`, also while it is in use. `partitioned` is required for a partitioned topic: it deletes all
        partitions."""
        tail = "/partitions" if partitioned else ""
        self._exchange.send("DELETE", f"{paths.topic(name)}{tail}", query={"force": force or None})

    def unload(self, name: str) -> None:
        """Unload it from its broker; clients look it up again."""
        self._exchange.send("PUT", f"{paths.topic(name)}/unload")

    def terminate(self, name: str) -> MessageId:
        """Accept no more messages, permanently. Returns the id of the last one."""
        return self._exchange.ask("POST", f"{paths.topic(name)}/terminate", MessageId)

    def terminate_partitions(self, name: str) -> dict[str, MessageId]:
        return self._exchange.ask("POST", f"{paths.topic(name)}/terminate/partitions", dict[str, MessageId])

    def trim(self, name: str) -> None:
        """Delete messages that no subscription and no retention needs."""
        self._exchange.send("POST", f"{paths.topic(name)}/trim")

    def lookup(self, name: str) -> LookupData:
        """The broker that serves the topic."""
        return self._exchange.read(paths.lookup(name), LookupData)

    def bundle(self, name: str) -> str:
        """The bundle of the topic."""
        return self._exchange.text(f"{paths.lookup(name)}/bundle")

    # Partitions

    def partitions(self, name: str, *, create: bool = False) -> PartitionedTopicMetadata:
        """0 for a topic that is not partitioned. `create` looks it up as a client does, which may create the topic."""
        query = {"checkAllowAutoCreation": create or None}
        return self._exchange.read(f"{paths.topic(name)}/partitions", PartitionedTopicMetadata, query)

    def grow(self, name: str, partitions: int) -> None:
        """Increase the number of partitions; keys then move between partitions."""
        self._exchange.send("POST", f"{paths.topic(name)}/partitions", partitions)

    def create_missing_partitions(self, name: str) -> None:
        """Complete an interrupted creation."""
        self._exchange.send("POST", f"{paths.topic(name)}/createMissedPartitions")

    # Statistics

    def stats(self, name: str) -> TopicStats:
        return self._exchange.read(f"{paths.topic(name)}/stats", TopicStats)

    def partitioned_stats(self, name: str, *, per_partition: bool = True) -> TopicStats:
        query = {"perPartition": per_partition}
        return self._exchange.read(f"{paths.topic(name)}/partitioned-stats", TopicStats, query)

    def internal_stats(self, name: str) -> InternalStats:
        return self._exchange.read(f"{paths.topic(name)}/internalStats", InternalStats)

    def partitioned_internal_stats(self, name: str) -> PartitionedInternalStats:
        return self._exchange.read(f"{paths.topic(name)}/partitioned-internalStats", PartitionedInternalStats)

    def last_message_id(self, name: str) -> MessageId:
        return self._exchange.read(f"{paths.topic(name)}/lastMessageId", MessageId)

    def backlog_bytes(self, name: str, behind: MessageId) -> int:
        """The number of bytes stored after a message."""
        body = ResetCursor(behind.ledgerId, behind.entryId, behind.partitionIndex, behind.batchIndex)
        return self._exchange.ask("PUT", f"{paths.topic(name)}/backlogSize", int, body)

    # Retention

    def retention(self, persistent_topic: str, *, applied: bool = False) -> Retention | None:
        """The topic's own retention; with `applied` the effective one, which may be the namespace's or the broker's."""
        query = {"applied": True} if applied else None
        answer = self._exchange.call("GET", f"{paths.topic(persistent_topic)}/retention", query=query)
        return decoded(answer, Retention) if answer.body.strip() else None

    def set_retention(self, persistent_topic: str, retention: Retention) -> None:
        self._exchange.send("POST", f"{paths.topic(persistent_topic)}/retention", retention)

    def remove_retention(self, persistent_topic: str) -> None:
        """Remove the topic's retention, so that the namespace's applies."""
        self._exchange.send("DELETE", f"{paths.topic(persistent_topic)}/retention")

    # Properties

    def properties(self, name: str) -> dict[str, str]:
        return self._exchange.read(f"{paths.topic(name)}/properties", dict[str, str])

    def add_properties(self, name: str, properties: dict[str, str]) -> None:
        self._exchange.send("PUT", f"{paths.topic(name)}/properties", properties)

    def remove_property(self, name: str, key: str) -> None:
        self._exchange.send("DELETE", f"{paths.topic(name)}/properties", query={"key": key})

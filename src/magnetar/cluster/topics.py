"""The catalogue of topics: which ones exist, in which order they are listed, and how they are created.

A persistent topic exists while it has a record, which its ledgers fill. A partitioned topic is a record with a number
and one record for each partition. A listing goes bucket by bucket (PIP-157), within a bucket by encoded name. It reads
pages of names and no records: memory is bounded by a few pages for any size of the namespace. `after` is the last name
of the previous page, and its bucket is computed from it. So any client can continue from there, and each topic that
exists throughout is listed exactly once.

Non-persistent topics have no record; `loaded` asks the broker whether one is in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping

import msgspec

from magnetar.base.errors import (
    AlreadyExists,
    BadVersion,
    Conflict,
    InvalidName,
    LimitExceeded,
    Misuse,
    NotFound,
    QuotaExceeded,
    TopicNotFound,
)
from magnetar.base.limits import CREATIONS_AT_ONCE_MAX
from magnetar.base.names import STAGE_PREFIX, Domain, NamespaceName, TopicName, check_new_topic, decode, topic_name
from magnetar.cluster.bucket_names import bucket_names
from magnetar.cluster.creation import CreateTopic, RefuseTopic, decide
from magnetar.cluster.namespaces import Namespaces
from magnetar.cluster.partitions import PartitionedTopic, Partitions
from magnetar.ledger.properties import check_given
from magnetar.metadata import paths
from magnetar.metadata.store import ABSENT, Change, Event, MetadataStore, Session, Stat
from magnetar.policy.policies import Policies
from magnetar.policy.settings import Settings

Heard = Callable[[bool, str], None]  # (came, the topic's name); False: went
Charge = Callable[[], None]  # called before a topic is made because a client uses it. Throttled: not now


def free() -> None:
    """No limit."""


class Catalogue:
    """`store` holds the topics' records (local), `configuration` the partition counts; one store by default."""

    def __init__(
        self,
        store: MetadataStore,
        namespaces: Namespaces,
        settings: Settings,
        *,
        configuration: MetadataStore | None = None,
        loaded: Callable[[TopicName], bool] = lambda name: False,
    ) -> None:
        self._store = store
        self._namespaces = namespaces
        self._settings = settings
        self._loaded = loaded
        self._partitioned = Partitions(store if configuration is None else configuration)

    # Single topics

    async def exists(self, name: TopicName) -> bool:
        """Whether a plain topic or partition exists; use `partitioned` for a partitioned topic itself."""
        if name.domain is Domain.NON_PERSISTENT:
            return self._loaded(name)
        if name.domain is Domain.TOPIC:
            return await self._store.exists(paths.scalable(name))
        policies = await self._namespaces.policies(name.namespace)
        return policies is not None and await self._store.exists(paths.topic(name, policies.buckets))

    async def create(
        self, name: TopicName, properties: Mapping[str, str] | None = None, *, own: Mapping[str, str] | None = None
    ) -> None:
        """Creates a plain topic at the request of a client, with Pulsar's error texts. `own`: properties of the broker.
        Refused: a given property is reserved for the broker."""
        check_given(properties or {})
        await self._policies(name.namespace)
        check_new_topic(name)
        if name.is_partition:
            await self._check_partition(name)
        if await self._partitioned.get(name) is not None or await self.exists(name):
            raise AlreadyExists("This topic already exists", topic=str(name))
        await self._make([name], {**(properties or {}), **(own or {})})

    async def admit(self, name: TopicName, *, create: bool, charge: Charge = free) -> None:
        """Ensures that the topic of a client exists. TopicNotFound: it does not exist and may not be created. The
        function `charge` is called before the topic is created, and may refuse."""
        if await self.exists(name):
            return
        if not create:
            if await self._namespaces.policies(name.namespace) is None:
                raise TopicNotFound(f"Namespace {name.namespace} does not exist: create it, or check the topic's name")
            raise TopicNotFound(f"Topic {name} does not exist")
        verdict = await self._decide(name)
        if isinstance(verdict, RefuseTopic):
            raise verdict.error
        charge()
        if name.domain is Domain.PERSISTENT:
            await self._make([name], None, fresh=False)

    # Partitioned topics

    async def partitions(self, name: TopicName, *, create: bool, charge: Charge = free) -> int:
        """The number of partitions for a client, 0 for none (SC-A4). `create`: create a partitioned topic if automatic
        creation applies, after one `charge`: the operator chose the number of its partitions. TopicNotFound: it does
        not exist, and a producer could not create it either."""
        if name.is_partition:
            return 0
        topic = await self._partitioned.get(name)
        if topic is not None:
            return topic.partitions
        if await self.exists(name):
            return 0
        if not create:
            raise TopicNotFound(f"Topic {name} not found")
        verdict = await self._decide(name)
        if isinstance(verdict, RefuseTopic):
            raise verdict.error
        if verdict.partitions == 0:
            return 0
        charge()
        try:
            await self.create_partitioned(name, verdict.partitions)
        except AlreadyExists:
            pass  # another client was faster
        again = await self._partitioned.get(name)
        return 0 if again is None else again.partitions

    async def partitioned(self, name: TopicName) -> PartitionedTopic | None:
        return None if name.is_partition else await self._partitioned.get(name)

    async def create_partitioned(
        self, name: TopicName, partitions: int, properties: Mapping[str, str] | None = None
    ) -> None:
        check_given(properties or {})
        await self._policies(name.namespace)
        if name.is_partition:
            raise Misuse("Partitioned Topic Name should not contain '-partition-'")
        check_new_topic(name)
        self._check_count(partitions)
        if await self._partitioned.get(name) is not None or await self.exists(name):
            raise AlreadyExists("This topic already exists", topic=str(name))
        await self._check_room(name.namespace, partitions)
        topic = PartitionedTopic(partitions, properties=dict(properties) if properties else None)
        await self._partitioned.create(name, topic)
        await self.create_missing_partitions(name)

    async def grow(self, name: TopicName, partitions: int) -> None:
        """Increases the number of partitions; the current number is accepted and changes nothing."""
        self._check_count(partitions)
        topic = await self.partitioned(name)
        if topic is None:
            raise Conflict(f"Topic {name} is not the partitioned topic.")
        await self._check_room(name.namespace, partitions - topic.partitions)
        await self._partitioned.grow(name, partitions)
        await self.create_missing_partitions(name)

    async def create_missing_partitions(self, name: TopicName) -> None:
        """Creates the missing partition records, which completes an interrupted creation."""
        topic = await self.partitioned(name)
        if topic is None:
            raise NotFound(f"Topic {name} does not exist")
        if name.domain is Domain.PERSISTENT:
            await self._make((name.partition(index) for index in range(topic.partitions)), None, fresh=False)

    async def forget_partitioned(self, name: TopicName) -> None:
        """Deletes the record only; the caller deletes the partitions first."""
        topic = await self.partitioned(name)
        if topic is None:
            if await self.exists(name):
                raise Conflict(
                    f"{name} is a non-partitioned topic. "
                    "Instead of calling delete-partitioned-topic please call delete."
                )
            raise TopicNotFound(f"Topic {name} not found.")
        await self._partitioned.delete(name)

    async def update_properties(self, name: TopicName, properties: Mapping[str, str]) -> None:
        """Adds properties to a partitioned topic."""
        check_given(properties)
        await self._partitioned.update_properties(name, properties)

    async def partitioned_topics(self, namespace: NamespaceName, domain: Domain = Domain.PERSISTENT) -> list[str]:
        await self._policies(namespace, words="Namespace does not exist")
        return await self._partitioned.names(namespace, domain)

    # Listing

    async def topics(
        self,
        namespace: NamespaceName,
        domain: Domain = Domain.PERSISTENT,
        *,
        after: str | None = None,
        limit: int | None = None,
        stages: bool = False,
    ) -> AsyncIterator[str]:
        """Full names, by bucket, then by encoded name. NotFound: the namespace does not exist. `stages`: include the
        topics of sinks, which are visible to brokers only."""
        policies = await self._policies(namespace, words="Namespace does not exist")
        start, last, left = 0, None, limit
        if after is not None:
            name = _in(namespace, domain, after)
            start, last = paths.bucket(name, policies.buckets), name.encoded_local_name
        if limit == 0:
            return
        parents = paths.bucket_parents(namespace, domain, policies.buckets)[start:]
        async for _, names in bucket_names(self._store, parents, after=last, limit=limit):
            for child in names:
                if not stages and child.startswith(STAGE_PREFIX):
                    continue
                yield f"{domain}://{namespace}/{decode(child)}"
                left = None if left is None else left - 1
                if left == 0:
                    return

    async def count(self, namespace: NamespaceName, *, stop_at: int | None = None) -> int:
        """The number of persistent topics, each partition counted. The count ends at `stop_at`."""
        policies = await self._policies(namespace, words="Namespace does not exist")
        total = 0
        parents = paths.bucket_parents(namespace, Domain.PERSISTENT, policies.buckets)
        async for _, names in bucket_names(self._store, parents):
            total += len(names)
            if stop_at is not None and total >= stop_at:
                break
        return total

    def watch(
        self, namespace: NamespaceName, heard: Heard, missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Added and removed persistent topics. `missed`: events may be lost, list again and compare."""

        def changed(event: Event) -> None:
            if event.change is Change.RESYNC and missed is not None:
                missed()
            if event.change in (Change.CREATED, Change.DELETED) and (name := _topic_at(event.path)) is not None:
                heard(event.change is Change.CREATED, name)

        def session(state: Session) -> None:
            if state in (Session.RECONNECTED, Session.REESTABLISHED) and missed is not None:
                missed()

        stops = [
            self._store.subscribe(paths.domain_parent(namespace, Domain.PERSISTENT), changed),
            self._store.on_session(session),
        ]

        def unsubscribe() -> None:
            for stop in stops:
                stop()

        return unsubscribe

    def forget(self) -> None:
        """Drops cached records of topics, absence included; the next caller reads them again."""
        self._partitioned.forget()

    def close(self) -> None:
        self._partitioned.close()

    # Inside

    async def _policies(self, namespace: NamespaceName, *, words: str = "Namespace not found") -> Policies:
        policies = await self._namespaces.policies(namespace)
        if policies is None:
            raise TopicNotFound(words, namespace=str(namespace))
        return policies

    async def _decide(self, name: TopicName) -> CreateTopic | RefuseTopic:
        policies = await self._namespaces.policies(name.namespace)
        base = await self._partitioned.get(name.partitioned) if name.is_partition else None
        return decide(name, self._settings, policies, base_partitions=0 if base is None else base.partitions)

    async def _make(
        self, names: Iterable[TopicName], properties: Mapping[str, str] | None, *, fresh: bool = True
    ) -> None:
        """Writes the records, many at a time so that they share a sync. Without `fresh`, existing records are not
        changed."""
        value = b"" if not properties else msgspec.json.encode({"v": 1, "properties": dict(properties)})
        waiting = iter(names)
        while batch := [name for _, name in zip(range(CREATIONS_AT_ONCE_MAX), waiting, strict=False)]:
            namespace = batch[0].namespace
            await self._check_room(namespace, len(batch) if fresh else await self._missing(batch))
            policies = await self._policies(namespace)
            results = await asyncio.gather(
                *(self._store.put(paths.topic(name, policies.buckets), value, expected=ABSENT) for name in batch),
                return_exceptions=True,
            )
            if await self._namespaces.policies(namespace) is None:
                await self._take_back(batch, results)
            _check_made(batch, results, fresh)

    async def _take_back(self, batch: list[TopicName], results: list[Stat | BaseException]) -> None:
        """Removes records written while the namespace was being deleted: a deletion that did not see them must not
        leave them."""
        for result in results:
            if isinstance(result, Stat):
                try:
                    await self._store.delete(result.path, expected=result.version)
                except (NotFound, BadVersion):
                    pass  # the deletion saw it after all
        raise TopicNotFound("Namespace not found", namespace=str(batch[0].namespace))

    async def _missing(self, names: list[TopicName]) -> int:
        if not self._limit(await self._policies(names[0].namespace)):
            return 0
        return sum([not await self.exists(name) for name in names])

    def _limit(self, policies: Policies) -> int:
        return self._settings.number("maxTopicsPerNamespace", policies)

    async def _check_room(self, namespace: NamespaceName, more: int) -> None:
        limit = self._limit(await self._policies(namespace))
        if limit and more > 0 and await self.count(namespace, stop_at=limit) + more > limit:
            raise QuotaExceeded(
                "Exceed maximum number of topics in namespace.",
                wire_code=22,
                namespace=str(namespace),
                topics_max=limit,
            )

    def _check_count(self, partitions: int) -> None:
        if partitions <= 0:
            raise Misuse("Number of partitions should be more than 0", http_status=406)
        limit = self._settings.number("maxNumPartitionsPerPartitionedTopic")
        if limit and partitions > limit:
            raise LimitExceeded(f"Number of partitions should be less than or equal to {limit}", http_status=406)

    async def _check_partition(self, name: TopicName) -> None:
        base = await self._partitioned.get(name.partitioned)
        local, base_local = name.local_name, name.partitioned.local_name
        if base is None:
            raise Misuse(
                f"Can't create topic {local} with \"-partition-\" followed by numeric value if there isn't a "
                f"partitioned topic {base_local} created."
            )
        if name.partition_index >= base.partitions:
            raise Misuse(
                f'Can\'t create topic {local} with "-partition-" followed by a number smaller than number of '
                f"partition of partitioned topic {base_local}"
            )


def _check_made(batch: list[TopicName], results: list[Stat | BaseException], fresh: bool) -> None:
    for name, result in zip(batch, results, strict=True):
        if isinstance(result, BadVersion) and not fresh:
            continue
        if isinstance(result, BadVersion):
            raise AlreadyExists("This topic already exists", topic=str(name))
        if isinstance(result, BaseException):
            raise result


def _in(namespace: NamespaceName, domain: Domain, text: str) -> TopicName:
    name = topic_name(text)
    if name.namespace != namespace or name.domain is not domain:
        raise Misuse("`after` must be the last topic of the previous page, in the same namespace", after=text)
    return name


def _topic_at(path: str) -> str | None:
    """The name of a topic record; None: a cursor, a parent, or a stage of a sink."""
    try:
        name = paths.topic_of(path)
    except InvalidName:
        return None
    return None if name.is_stage else str(name)

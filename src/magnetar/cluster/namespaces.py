"""Namespaces: create, read, change, delete. A namespace exists while its policies exist and are not marked as deleted.

A deletion marks the policies first, so that no topic is created during it. It then checks that the namespace is empty
(or empties it), and removes the remaining records and finally the policies. After an interruption at any point, a
second deletion completes the first. The number of topic buckets is fixed at creation (PIP-157): a different number is
refused, because topics would be searched in the wrong bucket.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec

from magnetar.base.errors import AlreadyExists, BadVersion, Conflict, Misuse, NotAuthorized, NotFound, QuotaExceeded
from magnetar.base.limits import TOPIC_BUCKETS_MAX
from magnetar.base.names import Domain, NamespaceName, TopicName, check_new, check_size, namespace_name
from magnetar.cluster import bundles
from magnetar.cluster.bucket_names import bucket_names
from magnetar.cluster.tenants import Tenants
from magnetar.metadata import paths
from magnetar.metadata.cache import Cache
from magnetar.metadata.store import Change, Event, MetadataStore
from magnetar.policy.policies import Policies
from magnetar.policy.settings import Settings

Remove = Callable[[TopicName], Awaitable[None]]


class Namespaces:
    """`store` holds the policies (configuration), `local` the topics' records; one store by default."""

    def __init__(
        self, store: MetadataStore, tenants: Tenants, settings: Settings, *, local: MetadataStore | None = None
    ) -> None:
        self._store = store
        self._local = store if local is None else local
        self._tenants = tenants
        self._settings = settings
        self._cache: Cache[Policies] = Cache(
            store, paths.POLICIES, decode=Policies.decode, encode=lambda policies: policies.encode()
        )

    async def exists(self, namespace: NamespaceName) -> bool:
        return await self.policies(namespace) is not None

    async def policies(self, namespace: NamespaceName) -> Policies | None:
        """The policies, from the cache if possible. None: the namespace does not exist or is being deleted."""
        policies = await self._cache.get(paths.policies(namespace))
        return None if policies is None or policies.deleted else policies

    async def get(self, namespace: NamespaceName) -> Policies:
        policies = await self.policies(namespace)
        if policies is None:
            raise NotFound("Namespace does not exist", namespace=str(namespace))
        return policies

    async def names(self, tenant: str) -> list[str]:
        """`tenant/namespace` of each, sorted."""
        if await self._tenants.find(tenant) is None:
            raise NotFound("Tenant not found", tenant=tenant)
        return [f"{tenant}/{name}" for name in await self._store.children(paths.tenant(tenant))]

    async def create(self, namespace: NamespaceName, policies: Policies | None = None) -> Policies:
        check_new(str(namespace))
        check_size(str(namespace), "namespace")
        tenant = await self._tenants.get(namespace.tenant)
        requested = policies or Policies()
        clusters = requested.replication_clusters or [self._settings.text("clusterName")]
        for cluster in clusters:
            if cluster not in (tenant.allowedClusters or []):
                raise NotAuthorized(
                    f"Cluster [{cluster}] is not in the list of allowed clusters list for tenant [{namespace.tenant}]"
                )
        _check_buckets(requested.buckets)
        default = self._settings.number("defaultNumberOfNamespaceBundles")
        created = msgspec.structs.replace(
            requested, replication_clusters=clusters, bundles=bundles.wanted(requested.bundles, default), deleted=False
        )
        await self._check_count(namespace)
        try:
            await self._cache.create(paths.policies(namespace), created)
        except BadVersion:
            if not await self.exists(namespace):
                raise Conflict("Namespace is being deleted: delete it again to finish the deletion") from None
            raise AlreadyExists("Namespace already exists", namespace=str(namespace)) from None
        return created

    async def update(self, namespace: NamespaceName, change: Callable[[Policies], Policies]) -> Policies:
        """`change` may run more than once. Refused: another number of topic buckets."""

        def changed(before: Policies | None) -> Policies:
            if before is None or before.deleted:
                raise NotFound("Namespace does not exist", namespace=str(namespace))
            after = change(before)
            if after.buckets != before.buckets:
                raise Conflict(
                    f"numberOfTopicBuckets of {namespace} is {before.buckets}, set at creation, and cannot be "
                    "changed: create another namespace with the number you need",
                    http_status=412,
                )
            return after

        return await self._cache.update(paths.policies(namespace), changed)

    async def delete(self, namespace: NamespaceName, *, force: bool = False, remove: Remove | None = None) -> None:
        """Conflict: it has topics and `force` is not set. `remove` deletes one topic with all it holds, for `force`."""
        policies = await self._cache.get(paths.policies(namespace))
        if policies is None:
            raise NotFound(f"Namespace {namespace} does not exist.")
        if force:
            self.check_force()
            await self._mark(namespace, deleted=False)  # one that stopped half way: its topics must open to go
            if remove is not None:
                async for name in self._topics(namespace, policies):
                    await remove(name)
        elif not await self._is_empty(namespace, policies):
            raise Conflict("Cannot delete non empty namespace", namespace=str(namespace))
        await self._mark(namespace, deleted=True)
        if not await self._is_empty(namespace, policies, partitioned=not force):
            await self._mark(namespace, deleted=False)  # made while we looked: it is not ours to lose
            raise Conflict("Cannot delete non empty namespace", namespace=str(namespace))
        for path in (
            paths.namespace_partitioned(namespace),
            paths.namespace_schemas(namespace),
            paths.namespace_topic_policies(namespace),
            paths.local_policies(namespace),
        ):
            await self._store.delete_tree(path)
        await self._local.delete_tree(paths.namespace_ledgers(namespace))
        await self._cache.delete(paths.policies(namespace))

    def check_force(self) -> None:
        if not self._settings.flag("forceDeleteNamespaceAllowed"):
            raise Misuse("Broker doesn't allow forced deletion of namespaces", http_status=405)

    def on_change(self, heard: Callable[[NamespaceName], None]) -> Callable[[], None]:
        """Calls `heard` with a namespace whose policies were created, changed or removed. A RESYNC is not passed on: a
        caller that must not miss a change reads all namespaces then."""

        def changed(event: Event) -> None:
            parts = event.path.removeprefix(paths.POLICIES + "/").split("/")
            if event.change in (Change.CREATED, Change.MODIFIED, Change.DELETED) and len(parts) == 2:
                heard(namespace_name("/".join(parts)))

        return self._store.subscribe(paths.POLICIES, changed)

    def close(self) -> None:
        self._cache.close()

    async def _check_count(self, namespace: NamespaceName) -> None:
        limit = self._settings.number("maxNamespacesPerTenant")
        if limit and len(await self._store.children(paths.tenant(namespace.tenant))) >= limit:
            raise QuotaExceeded(f"Exceed the maximum number of namespace in tenant :{namespace.tenant}")

    async def _mark(self, namespace: NamespaceName, *, deleted: bool) -> None:
        def marked(before: Policies | None) -> Policies:
            if before is None:
                raise NotFound(f"Namespace {namespace} does not exist.")
            return msgspec.structs.replace(before, deleted=deleted)

        await self._cache.update(paths.policies(namespace), marked)

    async def _is_empty(self, namespace: NamespaceName, policies: Policies, *, partitioned: bool = True) -> bool:
        """Whether no bucket has a topic; the search ends at the first one."""
        async for _ in self._topics(namespace, policies):
            return False
        if not partitioned:
            return True
        for domain in (Domain.PERSISTENT, Domain.NON_PERSISTENT):
            if (await self._store.names(paths.partitioned_parent(namespace, domain), limit=1)).names:
                return False
        return True

    async def _topics(self, namespace: NamespaceName, policies: Policies) -> AsyncIterator[TopicName]:
        for domain in (Domain.PERSISTENT, Domain.NON_PERSISTENT):
            parents = paths.bucket_parents(namespace, domain, policies.buckets)
            async for parent, names in bucket_names(self._local, parents):
                for name in names:
                    yield paths.topic_of(f"{parent}/{name}")


def _check_buckets(buckets: int) -> None:
    if not 1 <= buckets <= TOPIC_BUCKETS_MAX:
        raise Misuse(f"numberOfTopicBuckets must be from 1 to {TOPIC_BUCKETS_MAX}", http_status=412, found=buckets)

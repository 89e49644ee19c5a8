"""The bundle of a topic within its namespace.

Boundaries come from the local policies of the namespace if they exist (a split writes them), otherwise from the
policies at its creation. `base/bundles.py` defines a bundle and its split.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from magnetar.base.bundles import Bundle, Bundles, boundary_text, equal_bundles
from magnetar.base.errors import Corrupt, InvalidRange, Misuse, NotFound
from magnetar.base.limits import BUNDLES_KEPT_MAX, BUNDLES_MAX
from magnetar.base.names import NamespaceName, TopicName
from magnetar.metadata import paths
from magnetar.metadata.cache import Cache
from magnetar.metadata.store import MetadataStore
from magnetar.policy.policies import Bundles as BundlesDocument
from magnetar.policy.policies import Policies

LocalPolicies = dict[str, Any]


class NamespaceBundles:
    def __init__(self, store: MetadataStore) -> None:
        self._cache: Cache[LocalPolicies] = Cache(
            store, paths.LOCAL_POLICIES, decode=_decode, encode=msgspec.json.encode
        )

    async def get(self, namespace: NamespaceName, policies: Policies | None) -> Bundles:
        """NotFound: the namespace does not exist."""
        local = await self._cache.get(paths.local_policies(namespace))
        document = None if local is None else local.get("bundles")
        if document is not None:
            try:
                return bundles_of(msgspec.convert(document, BundlesDocument))
            except msgspec.ValidationError as error:
                words = f"the bundles in the local policies of {namespace} cannot be read: {error}"
                raise Corrupt(words, path=paths.local_policies(namespace)) from error
        if policies is None or policies.bundles is None:
            raise NotFound("Namespace does not exist", namespace=str(namespace))
        return bundles_of(policies.bundles)

    async def find(self, name: TopicName, policies: Policies | None) -> Bundle:
        return (await self.get(name.namespace, policies)).find(str(name))

    async def put(self, namespace: NamespaceName, bundles: Bundles) -> None:
        """Stores new boundaries after a split."""

        def cut(before: LocalPolicies | None) -> LocalPolicies:
            shown = msgspec.to_builtins(document_of(bundles))
            empty = {"bookieAffinityGroup": None, "namespaceAntiAffinityGroup": None, "migrated": False}
            return {**empty, **(before or {}), "bundles": shown}

        await self._cache.update(paths.local_policies(namespace), cut)

    def close(self) -> None:
        self._cache.close()


def bundles_of(document: BundlesDocument) -> Bundles:
    """The boundaries in their stored or given form. Misuse: they are invalid, with Pulsar's text."""
    return _bundles(tuple(document.boundaries))


@lru_cache(BUNDLES_KEPT_MAX)
def _bundles(boundaries: tuple[str, ...]) -> Bundles:
    """Cached, because every lookup uses it and few namespaces differ."""
    try:
        edges = sorted({int(text, 16) for text in boundaries})
    except ValueError:
        raise Misuse("Invalid boundaries in bundles", http_status=400) from None
    if not edges or edges[0] != 0 or edges[-1] != 0xFFFFFFFF:
        first, last = (boundary_text(edges[0]), boundary_text(edges[-1])) if edges else ("", "")
        words = f"Input bundles do not cover the whole hash range. first:{first}, last:{last}"
        raise Misuse(words, http_status=400)
    return Bundles(tuple(edges))


def wanted(document: BundlesDocument | None, default: int) -> BundlesDocument:
    """The bundles of a new namespace: its boundaries, otherwise its number of bundles, otherwise `default`."""
    if document is not None and document.boundaries:
        return document_of(bundles_of(document))
    count = document.numBundles if document is not None and document.numBundles > 0 else default
    if count > BUNDLES_MAX:
        raise Misuse(
            f"Invalid number of bundles. Number of bundles has to be in the range of (0, {BUNDLES_MAX}].",
            http_status=400,
        )
    try:
        return document_of(equal_bundles(count))
    except InvalidRange as error:
        raise Misuse(error.what, http_status=400) from error


def document_of(bundles: Bundles) -> BundlesDocument:
    return BundlesDocument([boundary_text(edge) for edge in bundles.boundaries], len(bundles))


def _decode(data: bytes) -> LocalPolicies:
    return msgspec.json.decode(data, type=dict[str, Any])

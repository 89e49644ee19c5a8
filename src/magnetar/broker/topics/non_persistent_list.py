"""The list of the non-persistent topics of a namespace, from all live brokers.

A non-persistent topic has no record: only the broker that has it loaded knows it. So every live broker is called. If
one of them does not answer, the list is not complete, and the error names that broker.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import MagnetarError
from magnetar.base.limits import CALLS_AT_ONCE_MAX
from magnetar.cluster.calls.broker_calls import at_broker

if TYPE_CHECKING:
    from magnetar.base.names import NamespaceName
    from magnetar.broker.topics.ownership import BundleOwnership
    from magnetar.broker.topics.topics import Topics
    from magnetar.cluster.calls.topic_calls import Peers
    from magnetar.cluster.ownership import Broker, Ownership


class ListNode(Protocol):
    """What `non_persistent_names` uses of the node."""

    topics: Topics
    served: BundleOwnership
    peers: Peers

    @property
    def ownership(self) -> Ownership: ...


async def non_persistent_names(node: ListNode, namespace: NamespaceName) -> list[str]:
    """The names, sorted. A single broker calls no other."""
    names = node.topics.non_persistent(namespace)
    if not node.served.cluster:
        return names
    others = [broker for broker in await node.ownership.brokers() if broker.id != node.ownership.me.id]
    for start in range(0, len(others), CALLS_AT_ONCE_MAX):
        batch = others[start : start + CALLS_AT_ONCE_MAX]
        for listed in await asyncio.gather(*(_loaded_at(node, broker, namespace) for broker in batch)):
            names += listed
    return sorted(set(names))


async def _loaded_at(node: ListNode, broker: Broker, namespace: NamespaceName) -> tuple[str, ...]:
    try:
        return await node.peers.loaded(broker, str(namespace))
    except MagnetarError as error:
        raise at_broker(error, broker.id) from error

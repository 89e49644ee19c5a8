"""Finds the broker that answers calls about a topic.

The leader of a scalable topic answers for it, and the owner of its bundle for any other topic. Nothing is cached here:
every call asks again, because ownership may have moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import NotReady
from magnetar.base.names import Domain, TopicName
from magnetar.cluster.ownership import Broker, Candidate, Ownership

if TYPE_CHECKING:
    from magnetar.broker.topics.ownership import BundleOwnership
    from magnetar.scalable.service import ScalableTopics


class DestinationNode(Protocol):
    """What `destination` uses of the node."""

    scalable: ScalableTopics
    served: BundleOwnership

    @property
    def ownership(self) -> Ownership: ...


async def destination(node: DestinationNode, name: TopicName) -> Broker:
    """The broker for calls about a topic: the leader of a scalable one, the owner of any other. NotReady: the topic
    has no leader."""
    if name.domain is Domain.TOPIC:
        leader = await node.scalable.leader(name)
        if leader is None:
            raise NotReady(f"{name} has no leader: try again")
        return leader
    owner = await node.ownership.owner(*await node.served.place(name))
    return owner.broker if isinstance(owner, Candidate) else owner

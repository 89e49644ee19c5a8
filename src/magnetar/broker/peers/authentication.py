"""Authentication of calls between brokers: they require the secret of the cluster, and their terms must be plausible.

All brokers of a cluster share one secret (`brokerClientAuthenticationParameters`). A call without it is refused, and a
single broker accepts no calls. An authenticated caller may still be wrong: terms are checked against the record of the
topic, because a topic that has accepted a term refuses all lower ones from then on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from magnetar.base.errors import Misuse, NotAuthenticated, NotFound, Refused
from magnetar.base.limits import CLUSTER_SECRET_CHARS_MIN
from magnetar.base.names import Domain, TopicName
from magnetar.base.secret import Secret
from magnetar.cluster.calls.topic_calls import Request
from magnetar.policy.settings import Settings

if TYPE_CHECKING:
    from magnetar.broker.topics.ownership import BundleOwnership
    from magnetar.runtime.runtime import Runtime
    from magnetar.scalable.service import ScalableTopics


class PeerAuthNode(Protocol):
    """What the checks use of the node."""

    runtime: Runtime
    settings: Settings
    scalable: ScalableTopics
    served: BundleOwnership


def secret_of(settings: Settings) -> Secret:
    """The secret of the cluster; empty if none is set."""
    return Secret(settings.text("brokerClientAuthenticationParameters").removeprefix("token:"))


def check_secret(settings: Settings) -> None:
    """Raises Misuse if brokers of a cluster have no valid secret."""
    if len(secret_of(settings).reveal()) < CLUSTER_SECRET_CHARS_MIN:
        raise Misuse(
            f"a broker of a cluster requires the secret that all its brokers share: set "
            f"brokerClientAuthenticationParameters=token:SECRET, of {CLUSTER_SECRET_CHARS_MIN} characters or more"
        )


def is_peer(node: PeerAuthNode, authorization: Secret) -> bool:
    """Whether a broker of the same cluster sent this request; `authorization` is its header."""
    scheme, _, credentials = authorization.reveal().partition(" ")
    if not node.served.cluster or scheme.lower() != "bearer":
        return False
    return secret_of(node.settings).matches(credentials.strip())


def check_peer(node: PeerAuthNode, authorization: Secret, path: str) -> None:
    """NotFound: a single broker does not have this path. NotAuthenticated: the caller is not a broker of the
    cluster."""
    if not node.served.cluster:
        raise NotFound(f"path not found: {path}")
    if not is_peer(node, authorization):
        raise NotAuthenticated("only brokers of this cluster may call this path, with the secret of the cluster")


async def check_term(node: PeerAuthNode, name: TopicName, request: Request) -> None:
    """Raises Refused for a term that no leader of this topic can have. A stored invalid term would block all real
    leaders."""
    term = getattr(request, "term", None)
    if term is None:
        return
    bound = 0
    if name.domain is not Domain.NON_PERSISTENT:
        record, _ = await node.scalable.records.fresh(name.parent if name.is_segment else name.scalable)
        bound = 0 if record is None else record.term + 1
    if not 0 <= term <= bound:
        node.runtime.mark("term.nonsense", topic=str(name), term=term, bound=bound)
        raise Refused(f"term {term} is invalid: the record of the topic allows at most {bound}", topic=str(name))

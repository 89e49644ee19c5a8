"""Paths of resources below a REST server. Every part is escaped completely, so that a slash in a name stays in it."""

from __future__ import annotations

from urllib.parse import quote

from magnetar.base.errors import InvalidName
from magnetar.base.names import Domain, TopicName, namespace_name, topic_name

ROOT = "/admin/v2"


def part(text: str) -> str:
    if text in ("", ".", ".."):
        raise InvalidName("a name in a path must not be empty or dots alone", name=text)
    return quote(text, safe="")


def tenant(name: str) -> str:
    return f"{ROOT}/tenants/{part(name)}"


def cluster(name: str) -> str:
    return f"{ROOT}/clusters/{part(name)}"


def namespace(name: str) -> str:
    return f"{ROOT}/namespaces/{_namespace(name)}"


def topics(name: str, domain: str) -> str:
    """The topics of a namespace; `domain` is persistent or non-persistent."""
    if domain not in (Domain.PERSISTENT, Domain.NON_PERSISTENT):
        raise InvalidName("domain must be persistent or non-persistent", domain=domain)
    return f"{ROOT}/{domain}/{_namespace(name)}"


def topic(name: str) -> str:
    return f"{ROOT}/{_topic(topic_name(name))}"


def subscription(topic_text: str, name: str) -> str:
    return f"{topic(topic_text)}/subscription/{part(name)}"


def scalable_topics(name: str) -> str:
    """The scalable topics of a namespace."""
    return f"{ROOT}/scalable/{_namespace(name)}"


def scalable(name: str) -> str:
    """A scalable topic; a short name, or a name of another domain, means the scalable topic of that name."""
    topic = topic_name(name)
    if topic.is_segment or topic.is_partition or topic.domain is Domain.NON_PERSISTENT:
        raise InvalidName("expected the name of a scalable topic: topic://tenant/namespace/name", name=name)
    return f"{scalable_topics(str(topic.namespace))}/{part(topic.local_name)}"


def scalable_subscription(topic_text: str, name: str) -> str:
    return f"{scalable(topic_text)}/subscriptions/{part(name)}"


def segment(name: str) -> str:
    """`segment://tenant/namespace/topic/hhhh-hhhh-id`."""
    topic = topic_name(name)
    if topic.segment is None:
        raise InvalidName("expected the name of a segment: segment://tenant/namespace/topic/hhhh-hhhh-id", name=name)
    return f"{ROOT}/segments/{_namespace(str(topic.namespace))}/{part(topic.local_name)}/{topic.segment}"


def segment_subscription(topic_text: str, name: str) -> str:
    return f"{segment(topic_text)}/subscription/{part(name)}"


def sinks(name: str) -> str:
    """The sinks that write to topics of a namespace."""
    return f"{ROOT}/sinks/{_namespace(name)}"


def sink(topic_text: str, name: str) -> str:
    topic = topic_name(topic_text)
    where = f"{_namespace(str(topic.namespace))}/{part(topic.local_name)}"
    return f"{ROOT}/sinks/{topic.domain}/{where}/{part(name)}"


def schema(name: str) -> str:
    topic = topic_name(name)
    return f"{ROOT}/schemas/{_namespace(str(topic.namespace))}/{part(topic.local_name)}"


def lookup(name: str) -> str:
    return f"/lookup/v2/topic/{_topic(topic_name(name))}"


def _topic(name: TopicName) -> str:
    return f"{name.domain}/{_namespace(str(name.namespace))}/{part(name.local_name)}"


def _namespace(text: str) -> str:
    name = namespace_name(text)
    return f"{part(name.tenant)}/{part(name.local_name)}"

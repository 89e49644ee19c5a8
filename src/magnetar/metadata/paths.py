"""The only module that builds metadata paths. The layout is Pulsar's and includes the buckets of PIP-157.

Names are encoded like Java's URLEncoder does, so a part never contains a slash or a `$`: bucket nodes (`$0`, `$1`, ...)
cannot be mistaken for topics. These functions do not check whether a record exists.
"""

from __future__ import annotations

from itertools import pairwise

from magnetar.base.errors import InvalidName, InvalidRange, Misuse
from magnetar.base.hashes import topic_bucket
from magnetar.base.names import Domain, NamespaceName, TopicName, decode, encode, topic_name

MANAGED_LEDGERS = "/managed-ledgers"
CLUSTERS = "/admin/clusters"
POLICIES = "/admin/policies"
LOCAL_POLICIES = "/admin/local-policies"
TOPIC_POLICIES = "/admin/topic-policies"
PARTITIONED_TOPICS = "/admin/partitioned-topics"
CONFIGURATION = "/admin/configuration"
SCHEMAS = "/schemas"
LEDGERS = "/ledgers"
PRODUCER_NAMES = "/counters/producer-name"
SCALABLE_TOPICS = "/topics"
SINKS = "/sinks"
SINK_LEADERS = "/sink-leaders"
OWNERSHIP = "/namespace"
BROKERS = "/loadbalance/brokers"
BOOKIE_RACKS = "/bookies"
LEADER = "/loadbalance/leader"
LEDGER_SHORT_MAX = 2**31 - 1  # ledgers from this id on have the long form of their path

_BUCKET = "$"
_DEPTHS: dict[str, int] = {
    Domain.PERSISTENT: 4,
    Domain.NON_PERSISTENT: 4,
    Domain.SEGMENT: 5,
}  # parts, without the bucket


# Topics and their cursors


def topic(name: TopicName, buckets: int) -> str:
    """The record of a topic's ledgers. `buckets` is the namespace's policy; 1 is the flat layout. Segments share the
    bucket of their topic's name."""
    parent = bucket_parent(name.namespace, name.domain, bucket(name, buckets), buckets)
    if name.segment is None:
        return f"{parent}/{name.encoded_local_name}"
    return f"{parent}/{name.encoded_local_name}/{name.segment}"


def bucket(name: TopicName, buckets: int) -> int:
    """The bucket of a topic's record, out of `buckets` (PIP-157)."""
    if buckets < 1:
        raise InvalidRange("the number of topic buckets must be 1 or more", buckets=buckets)
    return 0 if buckets == 1 else topic_bucket(name.local_name, buckets)


def cursor(topic_path: str, name: str) -> str:
    return f"{topic_path}/{_subscription_part(name)}"


def domain_parent(namespace: NamespaceName, domain: Domain) -> str:
    """The common parent of all records of one domain of a namespace."""
    if domain is Domain.TOPIC:
        raise Misuse("a scalable topic has no ledgers: use the path of one of its segments", namespace=str(namespace))
    return f"{MANAGED_LEDGERS}/{namespace}/{domain}"


def bucket_parent(namespace: NamespaceName, domain: Domain, number: int, buckets: int) -> str:
    """The parent of the topics in one bucket."""
    parent = domain_parent(namespace, domain)
    return parent if buckets == 1 else f"{parent}/{_BUCKET}{number}"


def bucket_parents(namespace: NamespaceName, domain: Domain, buckets: int) -> list[str]:
    """The parents of all topics of a namespace, in the order of listing."""
    return [bucket_parent(namespace, domain, number, buckets) for number in range(buckets)]


def is_bucket(part: str) -> bool:
    """Whether a child of `domain_parent` is a bucket. Encoded topic names contain no `$`."""
    return part.startswith(_BUCKET)


def namespace_ledgers(namespace: NamespaceName) -> str:
    """The common parent of every domain, which the deletion of a namespace removes."""
    return f"{MANAGED_LEDGERS}/{namespace}"


def topic_of(path: str) -> TopicName:
    """The inverse of `topic`, for any number of buckets. InvalidName: the path is not that of a topic."""
    parts = path.removeprefix(MANAGED_LEDGERS + "/").split("/")
    if len(parts) > 3 and parts[3].startswith(_BUCKET):
        del parts[3]
    if len(parts) < 4 or len(parts) != _DEPTHS.get(parts[2]):
        raise InvalidName("not the path of a topic", path=path)
    segment = f"/{parts[4]}" if len(parts) == 5 else ""
    return topic_name(f"{parts[2]}://{parts[0]}/{parts[1]}/{decode(parts[3])}{segment}")


def cursor_name(part: str) -> str:
    """The name of the cursor with this last part of the path."""
    return decode(part)


# Tenants, namespaces, clusters


def cluster(name: str) -> str:
    return f"{CLUSTERS}/{name}"


def tenant(name: str) -> str:
    return f"{POLICIES}/{name}"


def policies(namespace: NamespaceName) -> str:
    return f"{POLICIES}/{namespace}"


def local_policies(namespace: NamespaceName) -> str:
    return f"{LOCAL_POLICIES}/{namespace}"


def topic_policies(name: TopicName) -> str:
    """The policies of one topic: a plain or partitioned one by its base name, a scalable one for all its segments."""
    if name.is_partition or name.is_segment:
        raise Misuse("a partition or segment has no policies: use the name of the whole topic", topic=str(name))
    return f"{namespace_topic_policies(name.namespace)}/{name.domain}/{name.encoded_local_name}"


def namespace_topic_policies(namespace: NamespaceName) -> str:
    return f"{TOPIC_POLICIES}/{namespace}"


def partitioned_parent(namespace: NamespaceName, domain: Domain) -> str:
    return f"{PARTITIONED_TOPICS}/{namespace}/{domain}"


def partitioned(name: TopicName) -> str:
    """The partition count of a partitioned topic, by its base name."""
    if name.is_partition:
        raise Misuse("a partition has no partition count: use the name of the partitioned topic", topic=str(name))
    return f"{partitioned_parent(name.namespace, name.domain)}/{name.encoded_local_name}"


def namespace_partitioned(namespace: NamespaceName) -> str:
    return f"{PARTITIONED_TOPICS}/{namespace}"


# The rest


def schema(schema_id: str) -> str:
    """`schema_id` is tenant/namespace/encoded name, as `TopicName.schema_name` gives it."""
    return f"{SCHEMAS}/{schema_id}"


def schema_body(schema_id: str, digest: str) -> str:
    """One body, named after its content: a second write of the same body has no effect."""
    return f"{schema(schema_id)}/{digest}"


def namespace_schemas(namespace: NamespaceName) -> str:
    return f"{SCHEMAS}/{namespace}"


def ledger(ledger_id: int, root: str = LEDGERS, *, long: bool = False) -> str:
    """BookKeeper's hierarchical layout: 2-4-4 digits below 2^31 - 1, 3-4-4-4-4 from there on, or always if `long`."""
    if ledger_id < 0:
        raise InvalidRange("the ledger id must not be negative", ledger=ledger_id)
    is_short = ledger_id < LEDGER_SHORT_MAX and not long
    digits, cuts = (f"{ledger_id:010d}", (2, 6)) if is_short else (f"{ledger_id:019d}", (3, 7, 11, 15))
    edges = [0, *cuts, len(digits)]
    parts = [digits[low:high] for low, high in pairwise(edges)]
    return "/".join([root, *parts[:-1], "L" + parts[-1]])


def ledger_layout(root: str = LEDGERS) -> str:
    """The record of BookKeeper that names the layout of the ledgers below `root`."""
    return f"{root}/LAYOUT"


def ledger_instance(root: str = LEDGERS) -> str:
    """The identifier of a cluster of bookies: bookies of another cluster refuse to start."""
    return f"{root}/INSTANCEID"


def ledger_ids(root: str = LEDGERS) -> str:
    """The parent of the sequence that numbers ledgers below 2^31 - 1."""
    return f"{root}/idgen"


def ledger_ids_long(root: str = LEDGERS) -> str:
    """The parent of the sequences behind them, one for each value of the high 32 bits."""
    return f"{root}/idgen-long"


def bookies(root: str = LEDGERS) -> str:
    """The parent of the registrations of writable bookies."""
    return f"{root}/available"


def bookies_readonly(root: str = LEDGERS) -> str:
    return f"{bookies(root)}/readonly"


def scalable(name: TopicName) -> str:
    """The record of a scalable topic."""
    if name.domain is not Domain.TOPIC:
        raise Misuse("not a scalable topic", topic=str(name))
    return f"{SCALABLE_TOPICS}/{name.ledger_name}"


def scalable_parent(namespace: NamespaceName) -> str:
    """The common parent of the records of a namespace's scalable topics."""
    return f"{SCALABLE_TOPICS}/{namespace}"


def scalable_of(path: str) -> TopicName | None:
    """The scalable topic whose record has this path; None: the path is above or below a record."""
    parts = path.removeprefix(SCALABLE_TOPICS + "/").split("/")
    return topic_name(f"{Domain.TOPIC}://{parts[0]}/{parts[1]}/{decode(parts[2])}") if len(parts) == 3 else None


def controller(name: TopicName) -> str:
    """The leader of a scalable topic: an ephemeral record."""
    return f"{scalable(name)}/controller"


def scalable_subscriptions(name: TopicName) -> str:
    return f"{scalable(name)}/subscriptions"


def scalable_subscription(name: TopicName, subscription: str) -> str:
    return f"{scalable_subscriptions(name)}/{_subscription_part(subscription)}"


def ownership(namespace: NamespaceName, bundle: str) -> str:
    return f"{OWNERSHIP}/{namespace}/{bundle}"


def broker(broker_id: str) -> str:
    return f"{BROKERS}/{broker_id}"


def sink(digest: str) -> str:
    """The record of a sink of staged publishing, by the digest of its topic and name."""
    return f"{SINKS}/{digest}"


def sink_leader(digest: str) -> str:
    """The leader that publishes the stages of a sink: an ephemeral record."""
    return f"{SINK_LEADERS}/{digest}"


def _subscription_part(name: str) -> str:
    if not name:
        raise InvalidName("the subscription name must not be empty")
    if name in (".", ".."):
        raise InvalidName("the subscription name must not be `.` or `..`: choose another one", name=name)
    return encode(name)

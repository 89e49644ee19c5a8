"""`magnetar namespace set`: changes the policies that the broker enforces for an existing namespace.

Each option is one policy of `client/admin/policy.py`. An unset policy follows the configuration of the brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, Any, Literal

from cyclopts import Parameter, validators

from magnetar.base.errors import MagnetarError, Misuse
from magnetar.base.names import namespace_name
from magnetar.cli.options import CHANGE, COMMON, Change, Common, Properties, properties
from magnetar.cli.output.formats import TableData
from magnetar.cli.output.values import Cell
from magnetar.cli.session import CommandSession
from magnetar.client.admin import policy
from magnetar.client.admin.policy import Removable, Settable
from magnetar.client.documents.policies import (
    AutoSubscriptionCreation,
    AutoTopicCreation,
    DelayedDelivery,
    Retention,
)

Number = Annotated[int, Parameter(validator=validators.Number(gte=0))]
Limit = Annotated[int, Parameter(validator=validators.Number(gte=-1))]
Unset = Literal[
    "retention",
    "message-ttl",
    "deduplication",
    "delayed-delivery",
    "auto-topic-creation",
    "auto-subscription-creation",
    "max-producers-per-topic",
    "max-consumers-per-topic",
    "max-consumers-per-subscription",
    "max-unacked-per-consumer",
    "max-unacked-per-subscription",
    "max-subscriptions-per-topic",
    "max-topics",
    "failover-by-hashing",
]
REMOVABLE: dict[Unset, Removable[Any]] = {
    "retention": policy.RETENTION,
    "message-ttl": policy.MESSAGE_TTL_S,
    "deduplication": policy.DEDUPLICATION,
    "delayed-delivery": policy.DELAYED_DELIVERY,
    "auto-topic-creation": policy.AUTO_TOPIC_CREATION,
    "auto-subscription-creation": policy.AUTO_SUBSCRIPTION_CREATION,
    "max-producers-per-topic": policy.PRODUCERS_PER_TOPIC_MAX,
    "max-consumers-per-topic": policy.CONSUMERS_PER_TOPIC_MAX,
    "max-consumers-per-subscription": policy.CONSUMERS_PER_SUBSCRIPTION_MAX,
    "max-unacked-per-consumer": policy.UNACKED_MESSAGES_PER_CONSUMER_MAX,
    "max-unacked-per-subscription": policy.UNACKED_MESSAGES_PER_SUBSCRIPTION_MAX,
    "max-subscriptions-per-topic": policy.SUBSCRIPTIONS_PER_TOPIC_MAX,
    "max-topics": policy.TOPICS_PER_NAMESPACE_MAX,
    "failover-by-hashing": policy.FAILOVER_BY_CONSISTENT_HASHING,
}


def set_(
    namespace: str,
    /,
    *,
    retention_minutes: Limit | None = None,
    retention_mb: Limit | None = None,
    message_ttl: Number | None = None,
    deduplication: bool | None = None,
    deduplication_snapshot_interval: Number | None = None,
    delayed_delivery: bool | None = None,
    auto_topic_creation: bool | None = None,
    auto_subscription_creation: bool | None = None,
    max_producers_per_topic: Number | None = None,
    max_consumers_per_topic: Number | None = None,
    max_consumers_per_subscription: Number | None = None,
    max_unacked_per_consumer: Number | None = None,
    max_unacked_per_subscription: Number | None = None,
    max_subscriptions_per_topic: Number | None = None,
    max_topics: Number | None = None,
    failover_by_hashing: bool | None = None,
    property: Properties = None,
    unset: Annotated[list[Unset] | None, Parameter(negative="")] = None,
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Change policies of a namespace. Its topics follow them immediately. Policies that are not named stay unchanged.

    Parameters
    ----------
    namespace
        Namespace, as tenant/namespace.
    retention_minutes
        Minutes to keep messages after all subscriptions have acknowledged them; -1 means without limit. 0 together with
        --retention-mb 0 keeps none.
    retention_mb
        Maximum megabytes of such messages to keep; -1 means without limit.
    message_ttl
        Seconds after which a message counts as acknowledged; 0 means never.
    deduplication
        Store messages that are sent twice only once.
    deduplication_snapshot_interval
        Seconds between snapshots of the deduplication state.
    delayed_delivery
        Allow delayed delivery of messages.
    auto_topic_creation
        Create topics on first use.
    auto_subscription_creation
        Create subscriptions on first use.
    max_producers_per_topic
        Maximum number of producers of a topic; 0 means without limit, as for every maximum below.
    max_consumers_per_topic
        Maximum number of consumers of all subscriptions of a topic.
    max_consumers_per_subscription
        Maximum number of consumers of a subscription.
    max_unacked_per_consumer
        Maximum number of unacknowledged messages of a consumer.
    max_unacked_per_subscription
        Maximum number of unacknowledged messages of all consumers of a subscription.
    max_subscriptions_per_topic
        Maximum number of subscriptions of a topic.
    max_topics
        Maximum number of topics of the namespace.
    failover_by_hashing
        Choose the active consumer of a failover subscription by consistent hashing (PIP-392).
    unset
        Policy to reset to the configuration of the brokers (repeatable).

    Examples
    --------
    $ magnetar namespace set public/shop --retention-minutes 1440 --retention-mb 1024
    $ magnetar namespace set public/shop --deduplication --max-producers-per-topic 10 --dry-run
    $ magnetar namespace set public/shop --unset retention
    """
    name = str(namespace_name(namespace))
    policies: dict[Settable[Any], Any] = {
        policy.MESSAGE_TTL_S: message_ttl,
        policy.DEDUPLICATION: deduplication,
        policy.DEDUPLICATION_SNAPSHOT_INTERVAL_S: deduplication_snapshot_interval,
        policy.PRODUCERS_PER_TOPIC_MAX: max_producers_per_topic,
        policy.CONSUMERS_PER_TOPIC_MAX: max_consumers_per_topic,
        policy.CONSUMERS_PER_SUBSCRIPTION_MAX: max_consumers_per_subscription,
        policy.UNACKED_MESSAGES_PER_CONSUMER_MAX: max_unacked_per_consumer,
        policy.UNACKED_MESSAGES_PER_SUBSCRIPTION_MAX: max_unacked_per_subscription,
        policy.SUBSCRIPTIONS_PER_TOPIC_MAX: max_subscriptions_per_topic,
        policy.TOPICS_PER_NAMESPACE_MAX: max_topics,
        policy.FAILOVER_BY_CONSISTENT_HASHING: failover_by_hashing,
        policy.DELAYED_DELIVERY: None if delayed_delivery is None else DelayedDelivery(active=delayed_delivery),
        policy.AUTO_TOPIC_CREATION: None if auto_topic_creation is None else AutoTopicCreation(auto_topic_creation),
        policy.AUTO_SUBSCRIPTION_CREATION: None
        if auto_subscription_creation is None
        else AutoSubscriptionCreation(auto_subscription_creation),
    }
    values: dict[Settable[Any], Any] = {one: value for one, value in policies.items() if value is not None}
    removed, own = unset or [], properties(property)
    retention = (retention_minutes, retention_mb)
    twice = [one for one in removed if REMOVABLE[one] in values or (one == "retention" and retention != (None, None))]
    if twice:
        raise Misuse("a policy must be either set or unset", policy=", ".join(twice))
    if not (values or removed or own or retention != (None, None)):
        raise Misuse("no policy given: pass an option such as --retention-minutes", namespace=name)
    with common.session(change) as session:
        session.about(namespace=name)
        before = session.admin.namespaces.policies(name)
        if retention != (None, None):
            values[policy.RETENTION] = retention_of(before.retention_policies, *retention)
        session.describe(_planned(session, name, values, [REMOVABLE[one] for one in removed], own))
        _apply(session, name, values, [REMOVABLE[one] for one in removed], own)


def retention_of(before: Retention | None, minutes: int | None, megabytes: int | None) -> Retention:
    """None keeps the previous value, or is without limit if there was none. Both zero: nothing is retained."""
    if 0 in (minutes, megabytes) and None in (minutes, megabytes):
        minutes = megabytes = 0
    kept = before if before is not None and (before.retentionTimeInMinutes or before.retentionSizeInMB) else None
    return Retention(
        minutes if minutes is not None else -1 if kept is None else kept.retentionTimeInMinutes,
        megabytes if megabytes is not None else -1 if kept is None else kept.retentionSizeInMB,
    )


def retained(ask: Callable[..., Retention | None], topic: str) -> str | None:
    """The effective retention of a topic. None: this server does not report it."""
    if topic.startswith("non-persistent"):
        return None
    try:
        return words_of(ask(topic, applied=True))
    except MagnetarError:
        return None


def words_of(retention: Retention | None) -> str:
    """The retention as text for people."""
    minutes, megabytes = (
        (0, 0) if retention is None else (retention.retentionTimeInMinutes, retention.retentionSizeInMB)
    )
    if not minutes and not megabytes:
        return "nothing is retained"
    time = "any age" if minutes < 0 else f"{minutes:,} min"
    return f"{time}, {'any size' if megabytes < 0 else f'{megabytes:,} MB'}"


def _planned(
    session: CommandSession,
    name: str,
    values: dict[Settable[Any], Any],
    removed: list[Removable[Any]],
    own: dict[str, str],
) -> TableData:
    rows: list[tuple[Cell, ...]] = []
    if session.is_dry:
        admin = session.admin.namespaces
        rows += [(one.name, _text(admin.policy(name, one)), _text(value)) for one, value in values.items()]
        rows += [(one.name, _text(admin.policy(name, one)), "broker configuration") for one in removed]
        rows += [(f"property {key}", None, value) for key, value in own.items()]
    return TableData(("POLICY", "NOW", "THEN"), rows, title=f"Would change in {name}:")


def _apply(
    session: CommandSession,
    name: str,
    values: dict[Settable[Any], Any],
    removed: list[Removable[Any]],
    own: dict[str, str],
) -> None:
    admin = session.admin.namespaces
    for setting, value in values.items():
        words = f"set {setting.name} of {name} to {_text(value)}"
        session.do(words, partial(admin.set_policy, name, setting, value))
    for gone in removed:
        session.do(f"unset {gone.name} of {name}", partial(admin.remove_policy, name, gone))
    if own:
        session.do(f"set properties of {name}", lambda: admin.add_properties(name, own))


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | str):
        return str(value)
    return ", ".join(_words(value))


def _words(value: Any) -> Iterator[str]:
    for field in value.__struct_fields__:
        number = getattr(value, field)
        if number is not None:
            yield f"{field} {_text(number)}"

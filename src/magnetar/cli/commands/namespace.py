"""`magnetar namespace`: list, create, delete, show, and the topics in one. Names are tenant/namespace."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter, validators

from magnetar.base.errors import AlreadyExists, NotFound
from magnetar.base.names import namespace_name
from magnetar.cli.commands.namespace_policies import set_
from magnetar.cli.options import (
    CHANGE,
    COMMON,
    DESTRUCTION,
    Change,
    Common,
    Destruction,
    IfExists,
    IfNotExists,
    Properties,
    flag,
    properties,
)
from magnetar.cli.output.dry_run import deleted_namespace
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.values import Cell, Duration, pairs
from magnetar.cli.scalable import topics as scalable_topics
from magnetar.client.documents.policies import Bundles, Policies, Retention

Number = Annotated[int, Parameter(validator=validators.Number(gte=0))]


def list_(tenant: str = "public", /, *, common: Common = COMMON) -> None:
    """List the namespaces of a tenant.

    Parameters
    ----------
    tenant
        Tenant name.

    Examples
    --------
    $ magnetar namespace list
    $ magnetar namespace list public -o json
    """
    with common.session() as session:
        session.about(tenant=tenant)
        names = session.admin.namespaces.names(tenant)
        session.show(session.document, TableData(("NAMESPACE",), [(name,) for name in names]))


def create(
    namespace: str,
    /,
    *,
    bundles: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None,
    topic_buckets: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None,
    retention_minutes: int | None = None,
    retention_mb: int | None = None,
    message_ttl: Number | None = None,
    deduplication: bool | None = None,
    property: Properties = None,
    if_not_exists: IfNotExists = False,
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Create a namespace. Policies that are not set here follow the configuration of the brokers.

    Parameters
    ----------
    namespace
        Namespace, as tenant/namespace.
    bundles
        Number of bundles, the parts in which its topics are distributed over brokers.
    topic_buckets
        Number of buckets for the records of its topics (PIP-157). Use more for very many topics. It cannot be changed
        later.
    retention_minutes
        Minutes to keep messages after all subscriptions have acknowledged them; -1 means without limit.
    retention_mb
        Maximum megabytes of such messages to keep; -1 means without limit.
    message_ttl
        Seconds after which a message counts as acknowledged.
    deduplication
        Store messages that are sent twice only once.

    Examples
    --------
    $ magnetar namespace create public/shop
    $ magnetar namespace create public/archive --retention-minutes 1440 --retention-mb -1
    """
    name = str(namespace_name(namespace))
    retention = None
    if retention_minutes is not None or retention_mb is not None:
        minutes = -1 if retention_minutes is None else retention_minutes
        retention = Retention(minutes, -1 if retention_mb is None else retention_mb)
    policies = Policies(
        bundles=None if bundles is None else Bundles(numBundles=bundles),
        numberOfTopicBuckets=topic_buckets,
        retention_policies=retention,
        message_ttl_in_seconds=message_ttl,
        deduplicationEnabled=deduplication,
        properties=properties(property),
    )
    with common.session(change, unless=AlreadyExists if if_not_exists else None) as session:
        session.about(namespace=name)
        session.do(f"create {name}", lambda: session.admin.namespaces.create(name, policies))


def delete(
    namespace: str,
    /,
    *,
    force: Annotated[bool, flag("Delete it with all its topics, if the brokers allow this.")] = False,
    if_exists: IfExists = False,
    change: Destruction = DESTRUCTION,
    common: Common = COMMON,
) -> None:
    """Delete a namespace.

    Parameters
    ----------
    namespace
        Namespace, as tenant/namespace.

    Examples
    --------
    $ magnetar namespace delete public/shop --yes
    """
    name = str(namespace_name(namespace))
    with common.session(change, unless=NotFound if if_exists else None) as session:
        session.about(namespace=name)
        session.admin.namespaces.policies(name)  # reports a missing namespace in a dry run too
        if session.is_dry:
            listed = [*session.admin.topics.names(name), *scalable_topics.names(session, name, None)]
            session.describe(*deleted_namespace(name, sorted(listed), force=force))
        session.confirm(name, f"permanently deletes {name}{' and all its topics' if force else ''}")
        session.do(f"delete {name}", lambda: session.admin.namespaces.delete(name, force=force))


def show(namespace: str, /, *, common: Common = COMMON) -> None:
    """Show the policies of a namespace. Unset policies follow the configuration of the brokers.

    Parameters
    ----------
    namespace
        Namespace, as tenant/namespace.

    Examples
    --------
    $ magnetar namespace show public/default
    """
    name = str(namespace_name(namespace))
    with common.session() as session:
        session.about(namespace=name)
        policies = session.admin.namespaces.policies(name)
        document: dict[str, Any] = msgspec.json.decode(session.document)
        raw, retention = session.document, policies.retention_policies
        ttl_s = policies.message_ttl_in_seconds
        facts: dict[str, Cell] = {
            "namespace": name,
            "bundles": None if policies.bundles is None else policies.bundles.numBundles,
            "clusters": ", ".join(policies.replication_clusters) or None,
            "retention": None if retention is None else _retention(retention),
            "message TTL": Duration(ttl_s) if ttl_s else None,
            "deduplication": policies.deduplicationEnabled,
            "topic buckets": policies.numberOfTopicBuckets,
            "properties": pairs(policies.properties),
        }
        shown = {"bundles", "replication_clusters", "retention_policies", "message_ttl_in_seconds"}
        shown |= {"deduplicationEnabled", "numberOfTopicBuckets", "properties", "auth_policies"}
        others: list[tuple[Cell, ...]] = [
            (key, value if isinstance(value, str | int) else msgspec.json.encode(value).decode())
            for key, value in document.items()
            if key not in shown and value not in ({}, [], None, "", "UNDEFINED", "None", -1, False)
        ]
        session.show(raw, KeyValues(facts), *([TableData(("OTHER POLICY", "VALUE"), others)] if others else []))


def topics(
    namespace: str,
    /,
    *,
    mode: Literal["persistent", "non-persistent", "all"] = "all",
    common: Common = COMMON,
) -> None:
    """List every topic of a namespace, each partition separately.

    Parameters
    ----------
    namespace
        Namespace, as tenant/namespace.
    mode
        Kind of topics to list. Non-persistent topics are listed while they are in use.

    Examples
    --------
    $ magnetar namespace topics public/default
    """
    name = str(namespace_name(namespace))
    selected: Any = mode.upper().replace("-", "_")
    with common.session() as session:
        session.about(namespace=name)
        names = session.admin.namespaces.topics(name, selected)
        session.show(session.document, TableData(("TOPIC",), [(one,) for one in names]))


VERBS = {"list": list_, "create": create, "delete": delete, "show": show, "set": set_, "topics": topics}


def _retention(retention: Retention) -> str:
    minutes, megabytes = retention.retentionTimeInMinutes, retention.retentionSizeInMB
    time = "any age" if minutes < 0 else f"{minutes:,} min"
    size = "any size" if megabytes < 0 else f"{megabytes:,} MB"
    return f"{time}, {size}"

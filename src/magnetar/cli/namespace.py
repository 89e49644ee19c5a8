"""`magnetar namespace`: list, create, delete, show, and the topics in one. Names are tenant/namespace."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter, validators

from magnetar.base.errors import AlreadyExists, NotFound
from magnetar.base.names import namespace_name
from magnetar.cli.cells import Cell, Duration, pairs
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
from magnetar.cli.output import Facts, Sheet
from magnetar.client.documents.policies import Bundles, Policies, Retention

Number = Annotated[int, Parameter(validator=validators.Number(gte=0))]


def list_(tenant: str = "public", /, *, common: Common = COMMON) -> None:
    """The namespaces of a tenant.

    Parameters
    ----------
    tenant
        Its name.

    Examples
    --------
    $ magnetar namespace list
    $ magnetar namespace list public -o json
    """
    with common.session() as session:
        session.about(tenant=tenant)
        names = session.admin.namespaces.names(tenant)
        session.show(session.document, Sheet(("NAMESPACE",), [(name,) for name in names]))


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
    """Create a namespace. What is not said here is as the brokers are configured.

    Parameters
    ----------
    namespace
        As tenant/namespace.
    bundles
        Into how many parts its topics are spread over brokers.
    topic_buckets
        How many buckets hold the records of its topics (PIP-157): more for very many topics; fixed for good.
    retention_minutes
        How long messages stay after everybody acknowledged them; -1 for ever.
    retention_mb
        How many megabytes of such messages stay at most; -1 without limit.
    message_ttl
        Seconds after which a message counts as acknowledged.
    deduplication
        Whether messages sent twice are stored once.

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
    force: Annotated[bool, flag("With all its topics, where the brokers allow that.")] = False,
    if_exists: IfExists = False,
    change: Destruction = DESTRUCTION,
    common: Common = COMMON,
) -> None:
    """Delete a namespace.

    Parameters
    ----------
    namespace
        As tenant/namespace.

    Examples
    --------
    $ magnetar namespace delete public/shop --yes
    """
    name = str(namespace_name(namespace))
    with common.session(change, unless=NotFound if if_exists else None) as session:
        session.about(namespace=name)
        session.admin.namespaces.policies(name)  # what is not there cannot be deleted, also in a dry run
        session.confirm(name, f"deletes {name}{' and all its topics' if force else ''} for good")
        session.do(f"delete {name}", lambda: session.admin.namespaces.delete(name, force=force))


def show(namespace: str, /, *, common: Common = COMMON) -> None:
    """The policies of a namespace; what is not set is as the brokers are configured.

    Parameters
    ----------
    namespace
        As tenant/namespace.

    Examples
    --------
    $ magnetar namespace show public/default
    """
    name = str(namespace_name(namespace))
    with common.session() as session:
        session.about(namespace=name)
        found = session.admin.namespaces.policies(name)
        document: dict[str, Any] = msgspec.json.decode(session.document)
        raw, retention = session.document, found.retention_policies
        ttl_s = found.message_ttl_in_seconds
        facts: dict[str, Cell] = {
            "namespace": name,
            "bundles": None if found.bundles is None else found.bundles.numBundles,
            "clusters": ", ".join(found.replication_clusters) or None,
            "retention": None if retention is None else _retention(retention),
            "message TTL": Duration(ttl_s) if ttl_s else None,
            "deduplication": found.deduplicationEnabled,
            "topic buckets": found.numberOfTopicBuckets,
            "properties": pairs(found.properties),
        }
        shown = {"bundles", "replication_clusters", "retention_policies", "message_ttl_in_seconds"}
        shown |= {"deduplicationEnabled", "numberOfTopicBuckets", "properties", "auth_policies"}
        others: list[tuple[Cell, ...]] = [
            (key, value if isinstance(value, str | int) else msgspec.json.encode(value).decode())
            for key, value in document.items()
            if key not in shown and value not in ({}, [], None, "", "UNDEFINED", "None", -1, False)
        ]
        session.show(raw, Facts(facts), *([Sheet(("OTHER POLICY", "VALUE"), others)] if others else []))


def topics(
    namespace: str,
    /,
    *,
    mode: Literal["persistent", "non-persistent", "all"] = "all",
    common: Common = COMMON,
) -> None:
    """Every topic of a namespace, partition by partition.

    Parameters
    ----------
    namespace
        As tenant/namespace.
    mode
        Which ones; non-persistent topics are those in use now.

    Examples
    --------
    $ magnetar namespace topics public/default
    """
    name = str(namespace_name(namespace))
    wanted: Any = mode.upper().replace("-", "_")
    with common.session() as session:
        session.about(namespace=name)
        names = session.admin.namespaces.topics(name, wanted)
        session.show(session.document, Sheet(("TOPIC",), [(one,) for one in names]))


VERBS = {"list": list_, "create": create, "delete": delete, "show": show, "topics": topics}


def _retention(retention: Retention) -> str:
    minutes, megabytes = retention.retentionTimeInMinutes, retention.retentionSizeInMB
    time = "for ever" if minutes < 0 else f"{minutes:,} min"
    size = "any size" if megabytes < 0 else f"{megabytes:,} MB"
    return f"{time}, {size}"

"""`magnetar topic set`: the retention and the properties of one topic, which override those of its namespace."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from cyclopts import Parameter, validators

from magnetar.base.errors import Misuse
from magnetar.base.names import topic_name
from magnetar.cli.commands.namespace_policies import retention_of, words_of
from magnetar.cli.options import CHANGE, COMMON, Change, Common, Properties, properties
from magnetar.cli.output.formats import KeyValues
from magnetar.cli.output.values import Cell

Limit = Annotated[int, Parameter(validator=validators.Number(gte=-1))]


def set_(
    topic: str,
    /,
    *,
    retention_minutes: Limit | None = None,
    retention_mb: Limit | None = None,
    property: Properties = None,
    unset: Literal["retention"] | None = None,
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Change the properties of a topic, or its retention, which overrides the retention of the namespace.

    Parameters
    ----------
    topic
        Topic name. The change applies to all partitions of a partitioned topic.
    retention_minutes
        Minutes to keep messages after all subscriptions have acknowledged them; -1 means without limit, 0 keeps none.
    retention_mb
        Maximum megabytes of such messages to keep; -1 means without limit.
    unset
        Policy to inherit from the namespace again.

    Examples
    --------
    $ magnetar topic set orders --retention-minutes 1440 --retention-mb -1
    $ magnetar topic set topic://public/default/clicks --retention-mb 2048 --dry-run
    $ magnetar topic set orders --unset retention
    """
    name, own = topic_name(topic), properties(property)
    full, retention = str(name), (retention_minutes, retention_mb)
    if unset is not None and retention != (None, None):
        raise Misuse("retention must be either set or unset", topic=full)
    if unset is None and retention == (None, None) and not own:
        raise Misuse("nothing to change: pass --retention-minutes, --retention-mb, --property or --unset")
    if own and name.is_scalable:
        raise Misuse("properties of a scalable topic can be set only when it is created", topic=full)
    with common.session(change) as session:
        session.about(topic=full)
        admin = session.admin.scalable if name.is_scalable else session.admin.topics
        before, holds = admin.retention(full), admin.retention(full, applied=True)
        after = None if retention == (None, None) else retention_of(before or holds, *retention)
        then = "as in the namespace" if unset else words_of(after) if after is not None else None
        facts: dict[str, Cell] = {"topic": full, "retention now": words_of(holds), "retention afterwards": then}
        session.describe(KeyValues(facts, title="Would change:", optional=frozenset(("retention afterwards",))))
        if after is not None:
            session.do(f"set retention of {full} to {then}", partial(admin.set_retention, full, after))
        if unset:
            session.do(f"unset retention of {full}", partial(admin.remove_retention, full))
        if own:
            session.do(f"set properties of {full}", partial(session.admin.topics.add_properties, full, own))

"""`magnetar topic migrate`: converts a plain or partitioned topic to a scalable topic, in place and permanently."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from magnetar.base.errors import Misuse
from magnetar.base.names import Domain, topic_name
from magnetar.cli.options import COMMON, DESTRUCTION, Common, Destruction, flag
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.values import Cell, size
from magnetar.cli.scalable.operations import operate, operation_parts
from magnetar.client.documents.scalable import MigrationPreview


def migrate(
    topic: str,
    /,
    *,
    force: Annotated[bool, flag("Migrate even if clients use the topic that do not support scalable topics.")] = False,
    reason: str = "",
    change: Destruction = DESTRUCTION,
    common: Common = COMMON,
) -> None:
    """Convert a plain or partitioned topic to a scalable topic, in place. This cannot be undone.

    The migration copies no message and loses no subscription, and every key stays in order. Afterwards, the broker
    rejects producers of old clients. Consumers of old clients receive the messages from before the migration and no
    later ones. `--dry-run` lists these clients.

    Parameters
    ----------
    topic
        Persistent topic, not one of its partitions.
    reason
        Reason to record in the history of the topic.

    Examples
    --------
    $ magnetar topic migrate orders --dry-run
    $ magnetar topic migrate orders --yes
    """
    name = topic_name(topic)
    if name.domain is not Domain.PERSISTENT or name.is_partition:
        raise Misuse("migrate expects a persistent topic, not a partition", topic=topic)
    with common.session(change) as session:
        session.about(topic=str(name))
        preview = session.admin.scalable.migration(str(name))
        if session.is_dry:
            session.show(session.document, *_parts(str(name), preview))
            return
        session.confirm(str(name), f"permanently converts {name} to the scalable topic {name.scalable}")
        begin = partial(session.admin.scalable.migrate, str(name), force=force, reason=reason or None, wait=False)
        done = operate(session, str(name.scalable), f"migrate {name}", begin)
        if done is not None and common.output != "jsonl":
            session.show(done, *operation_parts(done))


def _parts(name: str, preview: MigrationPreview) -> list[KeyValues | TableData]:
    old = [client for client in preview.clients if not client.follows]
    facts: dict[str, Cell] = {
        "topic": name,
        "becomes": str(topic_name(name).scalable),
        "topics sealed": ", ".join(preview.topics),
        "segments created": ", ".join(str(one.segmentId) for one in preview.segments if one.state == "ACTIVE"),
        "messages": preview.messages,
        "stored": size(preview.bytes),
        "unsupported clients": f"{len(old)} clients: --force is required" if old else "none",
    }
    carried: list[tuple[Cell, ...]] = [
        (one.subscription, one.type or "set by its first consumer") for one in preview.subscriptions
    ]
    clients: list[tuple[Cell, ...]] = [
        (one.name, one.subscription or "(producer)", one.address, one.clientVersion, "yes" if one.follows else "no")
        for one in preview.clients
    ]
    return [
        KeyValues(facts),
        TableData(("SUBSCRIPTION", "TYPE"), carried),
        TableData(("CLIENT", "SUBSCRIPTION", "ADDRESS", "VERSION", "FOLLOWS"), clients),
    ]

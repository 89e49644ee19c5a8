"""`magnetar topic migrate`: a plain or partitioned topic becomes a scalable one, in place and for good."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from magnetar.base.errors import Misuse
from magnetar.base.names import Domain, topic_name
from magnetar.cli.cells import Cell, size
from magnetar.cli.operating import operate, operation_parts
from magnetar.cli.options import COMMON, DESTRUCTION, Common, Destruction, flag
from magnetar.cli.output import Facts, Sheet
from magnetar.client.documents.scalable import MigrationPreview


def migrate(
    topic: str,
    /,
    *,
    force: Annotated[
        bool, flag("Also while clients use it that do not know scalable topics: they are left behind.")
    ] = False,
    reason: str = "",
    change: Destruction = DESTRUCTION,
    common: Common = COMMON,
) -> None:
    """Make a plain or partitioned topic a scalable one, in place: nothing is copied, no subscription is lost, every key
    stays in order. There is no way back.

    Producers of old clients are refused from then on, and their consumers get what is left of before and nothing
    after; `--dry-run` lists them.

    Parameters
    ----------
    topic
        The persistent topic, the whole of it.
    reason
        Kept in the topic's history.

    Examples
    --------
    $ magnetar topic migrate orders --dry-run
    $ magnetar topic migrate orders --yes
    """
    name = topic_name(topic)
    if name.domain is not Domain.PERSISTENT or name.is_partition:
        raise Misuse("a persistent topic is migrated, the whole of it", topic=topic)
    with common.session(change) as session:
        session.about(topic=str(name))
        found = session.admin.scalable.migration(str(name))
        if session.is_dry:
            session.show(session.document, *_parts(str(name), found))
            return
        session.confirm(str(name), f"makes {name} the scalable topic {name.scalable}, for good")
        begin = partial(session.admin.scalable.migrate, str(name), force=force, reason=reason or None, wait=False)
        done = operate(session, str(name.scalable), f"migrate {name}", begin)
        if done is not None and common.output != "jsonl":
            session.show(done, *operation_parts(done))


def _parts(name: str, found: MigrationPreview) -> list[Facts | Sheet]:
    old = [client for client in found.clients if not client.follows]
    facts: dict[str, Cell] = {
        "topic": name,
        "becomes": str(topic_name(name).scalable),
        "topics sealed": ", ".join(found.topics),
        "segments made": ", ".join(str(one.segmentId) for one in found.segments if one.state == "ACTIVE"),
        "messages": found.messages,
        "stored": size(found.bytes),
        "left behind": f"{len(old)} clients: --force is needed" if old else "nobody",
    }
    carried: list[tuple[Cell, ...]] = [
        (one.subscription, one.type or "as its first consumer says") for one in found.subscriptions
    ]
    clients: list[tuple[Cell, ...]] = [
        (one.name, one.subscription or "(producer)", one.address, one.clientVersion, "yes" if one.follows else "no")
        for one in found.clients
    ]
    return [
        Facts(facts),
        Sheet(("SUBSCRIPTION", "TYPE"), carried),
        Sheet(("CLIENT", "SUBSCRIPTION", "ADDRESS", "VERSION", "FOLLOWS"), clients),
    ]

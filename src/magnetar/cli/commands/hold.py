"""`magnetar hold`: lists, shows and deletes holds, which keep messages for readers that commit rarely.

Readers create and move holds (a Spark query, `Client.hold`); no command here creates one.
"""

from __future__ import annotations

from typing import Annotated

from magnetar.base.errors import NotFound
from magnetar.base.names import Domain, topic_name
from magnetar.cli.options import COMMON, DESTRUCTION, Common, Destruction, IfExists, flag
from magnetar.cli.output.output import KeyValues, TableData
from magnetar.cli.output.values import Cell, Duration, Lag, Moment, Size, size
from magnetar.cli.scalable.session import opened
from magnetar.client.documents.holds import Hold

COLUMNS = ("HOLD", "STATE", "LAG", "SIZE", "OLDEST", "MOVED", "EXPIRES", "OWNER")
PLACE_COLUMNS = ("SEGMENT", "KEPT FROM")


def list_(topic: str, /, *, common: Common = COMMON) -> None:
    """List the holds of a scalable topic with their owner, lag and expiry.

    Parameters
    ----------
    topic
        The scalable topic.

    Examples
    --------
    $ magnetar hold list topic://public/default/clicks
    $ magnetar hold list topic://public/default/clicks -o json
    """
    with opened(common, _whole(topic)) as (session, name):
        holds = session.admin.holds.list(name)
        rows: list[tuple[Cell, ...]] = [
            (
                key,
                one.state,
                Lag(one.lagMessages),
                Size(one.lagBytes),
                Duration(one.lagAgeS) if one.lagOldestMs else None,
                Moment(one.movedMs),
                Moment(one.untilMs),
                one.owner or None,
            )
            for key, one in sorted(holds.items())
        ]
        lines = [one for _, one in sorted(holds.items())]
        session.show(session.document, TableData(COLUMNS, rows, optional=frozenset(("OLDEST", "OWNER"))), lines=lines)


def show(topic: str, name: str, /, *, common: Common = COMMON) -> None:
    """Show a hold: the lag of its reader, its expiry, and the first kept position of each segment.

    The hold keeps no segment before these positions, and keeps later segments completely.

    Parameters
    ----------
    topic
        The scalable topic.
    name
        Hold name.

    Examples
    --------
    $ magnetar hold show topic://public/default/clicks nightly
    """
    with opened(common, _whole(topic)) as (session, whole):
        hold = session.admin.holds.get(whole, name)
        rows: list[tuple[Cell, ...]] = [
            (int(id), "the whole segment" if place == "-1:-1" else place)
            for id, place in sorted(hold.places.items(), key=lambda pair: int(pair[0]))
        ]
        sheets = [TableData(PLACE_COLUMNS, rows)] if rows else []
        optional = frozenset(("owner", "members", "oldest message", "announced", "expired"))
        session.show(session.document, KeyValues(_facts(whole, hold), optional=optional), *sheets)


def _whole(topic: str) -> str:
    """A plain topic has holds too, under its name as a scalable topic."""
    name = topic_name(topic)
    return str(name.scalable) if name.domain is Domain.PERSISTENT else topic


def _facts(topic: str, hold: Hold) -> dict[str, Cell]:
    return {
        "hold": hold.hold,
        "topic": topic,
        "state": hold.state,
        "owner": hold.owner or None,
        "members": ", ".join(hold.members) or None,
        "lag": Lag(hold.lagMessages),
        "size": Size(hold.lagBytes),
        "oldest message": Duration(hold.lagAgeS) if hold.lagOldestMs else None,
        "moved": Moment(hold.movedMs),
        "expires": Moment(hold.untilMs),
        "announced": Moment(hold.warnedMs) if hold.warnedMs else None,
        "expired": Moment(hold.expiredMs) if hold.expiredMs else None,
    }


def delete(
    topic: str,
    name: str,
    /,
    *,
    force: Annotated[bool, flag("Delete it even if members of a group use it. These members end.")] = False,
    if_exists: IfExists = False,
    change: Destruction = DESTRUCTION,
    common: Common = COMMON,
) -> None:
    """Delete a hold. Retention alone then decides how long unread messages of its reader are kept.

    The command names the owner and the users of the hold, and the unread messages. A hold that a group uses is deleted
    only with --force.

    Parameters
    ----------
    topic
        The scalable topic.
    name
        Hold name.

    Examples
    --------
    $ magnetar hold delete topic://public/default/clicks nightly --yes
    $ magnetar hold delete topic://public/default/clicks readers --force --yes
    """
    with opened(common, _whole(topic), change, unless=NotFound if if_exists else None) as (session, whole):
        hold = session.admin.holds.get(whole, name)
        session.confirm(name, f"ends hold {name} of {whole}: {_given_up(hold)}")
        what = f"delete hold {name} of {whole} ({_given_up(hold)})"
        session.do(what, lambda: session.admin.holds.delete(whole, name, force=force))


def _given_up(hold: Hold) -> str:
    """The owner and the users of a hold, and the messages that only this hold keeps."""
    parts = [f"owner {hold.owner}" if hold.owner else "no owner"]
    if hold.members:
        parts.append(f"used by {', '.join(hold.members)}")
    if hold.expiredMs:
        parts.append("expired, so it kept nothing")
    else:
        parts.append(f"gives up {hold.lagMessages:,} messages ({size(hold.lagBytes)}) that were not read")
    return ", ".join(parts)


VERBS = {"list": list_, "show": show, "delete": delete}

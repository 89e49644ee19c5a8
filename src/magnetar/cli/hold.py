"""`magnetar hold`: what scalable topics keep for readers that commit rarely, how far behind those are, ending one.

Holds are made and moved by their readers (a Spark query, `Client.hold`); nothing here makes one.
"""

from __future__ import annotations

from typing import Annotated

from magnetar.base.errors import NotFound
from magnetar.base.names import Domain, topic_name
from magnetar.cli.cells import Cell, Lag, Moment, Size, size
from magnetar.cli.opening import opened
from magnetar.cli.options import COMMON, DESTRUCTION, Common, Destruction, IfExists, flag
from magnetar.cli.output import Facts, Sheet
from magnetar.client.documents.holds import Hold

COLUMNS = ("HOLD", "STATE", "LAG", "SIZE", "MOVED", "EXPIRES", "OWNER")
PLACE_COLUMNS = ("SEGMENT", "KEPT FROM")


def list_(topic: str, /, *, common: Common = COMMON) -> None:
    """The holds of a scalable topic: who keeps messages, how many, and until when.

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
        found = session.admin.holds.list(name)
        rows: list[tuple[Cell, ...]] = [
            (
                key,
                one.state,
                Lag(one.lagMessages),
                Size(one.lagBytes),
                Moment(one.movedMs),
                Moment(one.untilMs),
                one.owner or None,
            )
            for key, one in sorted(found.items())
        ]
        lines = [one for _, one in sorted(found.items())]
        session.show(session.document, Sheet(COLUMNS, rows, optional=frozenset(("OWNER",))), lines=lines)


def show(topic: str, name: str, /, *, common: Common = COMMON) -> None:
    """One hold: its reader's lag, its end, and from where on each segment is kept.

    Segments before those places are not kept for it; segments behind them are kept whole.

    Parameters
    ----------
    topic
        The scalable topic.
    name
        The hold.

    Examples
    --------
    $ magnetar hold show topic://public/default/clicks nightly
    """
    with opened(common, _whole(topic)) as (session, whole):
        one = session.admin.holds.get(whole, name)
        rows: list[tuple[Cell, ...]] = [
            (int(id), "all of it" if place == "-1:-1" else place)
            for id, place in sorted(one.places.items(), key=lambda pair: int(pair[0]))
        ]
        sheets = [Sheet(PLACE_COLUMNS, rows)] if rows else []
        optional = frozenset(("owner", "members", "announced", "expired"))
        session.show(session.document, Facts(_facts(whole, one), optional=optional), *sheets)


def _whole(topic: str) -> str:
    """A plain topic has holds too, under the name of the scalable one that it is shown as."""
    name = topic_name(topic)
    return str(name.scalable) if name.domain is Domain.PERSISTENT else topic


def _facts(topic: str, one: Hold) -> dict[str, Cell]:
    return {
        "hold": one.hold,
        "topic": topic,
        "state": one.state,
        "owner": one.owner or None,
        "members": ", ".join(one.members) or None,
        "lag": Lag(one.lagMessages),
        "size": Size(one.lagBytes),
        "moved": Moment(one.movedMs),
        "expires": Moment(one.untilMs),
        "announced": Moment(one.warnedMs) if one.warnedMs else None,
        "expired": Moment(one.expiredMs) if one.expiredMs else None,
    }


def delete(
    topic: str,
    name: str,
    /,
    *,
    force: Annotated[bool, flag("Also while members of its group use it: they end.")] = False,
    if_exists: IfExists = False,
    change: Destruction = DESTRUCTION,
    common: Common = COMMON,
) -> None:
    """End a hold: what its reader has not read is kept no longer than retention says.

    It says whose it was, who uses it and what is given up; one that a group uses is not ended without --force.

    Parameters
    ----------
    topic
        The scalable topic.
    name
        The hold.

    Examples
    --------
    $ magnetar hold delete topic://public/default/clicks nightly --yes
    $ magnetar hold delete topic://public/default/clicks readers --force --yes
    """
    with opened(common, _whole(topic), change, unless=NotFound if if_exists else None) as (session, whole):
        one = session.admin.holds.get(whole, name)
        session.confirm(name, f"ends hold {name} of {whole}: {_given_up(one)}")
        what = f"delete hold {name} of {whole} ({_given_up(one)})"
        session.do(what, lambda: session.admin.holds.delete(whole, name, force=force))


def _given_up(one: Hold) -> str:
    """Whose it is, who uses it, and what nobody keeps any more without it."""
    said = [f"owner {one.owner}" if one.owner else "no owner"]
    if one.members:
        said.append(f"used by {', '.join(one.members)}")
    if one.expiredMs:
        said.append("expired, so it kept nothing")
    else:
        said.append(f"gives up {one.lagMessages:,} messages ({size(one.lagBytes)}) that were not read")
    return ", ".join(said)


VERBS = {"list": list_, "show": show, "delete": delete}

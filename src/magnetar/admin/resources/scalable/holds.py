"""Holds of scalable topics over REST: list them with the lag of their readers, and delete one by hand.

Readers create and move holds over the wire (HOLD); these routes are for operators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.request import DONE, Request, Response, shown
from magnetar.admin.resources.scalable.topics import name_of
from magnetar.admin.route import delete, get
from magnetar.broker.batch_read.holds import HoldSummary
from magnetar.client.documents.holds import Hold

if TYPE_CHECKING:
    from magnetar.broker.node import Node


async def holds(node: Node, request: Request) -> Response:
    holds = await node.handlers.holds.list(name_of(node, request))
    now_ms = node.runtime.wall()
    return shown({one.name: _document(one, now_ms) for one in holds})


async def hold(node: Node, request: Request) -> Response:
    held = await node.handlers.holds.find(name_of(node, request), request.parts["hold"])
    return shown(_document(held, node.runtime.wall()))


async def release(node: Node, request: Request) -> Response:
    await node.handlers.holds.release(name_of(node, request), request.parts["hold"], force=request.flag("force"))
    return DONE


def _document(hold: HoldSummary, now_ms: int) -> Hold:
    held = hold.held
    return Hold(
        hold=hold.name,
        owner=held.owner,
        state="EXPIRED" if held.expired_ms else "WARNED" if held.warned_ms else "KEEPS",
        lagMessages=hold.lag.messages,
        lagBytes=hold.lag.bytes,
        lagOldestMs=hold.lag.oldest_ms,
        lagAgeS=hold.lag.at(now_ms).age_s,
        expiresS=held.expires_s,
        untilMs=held.until_ms,
        movedMs=held.moved_ms,
        warnedMs=held.warned_ms,
        expiredMs=held.expired_ms,
        members=list(hold.members),
        places={str(id): str(place) for id, place in held.places},
    )


_HOLDS = "/admin/v2/scalable/{tenant}/{namespace}/{topic}/holds"
ROUTES = [
    get(_HOLDS, holds, "The holds of a topic: messages kept for readers that commit rarely", dict[str, Hold]),
    get(f"{_HOLDS}/{{hold}}", hold, "One hold with the lag of its reader", Hold),
    delete(
        f"{_HOLDS}/{{hold}}", release, "Delete a hold and release its messages; with force, also while a group uses it"
    ),
]

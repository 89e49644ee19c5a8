"""Seeks of subscriptions of scalable topics over REST: to a time, to the start or the end, to positions, or past all
messages.

Paths, parameter names and statuses are Pulsar's; `to` and the body with positions are extensions of Magnetar. The
controller of the topic seeks on all segments as one plan: a caller of another broker is redirected to the leader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.request import DONE, Request, Response
from magnetar.admin.resources.scalable.topics import name_of
from magnetar.admin.route import post
from magnetar.base.errors import Misuse
from magnetar.base.ids import Position, SegmentId
from magnetar.client.documents.scalable import SeekPlaces
from magnetar.scalable.machines.seek_target import Target, TargetKind, at_places, at_time

if TYPE_CHECKING:
    from magnetar.broker.node import Node

_WORDS = {"earliest": TargetKind.EARLIEST, "latest": TargetKind.LATEST}


async def seek(node: Node, request: Request) -> Response:
    await node.scalable.seek(name_of(node, request), request.parts["subscription"], _target(request))
    return DONE


async def skip_all(node: Node, request: Request) -> Response:
    await node.scalable.seek(name_of(node, request), request.parts["subscription"], Target(TargetKind.LATEST))
    return DONE


def _target(request: Request) -> Target:
    word = request.query.get("to")
    if "timestamp" in request.query:
        return at_time(request.number("timestamp"))
    if word is None and not request.body:
        return at_time(0)  # as Pulsar does
    if word is None:
        places = request.need(SeekPlaces)
        if not all(id.isascii() and id.isdecimal() for id in places.places):
            raise Misuse("the keys of places must be segment ids (decimal numbers)")
        return at_places({SegmentId(int(id)): Position(*place) for id, place in places.places.items()})
    if word not in _WORDS:
        raise Misuse("`to` must be earliest or latest; otherwise give a `timestamp`, or places in the body", to=word)
    return Target(_WORDS[word])


_SUBSCRIPTION = "/admin/v2/scalable/{tenant}/{namespace}/{topic}/subscriptions/{subscription}"
ROUTES = [
    post(
        f"{_SUBSCRIPTION}/seek",
        seek,
        "Seek a subscription on all segments: by `timestamp`, `to`, or places",
        SeekPlaces,
    ),
    post(f"{_SUBSCRIPTION}/skip-all", skip_all, "Acknowledge all messages on all segments"),
]

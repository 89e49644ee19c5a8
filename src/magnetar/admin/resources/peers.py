"""Calls of other brokers: receives the requests of `broker/peers/rpc.py`.

Only a broker of a cluster has the route, and a caller must know the secret of the cluster
(`broker/peers/authentication.py`). A REST request that another broker forwards is handled by the routes of this broker,
on behalf of the same client, and is never forwarded again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from magnetar.admin.request import JSON, Request, Response, shown, whole
from magnetar.admin.route import PEER, Handler, Route
from magnetar.base.errors import LimitExceeded
from magnetar.base.limits import HTTP_BODY_BYTES_MAX, PEER_ANSWER_BYTES_MAX, PEER_BODY_BYTES_MAX
from magnetar.broker.peers.rpc import PATH, PeerRequest, answered, replied
from magnetar.cluster.calls.broker_calls import AdminAnswer, AdminCall

if TYPE_CHECKING:
    from magnetar.broker.node import Node


def routes(dispatch: Handler) -> list[Route]:
    """`dispatch` handles a REST request of an identified client."""

    async def take(node: Node, request: Request) -> Response:
        """The status is always 200: an error of the handlers is part of the reply."""
        call = request.need(PeerRequest)
        if isinstance(call.request, AdminCall):
            return shown(await replied(_admin(node, call.request, dispatch)))
        return shown(await answered(node, call))

    return [Route("POST", PATH, take, "A call of another broker", action=PEER, body_bytes_max=PEER_BODY_BYTES_MAX)]


async def _admin(node: Node, call: AdminCall, dispatch: Handler) -> AdminAnswer:
    if len(call.body) > HTTP_BODY_BYTES_MAX:
        raise LimitExceeded(f"the body must not exceed {HTTP_BODY_BYTES_MAX} bytes", http_status=413)
    request = Request(
        call.method,
        call.path,
        call.query,
        {"content-type": JSON},
        call.body,
        principal=call.principal,
        is_forwarded=True,
    )
    response = await dispatch(node, request)
    return AdminAnswer(response.status, await whole(response, PEER_ANSWER_BYTES_MAX))

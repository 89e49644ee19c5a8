"""One route: method and path template, handler, request and response documents, and the required permission.

The table of all routes is the source of both the dispatch and the published OpenAPI description.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from magnetar.admin.request import Request, Response
from magnetar.base.limits import HTTP_BODY_BYTES_MAX

if TYPE_CHECKING:
    from magnetar.broker.node import Node

Handler = Callable[["Node", Request], Awaitable[Response]]

OPEN = ""  # no permission check: probes must work when everything else fails
READ = "read"
WRITE = "administer"
PEER = "act as a broker of"


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str  # `/admin/v2/tenants/{tenant}`: a part in braces matches exactly one part of a path
    handler: Handler
    summary: str
    takes: Any = None  # the body's type
    gives: Any = None  # the answer's type; None: no body
    action: str = READ
    body_bytes_max: int = HTTP_BODY_BYTES_MAX

    @property
    def parts(self) -> list[str]:
        return self.path.strip("/").split("/")


def get(path: str, handler: Handler, summary: str, gives: Any = None, action: str = READ) -> Route:
    return Route("GET", path, handler, summary, gives=gives, action=action)


def put(path: str, handler: Handler, summary: str, takes: Any = None, gives: Any = None) -> Route:
    return Route("PUT", path, handler, summary, takes, gives, WRITE)


def post(path: str, handler: Handler, summary: str, takes: Any = None, gives: Any = None) -> Route:
    return Route("POST", path, handler, summary, takes, gives, WRITE)


def delete(path: str, handler: Handler, summary: str, gives: Any = None) -> Route:
    return Route("DELETE", path, handler, summary, gives=gives, action=WRITE)

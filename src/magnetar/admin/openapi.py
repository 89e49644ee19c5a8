"""`/openapi.json`: the description of the REST API, generated from the table of routes and the types of their
documents.

Routes for unsupported features and calls between brokers are left out. The text is built once, at the first request.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from magnetar import __version__
from magnetar.admin.request import JSON, Request, Response
from magnetar.admin.route import OPEN, PEER, Route, get
from magnetar.client.documents.brokers import Reason

if TYPE_CHECKING:
    from magnetar.broker.node import Node

_TAGS = {"admin": 2, "lookup": 0}  # the part of a path that names its resource


async def description(node: Node, request: Request) -> Response:
    return Response(200, _encoded(), {"content-type": JSON})


@cache
def _encoded() -> bytes:
    from magnetar.admin.router import table  # the table holds this very route

    return msgspec.json.encode(document(table().routes))


def document(routes: list[Route]) -> dict[str, Any]:
    built = [route for route in routes if route.action != PEER and not route.summary.startswith("Not built")]
    kinds = [kind for route in built for kind in (route.takes, route.gives) if kind is not None]
    schemas, components = msgspec.json.schema_components([*kinds, Reason], ref_template="#/components/schemas/{name}")
    descriptions = iter(schemas)
    paths: dict[str, Any] = {}
    for route in built:
        takes = next(descriptions) if route.takes is not None else None
        gives = next(descriptions) if route.gives is not None else None
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, takes, gives)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Magnetar", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": components},
    }


def _operation(route: Route, takes: Any, gives: Any) -> dict[str, Any]:
    refusal = {
        "description": "Refused, with the reason",
        "content": {JSON: {"schema": {"$ref": "#/components/schemas/Reason"}}},
    }
    done: dict[str, Any] = {"description": "Done"}
    if gives is not None:
        done = {"description": "The answer", "content": {JSON: {"schema": gives}}}
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": _id(route),
        "tags": [_tag(route)],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", route.path)
        ],
        "responses": {"200" if gives is not None else "204": done, "default": refusal},
    }
    if takes is not None:
        operation["requestBody"] = {"content": {JSON: {"schema": takes}}}
    return operation


def _id(route: Route) -> str:
    words = re.findall(r"\w+", route.path)
    return "_".join([route.method.lower(), *words])


def _tag(route: Route) -> str:
    parts = route.parts
    place = _TAGS.get(parts[0], 0)
    return parts[place] if place < len(parts) else parts[0]


ROUTES = [get("/openapi.json", description, "This description", dict[str, Any], OPEN)]

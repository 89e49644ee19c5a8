"""Every route that a broker publishes has exactly one method in the admin client, and every method leads to such a
route."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import httpx2
import pytest

from magnetar.admin import openapi, unsupported
from magnetar.admin.resources import policies, schemas
from magnetar.admin.route import PEER, Route
from magnetar.admin.router import table
from magnetar.client.admin import policy
from magnetar.client.admin.sync.admin import Admin
from magnetar.client.documents.policies import Policies, Retention
from magnetar.client.documents.schemas import PostSchema
from magnetar.client.documents.tenants import TenantInfo
from magnetar.client.documents.topics import MessageId
from magnetar.layout.autoscale.policy import AutoScaleOverride

RESOURCES = [
    "brokers",
    "clusters",
    "tenants",
    "namespaces",
    "topics",
    "scalable",
    "holds",
    "sinks",
    "subscriptions",
    "messages",
    "schemas",
]
TOPICS = ["persistent://acme/shop/or/ders".replace("or/ders", "or ders"), "non-persistent://acme/shop/orders"]
# What to give for a parameter, each value once; a list of one where the route does not depend on it.
VALUES: dict[str, list[Any]] = {
    "topic": TOPICS,
    "persistent_topic": TOPICS[:1],
    "retention": [Retention(60, -1)],
    "domain": ["persistent", "non-persistent"],
    "namespace": ["acme/shop"],
    "tenant": ["acme"],
    "cluster": ["standalone"],
    "broker": ["localhost:8080"],
    "bundle": ["0x00000000_0x40000000"],
    "data": [{"serviceUrl": "http://localhost:8080"}],
    "info": [TenantInfo([], ["standalone"])],
    "policies": [Policies()],
    "schema": [PostSchema("STRING", "")],
    "properties": [{"a": "b"}],
    "behind": [MessageId(3, 4)],
    "message_id": [MessageId(3, 4)],
    "start": ["earliest", MessageId(3, 4)],
    "to": [MessageId(3, 4)],
    "mode": ["ALL"],
    "origin": ["earliest"],
    "after": ["persistent://acme/shop/orders"],
    "value": ["a/b"],
    "key": ["a b"],
    "subscription": ["a/sub"],
    "hold": ["a/hold"],
    "path": ["/readyz", "/status.html"],
    "allowed_clusters": [["standalone"]],
    "admin_roles": [["admin"]],
    "type": ["STREAM"],
    "op": ["split-1"],
    "segment_topic": ["segment://acme/shop/or ders/0000-ffff-0"],
}
NAMES = {
    "brokers": ["key"],
    "clusters": ["standalone"],
    "tenants": ["acme"],
    "namespaces": ["acme/shop"],
    "topics": TOPICS,
    "scalable": ["topic://acme/shop/or ders", "or ders"],
    "subscriptions": ["a/sub"],
    "holds": ["topic://acme/shop/or ders", "or ders"],
    "sinks": ["a/sink"],
}
BY_TYPE: dict[str, list[Any]] = {"bool": [True], "int": [4], "float": [60.0], "int | None": [4], "str | None": ["x"]}
BY_TYPE["AutoScaleOverride"] = [AutoScaleOverride(maxSegments=8)]
BY_TYPE["Sequence[int]"] = [[1, 2], [1, 2, 3]]


class Seen(Exception):
    """The request went out: nobody answers it."""


def requests() -> Iterator[tuple[str, httpx2.Request]]:
    """(method of ours, what it sent) for every method, with and without what may be left out."""
    for resource in RESOURCES:
        for name, _ in inspect.getmembers(getattr(Admin(), resource), inspect.ismethod):
            if name.startswith("_"):
                continue
            for arguments in calls(resource, name):
                yield f"{resource}.{name}", sent(resource, name, arguments)


def sent(resource: str, name: str, arguments: dict[str, Any]) -> httpx2.Request:
    requests: list[httpx2.Request] = []

    def see(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        raise Seen

    with Admin(transport=httpx2.MockTransport(see)) as admin, pytest.raises(Seen):
        called(getattr(getattr(admin, resource), name), arguments)
    return requests[0]


def called(method: Callable[..., Any], arguments: dict[str, Any]) -> None:
    next(method(**arguments))  # a listing asks when it is read; the others before there is anything to read


def calls(resource: str, name: str) -> Iterator[dict[str, Any]]:
    signature = inspect.signature(getattr(getattr(Admin(), resource), name))
    needed = [one for one in signature.parameters.values() if one.default is inspect.Parameter.empty]
    for given in (needed, list(signature.parameters.values())):
        choices = [given_values(resource, name, one) for one in given]
        for chosen in product(*choices):
            yield {one.name: value for one, value in zip(given, chosen, strict=True)}


def given_values(resource: str, method: str, parameter: inspect.Parameter) -> list[Any]:
    if resource == "namespaces" and parameter.name == "policy":
        kinds = {"policy": policy.Policy, "set_policy": policy.Settable, "remove_policy": policy.Removable}
        return [one for one in policy.ALL.values() if isinstance(one, kinds[method])]
    if parameter.name == "name":
        return NAMES[resource]
    if (resource, method, parameter.name) == ("scalable", "seek", "to"):
        return ["earliest", 4, {0: (1, 2)}]
    found = VALUES.get(parameter.name) or BY_TYPE.get(str(parameter.annotation))
    assert found, f"{resource}.{method}: say here what to give for {parameter}"
    return found


def route_of(request: httpx2.Request) -> Route | None:
    path = request.url.raw_path.decode().partition("?")[0]
    for routes, _ in table().match(path):
        if request.method in routes:
            return routes[request.method]
    return None


def built() -> list[Route]:
    absent = {id(route) for route in unsupported.ROUTES}
    # Refused, or for other brokers alone.
    others: set[Callable[..., Any]] = {policies._not_built, schemas.compatibility}
    routes = [route for route in table().routes if route.action != PEER]
    return [route for route in routes if id(route) not in absent and route.handler not in others]


# Published, and for nobody who has an admin client.
WITHOUT_METHOD = {
    ("GET", "/"): "a page for people; its links have methods",
    ("PUT", "/admin/v2/namespaces/{tenant}/{namespace}/numberOfTopicBuckets"): "as POST, for those who know it as PUT",
}
# Methods that ask what another one is there for.
CONVENIENT = {
    "topics.walk": "the pages of topics.names, one after another",
    "tenants.create": "where no clusters are named it asks for all there are",
    **{
        f"{resource}.list": "as names: every resource has a list"
        for resource in ("brokers", "clusters", "namespaces", "scalable", "subscriptions", "tenants", "topics")
    },
}


def published() -> set[tuple[str, str]]:
    """As /openapi.json tells the world."""
    paths = openapi.document(table().routes)["paths"]
    return {(method.upper(), path) for path, methods in paths.items() for method in methods}


def reached() -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for name, request in requests():
        route = route_of(request)
        assert route is not None, f"{name}: no route {request.method} {request.url}"
        found.setdefault((route.method, route.path), set()).add(name)
    return found


def test_every_published_route_has_exactly_one_method() -> None:
    found = reached()
    assert set(found) == published() - WITHOUT_METHOD.keys()
    assert WITHOUT_METHOD.keys() <= published()
    several = {route: names for route, names in found.items() if len(names) > 1}
    own = {route: names - CONVENIENT.keys() for route, names in several.items()}
    assert {route: names for route, names in own.items() if len(names) != 1} == {}
    helped = set().union(*several.values())
    assert CONVENIENT.keys() <= helped, "a method that stands alone needs no excuse"


def test_what_is_published_is_what_is_built() -> None:
    assert {(one.method, one.path) for one in built()} | WITHOUT_METHOD.keys() == published()


def test_no_method_leads_to_what_is_not_built() -> None:
    served = {id(route) for route in built()}
    for name, request in requests():
        assert id(route_of(request)) in served, name

"""The reference page of the REST interface, docs/REST.md, rendered from the table of routes: never edited by hand, and
a test says so. `make sync` writes it.

It shows what `/openapi.json` describes, and the features of Pulsar whose routes answer 501.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from magnetar.admin import unsupported
from magnetar.admin.openapi import document
from magnetar.admin.router import table

_HEAD = """# The REST interface

A broker serves REST on its web port (`http://localhost:8080` by default). Paths, parameters and documents are those of
Apache Pulsar's admin interface, so that its tools work. `GET /openapi.json` of a running broker describes every route
on this page, with the types of all documents. From Python use `magnetar.Admin` ([CLIENT](CLIENT.md#admin)), and in a
shell [`magnetar`](CLI.md). `magnetar api` calls any route:

```shell
magnetar api GET /admin/v2/brokers/health
magnetar api PUT /admin/v2/scalable/public/default/rest-page
magnetar api GET /admin/v2/scalable/public/default/rest-page
```

- **Errors** are JSON with the field `reason`. [ERRORS](ERRORS.md) has the status of every error class.
- **A route that is not built** answers 501 with the name of the feature: [the list](#not-built) is below.
- **Limits** of requests and answers, and the names of hosts that the broker answers to, are in
  [OPERATING](OPERATING.md#limits).
- **Authentication** is not built: all routes are open to every client that reaches the port
  ([SECURITY](../SECURITY.md)).

This page is made by `make sync`. Calls between brokers are left out.
"""
_DOMAINS = ("/admin/v2/persistent/", "/admin/v2/non-persistent/")


class Row(NamedTuple):
    method: str
    path: str
    summary: str


def page() -> str:
    return "\n".join([_HEAD, *_routes(), *_missing()]) + "\n"


def _routes() -> Iterator[str]:
    for group, rows in _groups().items():
        yield f"## {group}\n"
        yield "| method | path | action |\n|---|---|---|"
        yield from (f"| {row.method} | `{row.path}` | {_cell(row.summary)} |" for row in rows)
        yield ""


def _groups() -> dict[str, list[Row]]:
    """The routes by resource. What persistent and non-persistent topics have alike is one row."""
    found: dict[str, list[Row]] = {}
    operations = [
        (operation["tags"][0], Row(method.upper(), path, operation["summary"]))
        for path, methods in document(table().routes)["paths"].items()
        for method, operation in methods.items()
    ]
    rows = {row for _, row in operations}
    for tag, row in operations:
        for own, other in (_DOMAINS, _DOMAINS[::-1]):
            if row.path.startswith(own) and row._replace(path=row.path.replace(own, other, 1)) in rows:
                tag = "persistent and non-persistent"
                row = row._replace(path=row.path.replace(own, "/admin/v2/{persistent\\|non-persistent}/", 1))
                break
        group = found.setdefault(tag if row.path.startswith(("/admin/", "/lookup/")) else "probes and pages", [])
        if row not in group:
            group.append(row)
    return dict(sorted(found.items()))


def _missing() -> Iterator[str]:
    yield "## Not built\n"
    yield "The routes of these features answer 501.\n"
    yield "| routes | features |\n|---|---|"
    topics = [*unsupported.OF_TOPICS.values(), *unsupported.OF_SUBSCRIPTIONS.values()]
    policies = [f"`{name}`" for name in unsupported.TOPIC_POLICIES]
    yield f"| whole resources | {_list(list(unsupported.FEATURES))} |"
    yield f"| of topics and subscriptions | {_list(topics)} |"
    yield f"| policies of single topics | {_list(policies)} |"
    yield f"| of namespaces | {_list(list(unsupported.OF_NAMESPACES.values()))} |"
    yield f"| of scalable topics | {_list(list(unsupported.OF_SCALABLE_TOPICS.values()))} |"
    yield f"| of clusters | {_list(list(unsupported.OF_CLUSTERS.values()))} |"


def _list(features: list[str]) -> str:
    return ", ".join(dict.fromkeys(map(_cell, features)))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())

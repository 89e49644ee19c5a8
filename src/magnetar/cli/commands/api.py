"""`magnetar api`: sends any REST request, with the URL, token, errors and exit codes of every other command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from magnetar.base.errors import Misuse
from magnetar.cli.options import CHANGE, COMMON, Change, Common
from magnetar.cli.output.formats import TableData

Method = Literal["GET", "POST", "PUT", "DELETE"]


def api(
    method: Method,
    path: str,
    /,
    *,
    data: Annotated[str | None, Parameter(name=["--data", "-d"], allow_leading_hyphen=True)] = None,
    change: Change = CHANGE,
    common: Common = COMMON,
) -> None:
    """Send any REST request and print the response. JSON is indented. Other text is unchanged, or a JSON string if
    --output selects a format.

    Parameters
    ----------
    method
        GET, POST, PUT or DELETE.
    path
        Path from the root, as /admin/v2/...
    data
        Request body: JSON, @FILE, or - for standard input.

    Examples
    --------
    $ magnetar api GET /admin/v2/brokers/version
    $ magnetar api GET /admin/v2/clusters -o yaml
    $ magnetar api POST /admin/v2/namespaces/public/default/messageTTL --data 3600
    """
    if not path.startswith("/"):
        raise Misuse("path must begin with a slash, as in /admin/v2/tenants", path=path)
    if common.sink is not None and method != "GET":
        raise Misuse("--watch supports GET only, because it repeats the request", method=method)
    with common.session(change) as session:
        columns = ("METHOD", "PATH", "BODY")
        session.describe(TableData(columns, [(method, path, data)], title="Would send:", optional=frozenset(("BODY",))))
        if data is None:
            answer = session.do(f"{method} {path}", lambda: session.admin.call(method, path))
        else:
            body = _body(data)
            answer = session.do(f"{method} {path}", lambda: session.admin.call(method, path, body))
        if answer is None or not answer.body:
            return
        try:
            msgspec.json.decode(answer.body)
        except msgspec.DecodeError:
            if common.output != "table":
                session.show(answer.body.decode(errors="replace").strip())
                return
            text = answer.body if answer.body.endswith(b"\n") or not session.output.terminal else answer.body + b"\n"
            session.output.raw(text)
            session.steps.clear()
        else:
            form = "json" if common.output == "table" else common.output
            session.output.form = form
            session.show(answer.body)


def _body(text: str) -> Any:
    data = text.encode()
    if text == "-":
        data = sys.stdin.buffer.read()
    elif text.startswith("@"):
        try:
            data = Path(text[1:]).read_bytes()
        except OSError as error:
            raise Misuse(f"the body cannot be read: {error}") from error
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise Misuse(f"the body must be JSON: {error}") from error

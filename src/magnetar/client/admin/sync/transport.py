"""One request and its answer, for all resources: retries, redirects, timeouts and errors.

Only calls that change nothing (GET) are retried, and only if the broker is unreachable or not ready. With several hosts
in the URL, any call goes to the next host if the broker is unreachable or not ready. A call that may have reached the
broker without an answer is `TimedOut` or `ConnectionLost`: the operation may have happened. Redirects
to a topic's owner are followed. The token is sent only to brokers that the first one lists, and never from https to
http. Answers are bounded by their decompressed size.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urljoin

import httpx2
import msgspec

from magnetar.base.errors import (
    Closed,
    ConnectionLost,
    Corrupt,
    NotAuthenticated,
    NotReady,
    TimedOut,
    Unavailable,
    Unknown,
)
from magnetar.base.limits import (
    ADMIN_CONNECT_S,
    ADMIN_CONNECTIONS_MAX,
    ADMIN_RETRIES_MAX,
    ADMIN_RETRY_S,
    ADMIN_TIMEOUT_S,
    CLIENT_REDIRECTS_MAX,
)
from magnetar.base.secret import Secret
from magnetar.client.admin.errors import error_from
from magnetar.client.admin.responses import (
    NOTHING,
    Body,
    Query,
    RestResponse,
    decoded,
    is_listed,
    lost,
    origin,
    took_s,
    written,
)
from magnetar.client.connection.address import rest_urls
from magnetar.runtime.pause import pause

T = TypeVar("T")

REDIRECTS = (301, 302, 307, 308)
JSON = "application/json"
BROKERS = "/admin/v2/brokers"


class RestTransport:
    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout_s: float = ADMIN_TIMEOUT_S,
        connections_max: int = ADMIN_CONNECTIONS_MAX,
        on_answer: Callable[[RestResponse], None] | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._urls = rest_urls(url)
        self.url = self._urls[0]  # the host of the next call
        self._token = None if token is None else Secret(token)
        self._timeout_s = timeout_s
        self._connections_max = connections_max
        self._on_answer = on_answer
        self._transport = transport
        self._http: httpx2.Client | None = None
        self._pid = 0
        self._closed = False

    # Called by resources

    def read(self, path: str, kind: type[T], query: Mapping[str, object] | None = None) -> T:
        """GET a document."""
        return self.ask("GET", path, kind, query=query)

    def read_if_set(self, path: str, kind: type[T]) -> T | None:
        """GET a document that may be absent: an unset policy has an empty answer."""
        answer = self.call("GET", path)
        return decoded(answer, kind) if answer.body.strip() else None

    def text(self, path: str, query: Mapping[str, object] | None = None) -> str:
        """GET text."""
        return (self.call("GET", path, query=query)).body.decode(errors="replace")

    def ask(
        self, method: str, path: str, kind: type[T], body: Any = NOTHING, *, query: Mapping[str, object] | None = None
    ) -> T:
        """A request whose answer is a document."""
        return decoded(self.call(method, path, body, query=query), kind)

    def send(self, method: str, path: str, body: Any = NOTHING, *, query: Mapping[str, object] | None = None) -> None:
        """A request whose answer is nothing but success."""
        self.call(method, path, body, query=query)

    def call(
        self, method: str, path: str, body: Any = NOTHING, *, query: Mapping[str, object] | None = None
    ) -> RestResponse:
        """Any request; an answer of 400 and more is raised as an error of the tree."""
        content = b"" if body is NOTHING else msgspec.json.encode(body)
        wait_s = ADMIN_RETRY_S
        for left in reversed(range(ADMIN_RETRIES_MAX + 1)):
            try:
                return self._any_host(method, path, content, written(query))
            except (Unavailable, Unknown) as error:
                if method != "GET" or not left or isinstance(error, TimedOut):
                    raise
            pause(wait_s)
            wait_s *= 2
        raise AssertionError("the last try returns or raises")

    def close(self) -> None:
        self._closed = True
        http, self._http = self._http, None
        if http is not None:
            http.close()

    # One attempt

    def _any_host(self, method: str, path: str, content: bytes, query: Query) -> RestResponse:
        """Of the host that answered last, or of the next one that is ready. A request other than GET goes to the next
        host only if it reached none: one that a broker answered with 503 may have happened."""
        for left in reversed(range(len(self._urls))):
            url = self.url
            try:
                answer = self._once(method, path, content, query)
            except (NotReady, ConnectionLost, TimedOut) as error:
                self._leave(url)
                if not left or not isinstance(error, NotReady):
                    raise
                continue
            if answer.status == 503:
                self._leave(url)
                if left and method == "GET":
                    continue
            if answer.status >= 300:
                raise error_from(answer.status, answer.body, call=answer.call)
            return answer
        raise AssertionError("the last host answers or raises")

    def _leave(self, url: str) -> None:
        """The next calls begin with the next host, unless another call has moved on already."""
        if self.url == url:
            self.url = self._urls[(self._urls.index(url) + 1) % len(self._urls)]

    def _once(self, method: str, path: str, content: bytes, query: Query) -> RestResponse:
        url = str(httpx2.URL(self.url + path, params=query) if query else self.url + path)
        trusted = True
        for _ in range(CLIENT_REDIRECTS_MAX):
            answer = self._answer(method, url, path, content, trusted=trusted)
            if self._on_answer is not None:
                self._on_answer(answer)
            where = answer.headers.get("location")
            if answer.status in REDIRECTS and where:
                url = urljoin(url, where)
                trusted = self._is_trusted(url)
                continue
            if answer.status == 401 and not trusted and self._token is not None:
                raise NotAuthenticated(
                    f"{origin(url)[1]} requires a token, which was not sent there: {self.url} does not list it as a "
                    "broker, or the redirect goes from https to http. Call it by its own admin URL",
                    call=answer.call,
                )
            return answer
        raise Unavailable(f"more than {CLIENT_REDIRECTS_MAX} redirects: brokers redirect to each other", url=self.url)

    def _answer(self, method: str, url: str, path: str, content: bytes, *, trusted: bool) -> RestResponse:
        headers = {"accept": f"{JSON}, text/plain;q=0.9, */*;q=0.8", "accept-encoding": "gzip"}
        if content:
            headers["content-type"] = JSON
        if self._token is not None and trusted:
            headers["authorization"] = f"Bearer {self._token.reveal()}"
        call = f"{method} {path}"
        try:
            with self._client().stream(method, url, content=content or None, headers=headers) as response:
                if response.is_stream_consumed:  # the transport has read it already
                    body = Body(call, "")
                    body.add(response.content)
                else:
                    body = Body(call, response.headers.get("content-encoding", ""))
                    for piece in response.iter_raw():
                        body.add(piece)
        except httpx2.HTTPError as error:
            # the text has the cause: no long traceback
            raise lost(error, call, self.url, self._timeout_s) from None
        return RestResponse(method, path, response.status_code, response.headers, body.whole(), took_s(response))

    def _is_trusted(self, url: str) -> bool:
        """Whether the token may be sent to a redirect target: the same broker, or one that it lists."""
        if self._token is None or any(origin(url) == origin(one) for one in self._urls):
            return True
        if self.url.startswith("https:") and not url.startswith("https:"):
            return False
        answer = self._answer("GET", self.url + BROKERS, BROKERS, b"", trusted=True)
        try:
            return answer.status == 200 and is_listed(url, decoded(answer, list[str]))
        except Corrupt:
            return False

    def _client(self) -> httpx2.Client:
        """Created at the first use, and again in a forked child, which must not use its parent's sockets."""
        if self._closed:
            raise Closed("the admin client is closed")
        if self._http is None or self._pid != os.getpid():
            self._pid = os.getpid()
            self._http = httpx2.Client(
                timeout=httpx2.Timeout(self._timeout_s, connect=min(ADMIN_CONNECT_S, self._timeout_s)),
                limits=httpx2.Limits(max_connections=self._connections_max),
                transport=self._transport,
            )
        return self._http

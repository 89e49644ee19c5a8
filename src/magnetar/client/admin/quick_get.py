"""A glance at a REST server: one answer at once or none, for whoever would rather have nothing than wait.

It is no `Admin`: no retries, no redirects, no errors, and nothing of it is loaded before it is used. It believes no
answer to be short or to make sense.
"""

from __future__ import annotations

from collections.abc import Sequence

from magnetar.base.secret import Secret
from magnetar.runtime.bounded_call import wall_s, within

ANSWER_BYTES_MAX = 4 * 1024 * 1024  # thousands of names; what is longer is not looked at


class QuickGet:
    """`seconds` are for all questions together."""

    def __init__(self, url: str, *, token: str, seconds: float) -> None:
        self._url = url
        self._token = Secret(token)
        self._seconds = seconds
        self.was_answered = False  # somebody is there, whatever was said

    @property
    def now_s(self) -> float:
        """The clock by which answers grow old."""
        return wall_s()

    def get(self, paths: Sequence[str]) -> list[bytes | None]:
        """The answer to each, None where there is none or it is no success."""
        found: list[bytes | None] = [None] * len(paths)
        within(self._seconds, lambda: self._ask(paths, found))
        return list(found)  # what came meanwhile counts, even if not all did

    def _ask(self, paths: Sequence[str], found: list[bytes | None]) -> None:
        from http.client import HTTPConnection, HTTPSConnection
        from urllib.parse import urlsplit

        from magnetar.client.connection.address import rest_url

        parts = urlsplit(rest_url(self._url))
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self._seconds)
        headers = {"authorization": f"Bearer {self._token.reveal()}"} if self._token else {}
        try:
            for place, path in enumerate(paths):
                connection.request("GET", parts.path.rstrip("/") + path, headers=headers)
                with connection.getresponse() as answer:
                    self.was_answered = True
                    body = answer.read(ANSWER_BYTES_MAX + 1)
                    if answer.status == 200 and len(body) <= ANSWER_BYTES_MAX:
                        found[place] = body
        finally:
            connection.close()

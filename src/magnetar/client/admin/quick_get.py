"""Quick GET requests to a REST server: an immediate answer or none, for callers that prefer no data to waiting.

It has no retries, redirects or errors, unlike `Admin`, and it imports its modules at the first use. Of several hosts it
asks the first one that answers. It does not trust answers to be short or valid.
"""

from __future__ import annotations

from collections.abc import Sequence

from magnetar.base.secret import Secret
from magnetar.runtime.bounded_call import wall_s, within

ANSWER_BYTES_MAX = 4 * 1024 * 1024  # thousands of names; a longer answer is dropped


class QuickGet:
    """`seconds` is the time limit of all requests together."""

    def __init__(self, url: str, *, token: str, seconds: float) -> None:
        self._url = url
        self._token = Secret(token)
        self._seconds = seconds
        self.was_answered = False  # whether a server answered, with any status

    @property
    def now_s(self) -> float:
        """The clock for the age of answers."""
        return wall_s()

    def get(self, paths: Sequence[str]) -> list[bytes | None]:
        """The answer to each request, None without an answer or success."""
        bodies: list[bytes | None] = [None] * len(paths)
        within(self._seconds, lambda: self._ask(paths, bodies))
        return list(bodies)  # return the answers that arrived, even if some are missing

    def _ask(self, paths: Sequence[str], bodies: list[bytes | None]) -> None:
        from http.client import HTTPException

        from magnetar.client.connection.address import rest_urls

        for url in rest_urls(self._url):
            try:
                self._ask_host(url, paths, bodies)
                return
            except (OSError, HTTPException):
                if self.was_answered:
                    raise

    def _ask_host(self, url: str, paths: Sequence[str], bodies: list[bytes | None]) -> None:
        from http.client import HTTPConnection, HTTPSConnection
        from urllib.parse import urlsplit

        parts = urlsplit(url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=self._seconds)
        headers = {"authorization": f"Bearer {self._token.reveal()}"} if self._token else {}
        try:
            for index, path in enumerate(paths):
                connection.request("GET", parts.path.rstrip("/") + path, headers=headers)
                with connection.getresponse() as answer:
                    self.was_answered = True
                    body = answer.read(ANSWER_BYTES_MAX + 1)
                    if answer.status == 200 and len(body) <= ANSWER_BYTES_MAX:
                        bodies[index] = body
        finally:
            connection.close()

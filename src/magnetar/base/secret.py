"""A secret text: a token, a password, a key. All forms of printing show asterisks."""

from __future__ import annotations

import hmac

HIDDEN = "*****"


class Secret:
    """Only `reveal` returns the text. `repr`, `str`, log lines and format strings show none of it."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def matches(self, other: str) -> bool:
        """Takes constant time, so the duration does not reveal the position of a difference. An empty secret matches no
        text.
        """
        return bool(self._text) and hmac.compare_digest(self._text.encode(), other.encode(errors="replace"))

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__


NO_SECRET = Secret()

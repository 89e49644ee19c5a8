"""A text that must not be seen: a token, a password, a key. Whatever prints it prints asterisks."""

from __future__ import annotations

import hmac

HIDDEN = "*****"


class Secret:
    """`reveal` is the only way to the text; `repr`, `str`, a log line and a format string show none of it."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def matches(self, other: str) -> bool:
        """In a time that says nothing about where they differ. An empty secret matches nothing."""
        return bool(self._text) and hmac.compare_digest(self._text.encode(), other.encode(errors="replace"))

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__


NO_SECRET = Secret()

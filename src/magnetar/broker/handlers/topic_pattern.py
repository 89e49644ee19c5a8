"""Patterns of clients, matched in a time that depends on the length of the text only, for every pattern.

RE2 does the matching, as in Pulsar's own brokers: a pattern on which a backtracking engine never ends would block the
loop for all clients. Patterns that RE2 does not support (look-arounds, back references) are refused: the client that
sent one can match it itself. The same holds for a pattern whose program is too large. The library is loaded with the
first pattern.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Protocol

from magnetar.base.errors import Misuse
from magnetar.base.limits import PATTERN_BYTES_MAX, PATTERNS_CACHED_MAX


class Pattern(Protocol):
    def fullmatch(self, text: str) -> object | None: ...


def compiled(text: str, chars_max: int) -> Pattern | None:
    """A pattern for names without domain. None: valid, but not supported by the broker. Misuse: too long or invalid."""
    if len(text) > chars_max:
        raise Misuse(
            f"the pattern must have at most {chars_max} characters (subscriptionPatternMaxLength), got {len(text)}"
        )
    return _compiled(text.split("://", 1)[1] if "://" in text else text)


@lru_cache(maxsize=PATTERNS_CACHED_MAX)
def _compiled(bare: str) -> Pattern | None:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.max_mem = PATTERN_BYTES_MAX
    try:
        pattern: Pattern = re2.compile(bare, options=options)
        return pattern
    except re2.error as refused:
        if "too large" in str(refused):
            return None  # a few characters can ask for megabytes and for 90 ms: its client can match it
        try:
            re.compile(bare, re.ASCII)
        except re.error as error:
            raise Misuse(f"invalid pattern: {error}", pattern=bare) from error
        return None

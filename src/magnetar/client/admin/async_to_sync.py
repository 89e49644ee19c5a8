"""The blocking admin client from the one that awaits: the same text without the waiting words.

A list of replacements, longest first, and nothing clever: what it cannot turn must not be written in `aio`. `make sync`
writes the files; a test says when they are stale.
"""

from __future__ import annotations

import re

_WORDS = [
    (r"^import asyncio\n", ""),
    (r"await asyncio\.sleep\(", "pause("),
    (
        r"^(from magnetar\.client\.admin\.errors import .*\n)",
        r"\1from magnetar.runtime.pause import pause\n",
    ),
    (r"for name in names:\n +yield name\n", "yield from names\n"),
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsync(Iterator|Client|BaseTransport)\b", r"\1"),
    (r"__aenter__", "__enter__"),
    (r"__aexit__", "__exit__"),
    (r"\baclose\b", "close"),
    (r"\baiter_raw\b", "iter_raw"),
    (r"admin\.aio\b", "admin.sync"),
    (r'public\("magnetar\.aio"\)', 'public("magnetar")'),
]


def blocking(text: str) -> str:
    """The text of a file of `aio` as it stands in `sync`, before it is formatted."""
    for pattern, instead in _WORDS:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text

"""Generates the blocking admin client from the asyncio one, by removing the words of asynchronous code.

A plain list of replacements, longest first: `aio` must not use constructs that it cannot convert. `make sync` writes
the files; a test fails if they are stale.
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
    """The `sync` version of a file of `aio`, before formatting."""
    for pattern, instead in _WORDS:
        text = re.sub(pattern, instead, text, flags=re.MULTILINE)
    return text

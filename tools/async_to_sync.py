"""Renders the blocking admin client, `client/admin/sync`, from the one that awaits, `client/admin/aio`.

It applies a list of text replacements, longest first. Code that these cannot convert does not belong in `aio`. `make
sync` writes the files and formats them; a test compares them.
"""

from __future__ import annotations

import re
from pathlib import Path

from magnetar.client.admin import aio, sync

AIO = Path(str(aio.__file__)).parent
SYNC = Path(str(sync.__file__)).parent

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


def main() -> None:
    for file in AIO.glob("[a-z]*.py"):
        (SYNC / file.name).write_text(blocking(file.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Questions to owners of segments that are asked until the answer is yes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.base.limits import CALL_RETRY_S_MAX, CALL_RETRY_S_MIN
from magnetar.observe.log import get

log = get("controller")

Question = Callable[[], Coroutine[Any, Any, bool]]


async def until_yes(question: Question, closed: Callable[[], bool], **facts: str) -> bool:
    """False: closed first. An owner that does not answer is given time."""
    wait_s = CALL_RETRY_S_MIN
    while not closed():
        try:
            if await question():
                return True
            wait_s = CALL_RETRY_S_MIN
        except MagnetarError as error:
            log.debug("owner_request_failed", **facts, error=str(error))
            wait_s = min(2 * wait_s, CALL_RETRY_S_MAX)
        await asyncio.sleep(wait_s)
    return False

"""One request that waits: its task, its answer, and its answer after a failure.

Every handler that awaits uses `start`. The connection owns the task, and the number in flight is bounded. An error of
the product becomes the reply that ends this kind of request. Any other exception becomes UnknownError for the client,
with a full trace in the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING

from magnetar.base.errors import Closed, MagnetarError, Unknown
from magnetar.observe.log import get
from magnetar.wire import commands

if TYPE_CHECKING:
    from magnetar.broker.connection.connection import Connection

log = get("requests")

Fail = Callable[[int, str], bytes]  # (wire code, sentence) -> the frame that ends the request


def start(
    connection: Connection, work: Coroutine[object, object, bytes | None], fail: Fail
) -> asyncio.Task[None] | None:
    """Runs `work` and writes its result; `fail` builds the error frame. None: the connection is closed."""
    if connection.owner.closed:
        work.close()
        return None
    size = connection.command_bytes
    node = connection.node
    node.requests += 1
    connection.request_started(size)
    task = node.runtime.spawn(connection.owner, _run(connection, work, fail))

    def ended(_: asyncio.Task[None]) -> None:
        work.close()  # closes the coroutine if the task is cancelled before its first step
        node.requests -= 1
        if size:
            connection.released(size)
        connection.resume_if_light()

    task.add_done_callback(ended)
    return task


async def _run(connection: Connection, work: Coroutine[object, object, bytes | None], fail: Fail) -> None:
    try:
        answer = await work
    except Closed as error:
        answer = fail(error.wire_code, error.what)
    except MagnetarError as error:
        connection.refused.add()
        log.info("request_refused", peer=connection.peer, error=type(error).__name__, why=str(error))
        answer = fail(error.wire_code, error.what)
    except Exception as error:
        log.crashed("request_failed", error, peer=connection.peer)
        connection.node.metrics.request_failures.value += 1
        answer = fail(0, f"internal error: {type(error).__name__}; see the broker log")
    finally:
        connection.request_ended()
    if answer is not None:
        connection.write(answer)


async def honestly(work: Coroutine[object, object, bytes]) -> bytes:
    """Reports an unknown outcome as UnknownError. The default is ServiceNotReady, which means that nothing happened and
    lets clients attach again automatically."""
    try:
        return await work
    except Unknown as error:
        raise Unknown(error.what, wire_code=0, **error.facts) from error


def error_reply(request_id: int) -> Fail:
    """The plain ERROR: for every request whose client accepts it (SC-A3)."""
    return partial(commands.error, request_id)


success = commands.success

"""Keeps a producer or consumer attached: look up, connect, open, and the same again after a loss.

It decides when to retry and when to give up; its user decides what to open and what happens to pending work. The first
attach has a deadline and raises its error to the caller. Later attaches repeat until an error is final (`ended` is
called once) or until `close`. No task runs while it is attached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from magnetar.base.errors import Closed, Fenced, MagnetarError, Outcome, Sealed, TimedOut, TopicNotFound, Unreachable
from magnetar.client.connection.backoff import Backoff, passing, unreachable, wait_of
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.lookup import Route
from magnetar.client.connection.pool import Pool
from magnetar.client.producer.config import close_command
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner
from magnetar.wire.frames import encode_command

log = get("client.reconnect")

Fatal = Callable[[MagnetarError, bool], bool]  # (error, whether it is the first attach) -> whether to give up


class BrokerFinder(Protocol):
    """Finds the broker of a topic: a `Lookup`, or a finder with better knowledge of the topic."""

    pool: Pool

    async def broker(self, topic: str) -> Route: ...


def producer_fatal(error: MagnetarError, first: bool) -> bool:
    """Once attached, a producer gives up only if no client can ever publish under its name or to its topic again."""
    return not passing(error) if first else isinstance(error, Fenced | Sealed | TopicNotFound | Closed)


def consumer_fatal(error: MagnetarError, first: bool) -> bool:
    """Once attached, a consumer retries after every error of the broker, as stock clients do."""
    return not passing(error) if first else isinstance(error, Closed)


async def leave(connection: Connection, producer_id: int, *, timeout_s: float, topic: str) -> bool:
    """Close a producer. False: the broker did not answer; it drops the producer with the connection."""
    request_id = connection.next_request_id()
    try:
        await connection.request(close_command(producer_id, request_id), request_id, timeout_s=timeout_s)
    except MagnetarError as error:
        log.info("close_failed", topic=topic, why=error)
        return False
    return True


def disown(connection: Connection, producer_id: int) -> None:
    """Close a producer that is useless here but may exist at the broker, without waiting for the reply."""
    connection.detach_producer(producer_id)
    connection.write(encode_command(close_command(producer_id, connection.next_request_id())))


class Reconnector:
    """`opening(connection, attempt)` attaches a listener to the connection, sends the opening command, awaits its reply
    and completes the remaining setup; `attempt` counts from 0 and is the epoch of PRODUCER. The listener calls `lost`
    (the connection ended, or an error requires a new attach) and `moved` (CLOSE_* by the broker).
    """

    def __init__(
        self,
        lookup: BrokerFinder,
        topic: str,
        opening: Callable[[Connection, int], Awaitable[None]],
        *,
        ended: Callable[[MagnetarError], None],
        fatal: Fatal,
    ) -> None:
        self.topic = topic
        self.connection: Connection | None = None  # while attached
        self.attempts = 0
        self._runtime = lookup.pool.runtime
        self._lookup = lookup
        self._opening = opening
        self._ended = ended
        self._fatal = fatal
        self._owner = Owner(f"attached {topic}", self._failed)
        self._backoff = Backoff(self._runtime.rng("client.attached"))
        self._hint = ""
        self._task: asyncio.Task[None] | None = None
        self._first = True
        self._over = False
        self._timeout_s = 0.0
        self._begun = 0.0

    async def start(self, timeout_s: float) -> None:
        """The first attach: it raises its errors to the caller. If it fails or is cancelled, no task keeps running."""
        self._begun = self._runtime.monotonic()
        self._timeout_s = timeout_s
        self._task = self._runtime.spawn(self._owner, self._attach())
        try:
            await asyncio.shield(self._task)
        except BaseException:
            self._over = True
            await self._owner.close()
            raise

    def lost(self, error: MagnetarError | None = None) -> None:
        """The connection ended, or the object opened on it is unusable: attach again after the back-off."""
        if self._over or self._first:
            self.connection = None
            return
        if self.connection is not None:
            log.info("attachment_lost", topic=self.topic, why=error)
        self.connection = None
        self._again()

    def moved(self, url: str) -> None:
        """The broker closed the object: connect to `url` immediately, or look up the broker again if it is empty."""
        self._hint = url
        self.connection = None
        if not self._over and not self._first:
            log.info("attachment_moved", topic=self.topic, to=url or "next lookup")
            self._again()

    def refused(self, error: MagnetarError) -> None:
        """The broker pushed a final error."""
        if not self._over:
            self.connection = None
            self._end(error)

    async def close(self) -> None:
        """Stop attaching. The user first closes the object that is open on the connection."""
        self._over = True
        await self._owner.close()

    def _again(self) -> None:
        if self._task is None or self._task.done():
            self._task = self._runtime.spawn(self._owner, self._attach(self._wait_s()))

    def _wait_s(self) -> float:
        return 0.0 if self._hint else self._backoff.next_s()

    async def _attach(self, wait_s: float = 0.0) -> None:
        while not self._over:
            if wait_s:
                await asyncio.sleep(wait_s)
            try:
                connection = await self._open()
            except MagnetarError as error:
                wait_s = self._backoff.next_s(error)
                if self._fatal(error, self._first):
                    if self._first:
                        raise
                    self._end(error)
                    return
                if self._first:
                    wait_s = self._first_wait(error, wait_s)
                log.info("attach_failed", topic=self.topic, why=error, again_s=round(wait_s, 3))
                continue
            if connection.closed or self.connection is not connection:
                wait_s = self._wait_s()  # lost or moved after the reply and before this line
                continue
            self._backoff.reset()
            self._first = False
            return

    async def _open(self) -> Connection:
        hint, self._hint = self._hint, ""
        route = Route(hint) if hint else await self._lookup.broker(self.topic)
        connection = await self._lookup.pool.get(route.url, proxied=route.proxied)
        attempt, self.attempts = self.attempts, self.attempts + 1
        self.connection = connection
        try:
            await self._opening(connection, attempt)
        except BaseException:
            self.connection = None
            raise
        return connection

    def _first_wait(self, error: MagnetarError, wait_s: float) -> float:
        elapsed_s = self._runtime.monotonic() - self._begun
        wait = wait_of(error, wait_s, elapsed_s=elapsed_s, timeout_s=self._timeout_s)
        if wait is None:
            raise self._too_late(error, elapsed_s) from None
        return wait

    def _too_late(self, error: MagnetarError, elapsed_s: float) -> MagnetarError:
        if isinstance(error, Unreachable):
            return unreachable(error, elapsed_s)
        if error.outcome is Outcome.INDEFINITE:
            return error
        return TimedOut(f"not attached within {self._timeout_s:g} s, last error: {error}", topic=self.topic)

    def _end(self, error: MagnetarError) -> None:
        self._over = True
        log.warning("attachment_ended", topic=self.topic, why=error)
        self._ended(error)

    def _failed(self, name: str, error: BaseException) -> None:
        if not isinstance(error, MagnetarError):  # errors of the first attach go to its caller
            log.crashed("attach_crashed", error, topic=self.topic)
            if not self._first:
                self._end(MagnetarError(f"the attach failed with an unexpected error: {error!r}"))

"""The connections of one client: one per broker and route, shared by all its producers, consumers and watches.

Two callers that request the same broker at the same time get the same connection. The pool does not keep connections
alive: it drops a connection that ended, and a caller that still needs one requests it again.
"""

from __future__ import annotations

import asyncio

from magnetar.base.errors import BadFrame, Closed, MagnetarError, NotReady, Unreachable
from magnetar.base.limits import CLIENT_CLOSE_S, CLIENT_CONNECT_S
from magnetar.client.connection.address import address
from magnetar.client.connection.connection import Connection
from magnetar.client.connection.outage import Outages, is_refused, reason
from magnetar.observe.log import get
from magnetar.runtime.runtime import Owner, Runtime

log = get("client.pool")


class Pool:
    def __init__(
        self, runtime: Runtime, *, connect_s: float = CLIENT_CONNECT_S, close_s: float = CLIENT_CLOSE_S
    ) -> None:
        self.runtime = runtime
        self.closed = False
        self.reached = False  # whether any broker was ever reached
        self._connect_s = connect_s
        self._close_s = close_s
        self._owner = Owner("client.pool", self._failed)
        self._open: dict[tuple[str, str], Connection] = {}
        self._opening: dict[tuple[str, str], asyncio.Task[Connection]] = {}
        self._ids = 0
        self._outages = Outages()

    def next_id(self) -> int:
        """An id for a producer, a consumer or a watcher, unique on every connection of this client."""
        self._ids += 1
        return self._ids - 1

    async def get(self, url: str, *, proxied: str = "") -> Connection:
        """The connection to a broker, created if missing. If `url` is that of a proxy, `proxied` is the broker's host
        and port.
        """
        if self.closed:
            raise Closed("the client is closed")
        key = (url, proxied)
        opening = self._open.get(key)
        if opening is not None and not opening.closed and opening.why is None:
            return opening
        task = self._opening.get(key)
        if task is None:
            task = self.runtime.spawn(self._owner, self._connect(url, proxied))
            self._opening[key] = task
            task.add_done_callback(lambda done: self._opening.pop(key, None))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise Closed("the client is closed") from None
            raise

    async def close(self) -> None:
        self.closed = True
        connections = list(self._open.values())
        for connection in connections:
            connection.close()
        await self._owner.close()
        try:
            async with asyncio.timeout(self._close_s):
                for connection in connections:
                    await connection.wait_closed()
        except TimeoutError:  # the peer does not read: drop the bytes that are left
            for connection in connections:
                connection.abort(Closed("the client is closed"))

    async def _connect(self, url: str, proxied: str) -> Connection:
        try:
            connection = await self._made(url, proxied)
        except MagnetarError as error:
            self._report_failure(url, error)
            raise
        self._open[(url, proxied)] = connection
        self.reached = True
        outage_s = self._outages.ended(url, self.runtime.monotonic())
        facts = {} if outage_s is None else {"outage_s": round(outage_s, 3)}
        log.info(
            "connection_opened",
            url=url,
            server=connection.server_version,
            protocol=connection.protocol_version,
            **facts,
        )
        return connection

    async def _made(self, url: str, proxied: str) -> Connection:
        where = address(url)
        loop = asyncio.get_running_loop()
        connection: Connection | None = None
        try:
            async with asyncio.timeout(self._connect_s):
                _, connection = await loop.create_connection(
                    lambda: Connection(url, proxied=proxied, ended=self._forget), where.host, where.port
                )
                await connection.connected()
        except TimeoutError:
            error = NotReady(f"the broker did not accept the connection within {self._connect_s:g} s", url=url)
            if connection is not None:
                connection.abort(error)
            raise error from None
        except OSError as error:
            kind = Unreachable if is_refused(error) and not self.reached else NotReady
            raise kind(f"cannot connect: {reason(error)}", url=url) from None
        except BaseException as error:
            if connection is not None:
                why = error if isinstance(error, MagnetarError) else Closed("the client is closed")
                connection.abort(why)
                if isinstance(connection.why, BadFrame) and not self.reached:  # waiting longer does not help
                    raise Unreachable(str(error), url=url) from None
            raise
        if connection.closed or self.closed:
            connection.close()
            raise NotReady("the connection ended immediately after it was opened", url=url)
        return connection

    def _report_failure(self, url: str, error: MagnetarError) -> None:
        """Log the first failure of an outage as a warning, then one per minute; the others at level info."""
        due = None if self.closed else self._outages.failed(url, self.runtime.monotonic())
        if due is None:
            log.info("connection_failed", url=url, why=error)
            return
        attempts, outage_s = due
        log.warning("connection_failed", url=url, why=error.what, attempts=attempts, outage_s=round(outage_s, 3))

    def _forget(self, connection: Connection) -> None:
        key = (connection.url, connection.proxied)
        if self._open.get(key) is not connection:
            return
        del self._open[key]
        if self.closed:
            log.info("connection_closed", url=connection.url, why=connection.why)
            return
        self._outages.lost(connection.url, self.runtime.monotonic())
        log.warning("connection_lost", url=connection.url, why=connection.why)

    def _failed(self, name: str, error: BaseException) -> None:
        if not isinstance(error, MagnetarError):  # callers of `get` receive those
            log.crashed("connection_attempt_crashed", error)

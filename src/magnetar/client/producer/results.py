"""Delivers the result of each message exactly once: to its callback, or to `flush` if it has none. Counts failures.

Results are delivered in the order of storing. Callbacks are user code: an exception is logged and does not stop the
others.
"""

from __future__ import annotations

import asyncio

from magnetar.base.errors import ConnectionLost, MagnetarError
from magnetar.client.producer.config import Counters
from magnetar.client.producer.fields import Done
from magnetar.client.producer.pending import PendingSend
from magnetar.observe.log import get
from magnetar.wire.ids import MessageId

log = get("client.results")


class SendResults:
    def __init__(self, counters: Counters, partition: int) -> None:
        self.unreported: MagnetarError | None = None  # the first failure of a message without a callback
        self._counters = counters
        self._partition = partition
        self._flushers: list[tuple[PendingSend, asyncio.Future[None]]] = []

    def stored(self, op: PendingSend, ledger: int, entry: int) -> None:
        if op.whole is not None and op.whole.first is None:
            op.whole.first = (ledger, entry)
        if op.dones:
            first = None if op.whole is None or op.whole.first is None else MessageId(*op.whole.first, self._partition)
            for place, done in op.dones:
                if op.count == 1:
                    id = MessageId(ledger, entry, self._partition, first_chunk=first)
                else:
                    id = MessageId(ledger, entry, self._partition, place, op.count)
                tell(done, id, None)
        if self._flushers:
            self._wake()

    def failed(self, op: PendingSend, error: MagnetarError) -> None:
        self.refused(op.dones, op.count, error)
        if self._flushers:
            self._wake()

    def refused(self, dones: list[tuple[int, Done]], count: int, error: MagnetarError) -> None:
        """Fail messages that never became an entry."""
        self._counters.errors += count
        for _, done in dones:
            tell(done, None, error)
        if len(dones) < count and self.unreported is None:
            self.unreported = error

    def until_over(self, op: PendingSend) -> asyncio.Future[None]:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flushers.append((op, future))
        return future

    def raise_unreported(self) -> None:
        error, self.unreported = self.unreported, None
        if error is not None:
            raise error

    def _wake(self) -> None:
        waiting = []
        for op, future in self._flushers:
            if not op.over:
                waiting.append((op, future))
            elif not future.done():
                future.set_result(None)
        self._flushers = waiting


def unsure(op: PendingSend, error: MagnetarError) -> MagnetarError:
    """The error for an entry that was given up after it was written: it may be stored."""
    reason = ConnectionLost(
        f"no receipt before the producer gave up, the message may be stored: {error}", sequence=op.sequence
    )
    reason.__cause__ = error
    return reason


def tell(done: Done, id: MessageId | None, error: MagnetarError | None) -> None:
    try:
        done(id, error)
    except Exception as raised:  # from user code, within ours
        log.crashed("callback_crashed", raised)

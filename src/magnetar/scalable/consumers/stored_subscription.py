"""The record of one stream subscription, as the term that leads its topic keeps it: written over what stands there,
read again when another has written. Refuses to go on where that means that the term, or the subscription, is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from magnetar.base.errors import BadVersion, MagnetarError, NotReady
from magnetar.base.limits import CALL_RETRY_S_MAX, CALL_RETRY_S_MIN
from magnetar.observe.log import get
from magnetar.scalable.consumers.assignment import removed
from magnetar.scalable.record.subscription import Subscription, SubscriptionState

if TYPE_CHECKING:
    from magnetar.scalable.leader import term

log = get("controller")


class StoredSubscription:
    """`one` is the record as last read or written. `ended` is called if the subscription or its topic was removed."""

    def __init__(
        self, leading: term.Term, subscription: Subscription, version: int, *, ended: Callable[[MagnetarError], None]
    ) -> None:
        self.one = subscription
        self._term = leading
        self._version = version
        self._ended = ended

    async def store(self, change: Callable[[Subscription], Subscription]) -> None:
        """Over what stands there, until it is written. NotFound, NotReady: it is not ours to write."""
        wait_s = CALL_RETRY_S_MIN
        while True:
            changed = change(self.one)
            if changed == self.one:
                return
            try:
                records = self._term.context.records
                self._version = await records.write_subscription(self._term.name, changed, self._version)
                self.one = changed
                return
            except BadVersion:
                await self.look()
            except MagnetarError as error:
                self._silent(error)
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, CALL_RETRY_S_MAX)
                await self.look()

    async def look(self) -> None:
        """Read the record again; another's write may mean that this term is over."""
        records = self._term.context.records
        while True:
            try:
                stored, version = await records.subscription(self._term.name, self.one.name)
                record, _ = await records.fresh(self._term.name)
                break
            except MagnetarError as error:
                self._silent(error)
                await asyncio.sleep(CALL_RETRY_S_MAX)
        if record is None or record.term != self._term.number:
            self._term.refused("another leader wrote the subscription's record")
            raise NotReady("another broker leads the topic: try again")
        if stored is None or stored.life != self.one.life or stored.standing is not SubscriptionState.LIVE:
            why = removed(self.one.name, record, self._term.incarnation)
            self._ended(why)
            raise why
        self.one, self._version = stored, version

    def _silent(self, error: MagnetarError) -> None:
        log.warning("store_request_failed", topic=str(self._term.name), subscription=self.one.name, error=str(error))

"""The live brokers: those whose registration is in the store. The list is read on demand and kept until an event says
that it may have changed.

A dead broker stays in the list until its session ends, and a new one may be missing until its event arrives. A caller
that decides by this list must be correct in both cases.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from magnetar.cluster.ownership import Broker
from magnetar.cluster.registration import member_of
from magnetar.metadata import paths
from magnetar.metadata.store import Event, MetadataStore, Session
from magnetar.observe.log import get

log = get("cluster")


class Brokers:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._kept: Mapping[str, Broker] | None = None
        self._heard = 0  # changes heard of: a list read while one came is answered but not kept
        self._stops = [store.subscribe(paths.BROKERS, self._changed), store.on_session(self._session)]

    async def live(self) -> Mapping[str, Broker]:
        """The live brokers, ordered by id."""
        if self._kept is not None:
            return self._kept
        heard = self._heard
        brokers: dict[str, Broker] = {}
        async for broker_id, node in self._store.scan(paths.BROKERS):
            try:
                brokers[broker_id] = member_of(broker_id, node.value)
            except (msgspec.MsgspecError, ValueError) as error:
                log.warning("broker_registration_decode_failed", broker=broker_id, error=str(error))
        if heard == self._heard:
            self._kept = brokers
        return brokers

    def close(self) -> None:
        for stop in self._stops:
            stop()

    def _changed(self, event: Event) -> None:
        self._forget()

    def _session(self, session: Session) -> None:
        self._forget()

    def _forget(self) -> None:
        self._heard += 1
        self._kept = None

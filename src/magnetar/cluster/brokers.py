"""The live brokers: those whose registration is in the store, and the one that they elected as their leader.

The list is read on demand and kept until an event says that it may have changed. A dead broker stays in the list until
its session ends, and a new one may be missing until its event arrives. A caller that decides by this list must be
correct in both cases. The leader has no task yet: it is for tools that ask for it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from magnetar.cluster.ownership import Broker, Urls
from magnetar.cluster.registration import member_of
from magnetar.metadata import paths
from magnetar.metadata.election import Election
from magnetar.metadata.store import Event, MetadataStore, Session
from magnetar.observe.log import get
from magnetar.runtime.runtime import Runtime

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


class LeaderRecord(msgspec.Struct, frozen=True, kw_only=True):
    """/loadbalance/leader. `process` distinguishes a broker from its earlier process at the same address."""

    serviceUrl: str
    brokerId: str = ""
    process: str = ""  # Magnetar's: Pulsar ignores it


class BrokerLeader:
    """One candidate: this broker, from `start` to `close`. The election is repeated after a new session."""

    def __init__(self, store: MetadataStore, runtime: Runtime) -> None:
        self._store = store
        self._runtime = runtime
        self._election: Election | None = None

    def start(self, me: Broker, process: str) -> None:
        record = LeaderRecord(serviceUrl=me.urls.http or me.urls.https, brokerId=me.id, process=process)
        self._election = Election(self._store, self._runtime, paths.LEADER, msgspec.json.encode(record))
        self._election.start()

    async def leader(self) -> Broker | None:
        """None: this broker is not a candidate. TimedOut: the election has no result yet."""
        if self._election is None:
            return None
        record = msgspec.json.decode(await self._election.leader(), type=LeaderRecord)
        return Broker(record.brokerId or record.serviceUrl.partition("://")[2], Urls(http=record.serviceUrl))

    async def close(self) -> None:
        """Steps down if this broker leads."""
        election, self._election = self._election, None
        if election is not None:
            await election.close()

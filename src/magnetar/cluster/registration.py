"""The values of two ephemeral records with Pulsar's fields: the registration of a broker, and the record of an owned
bundle.

Both are compared byte for byte with the stored value. So nothing in them changes while a process lives. Each process of
a broker has its own token in them: a broker that starts again, and another broker with the same address, write other
bytes. Unknown fields of other brokers are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from magnetar.base.errors import Misuse
from magnetar.base.hosts import is_loopback
from magnetar.cluster.ownership import Broker, Urls
from magnetar.runtime.runtime import Runtime


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a broker. It differs from an earlier one, and from a second one with the same address."""

    token: str = ""
    started_ms: int = 0

    def __str__(self) -> str:
        started = datetime.fromtimestamp(self.started_ms / 1000, UTC).isoformat(timespec="seconds")
        return f"process {self.token or 'unknown'}, started {started if self.started_ms else 'at an unknown time'}"


def new_process(runtime: Runtime) -> Process:
    started_ms = runtime.wall()
    return Process(f"{started_ms:x}-{runtime.rng('process-token').getrandbits(64):016x}", started_ms)


def check_advertised(host: str, bind: str) -> None:
    """Misuse: other machines would connect to themselves under this name, and two brokers would have one address."""
    if host.lower() == "localhost" or (is_loopback(host) and not is_loopback(bind)):
        raise Misuse(
            f"advertisedAddress must be a name or an address that other machines reach, got {host}: each broker of a "
            "cluster needs its own"
        )


_UNKNOWN = Process()


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    brokerServiceUrl: str | None = None
    brokerServiceUrlTls: str | None = None
    brokerHttpUrl: str | None = None
    brokerHttpsUrl: str | None = None


class OwnerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """/namespace/<tenant>/<namespace>/<range>"""

    brokerId: str | None = None
    nativeUrl: str | None = None
    nativeUrlTls: str | None = None
    httpUrl: str | None = None
    httpUrlTls: str | None = None
    disabled: bool = False
    advertisedListeners: dict[str, Listener] = {}
    process: str = ""  # Magnetar's: Pulsar ignores it


class BrokerRegistration(msgspec.Struct, frozen=True, kw_only=True):
    """/loadbalance/brokers/<broker id>"""

    brokerId: str | None = None
    webServiceUrl: str | None = None
    webServiceUrlTls: str | None = None
    pulsarServiceUrl: str | None = None
    pulsarServiceUrlTls: str | None = None
    advertisedListeners: dict[str, Listener] = {}
    startTimestamp: int = 0
    process: str = ""


def owner_value(broker: Broker, process: Process = _UNKNOWN) -> bytes:
    urls = broker.urls
    return msgspec.json.encode(
        OwnerRecord(
            brokerId=broker.id,
            nativeUrl=urls.broker or None,
            nativeUrlTls=urls.broker_tls or None,
            httpUrl=urls.http or None,
            httpUrlTls=urls.https or None,
            advertisedListeners=listeners_of(broker),
            process=process.token,
        )
    )


def owner_of(value: bytes) -> Broker:
    """Raises msgspec's errors for bytes that are not an owner record."""
    record = msgspec.json.decode(value, type=OwnerRecord)
    urls = Urls(record.nativeUrl or "", record.nativeUrlTls or "", record.httpUrl or "", record.httpUrlTls or "")
    # A broker before Pulsar 3 does not say its id: host and port of its web address are what it is made of.
    broker_id = record.brokerId or (urls.http or urls.https).partition("://")[2]
    return Broker(broker_id, urls, listener_urls(record.advertisedListeners))


def member_value(broker: Broker, process: Process = _UNKNOWN) -> bytes:
    urls = broker.urls
    return msgspec.json.encode(
        BrokerRegistration(
            brokerId=broker.id,
            webServiceUrl=urls.http or None,
            webServiceUrlTls=urls.https or None,
            pulsarServiceUrl=urls.broker or None,
            pulsarServiceUrlTls=urls.broker_tls or None,
            advertisedListeners=listeners_of(broker),
            startTimestamp=process.started_ms,
            process=process.token,
        )
    )


def member_of(broker_id: str, value: bytes) -> Broker:
    """The broker that is registered with this id."""
    registration = msgspec.json.decode(value, type=BrokerRegistration)
    urls = Urls(
        registration.pulsarServiceUrl or "",
        registration.pulsarServiceUrlTls or "",
        registration.webServiceUrl or "",
        registration.webServiceUrlTls or "",
    )
    return Broker(broker_id, urls, listener_urls(registration.advertisedListeners))


def process_of(value: bytes) -> Process:
    """The process that wrote a registration."""
    registration = msgspec.json.decode(value, type=BrokerRegistration)
    return Process(registration.process, registration.startTimestamp)


def listeners_of(broker: Broker) -> dict[str, Listener]:
    """In the order of their names, because records are compared by their bytes."""
    return {
        name: Listener(
            brokerServiceUrl=urls.broker or None,
            brokerServiceUrlTls=urls.broker_tls or None,
            brokerHttpUrl=urls.http or None,
            brokerHttpsUrl=urls.https or None,
        )
        for name, urls in sorted(broker.listeners.items())
    }


def listener_urls(listeners: dict[str, Listener]) -> dict[str, Urls]:
    return {
        name: Urls(
            found.brokerServiceUrl or "",
            found.brokerServiceUrlTls or "",
            found.brokerHttpUrl or "",
            found.brokerHttpsUrl or "",
        )
        for name, found in listeners.items()
    }

"""The bytes in the lock of a scalable topic: which broker leads it, and how it is reached.

Versioned JSON; unknown fields are ignored, and any other content is `Corrupt`.
"""

from __future__ import annotations

import msgspec

from magnetar.base import validation
from magnetar.base.errors import Corrupt
from magnetar.cluster.ownership import Broker, Urls
from magnetar.cluster.registration import Listener, listener_urls, listeners_of


class _Form(msgspec.Struct, omit_defaults=True):
    v: int
    brokerId: str
    brokerServiceUrl: str = ""
    brokerServiceUrlTls: str = ""
    webServiceUrl: str = ""
    webServiceUrlTls: str = ""
    advertisedListeners: dict[str, Listener] = {}


def encode_leader(broker: Broker) -> bytes:
    urls = broker.urls
    data = msgspec.json.encode(
        _Form(1, broker.id, urls.broker, urls.broker_tls, urls.http, urls.https, listeners_of(broker))
    )
    if validation.enabled:
        assert decode_leader(data) == Broker(broker.id, urls, broker.listeners), "a leader reads back as it was written"
    return data


def decode_leader(data: bytes) -> Broker:
    try:
        form = msgspec.json.decode(data, type=_Form)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt("expected the record of a controller", why=str(error)) from error
    urls = Urls(form.brokerServiceUrl, form.brokerServiceUrlTls, form.webServiceUrl, form.webServiceUrlTls)
    return Broker(form.brokerId, urls, listener_urls(form.advertisedListeners))

"""The answer of an HTTP lookup. `brokerUrlTls` is always set: the stock C++ client crashes without it."""

from __future__ import annotations

import msgspec


class LookupData(msgspec.Struct, frozen=True):
    brokerId: str = ""  # released Pulsar does not send it
    brokerUrl: str = ""
    httpUrl: str = ""
    nativeUrl: str = ""
    brokerUrlTls: str = ""
    httpUrlTls: str = ""
    brokerUrlSsl: str = ""

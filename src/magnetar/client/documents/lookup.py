"""The answer of an HTTP lookup. `brokerUrlTls` is always there: the stock C++ client dies without it."""

from __future__ import annotations

import msgspec


class LookupData(msgspec.Struct, frozen=True):
    brokerId: str = ""  # released Pulsar does not say it
    brokerUrl: str = ""
    httpUrl: str = ""
    nativeUrl: str = ""
    brokerUrlTls: str = ""
    httpUrlTls: str = ""
    brokerUrlSsl: str = ""

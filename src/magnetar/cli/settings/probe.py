"""Checks whether a broker answers: on its binary port and on its REST interface, each with version and latency.

It always asks both. An error becomes part of the result.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from magnetar.base.errors import MagnetarError
from magnetar.cli.output.values import Duration


@dataclass(frozen=True, slots=True)
class ProbeResult:
    what: str
    url: str
    ok: bool
    version: str | None = None
    took_s: float | None = None
    why: str | None = None

    @property
    def latency(self) -> Duration | None:
        return None if self.took_s is None else Duration(self.took_s)

    @property
    def document(self) -> dict[str, Any]:
        latency_ms = None if self.took_s is None else round(self.took_s * 1000, 1)
        return {
            "what": self.what,
            "url": self.url,
            "ok": self.ok,
            "version": self.version,
            "latencyMs": latency_ms,
            "why": self.why,
        }


def reach(url: str, admin_url: str, *, token: str | None, timeout_s: float) -> list[ProbeResult]:
    return [asyncio.run(_broker(url, timeout_s)), _rest(admin_url, token, timeout_s)]


async def _broker(url: str, timeout_s: float) -> ProbeResult:
    from magnetar.client.connection.address import addresses
    from magnetar.client.connection.connection import Connection

    loop = asyncio.get_running_loop()
    why = ""
    try:
        for address in addresses(url):
            begun = loop.time()
            try:
                async with asyncio.timeout(timeout_s):
                    _, connection = await loop.create_connection(lambda: Connection(url), address.host, address.port)
                    try:
                        await connection.connected()
                        return ProbeResult("broker", url, True, connection.server_version, loop.time() - begun)
                    finally:
                        connection.close()
                        await connection.wait_closed()
            except TimeoutError:
                why = f"no answer within {timeout_s:g} s"
            except OSError as error:
                why = error.strerror or str(error)
    except MagnetarError as error:
        why = str(error)
    return ProbeResult("broker", url, False, why=why)


def _rest(url: str, token: str | None, timeout_s: float) -> ProbeResult:
    from magnetar.client.admin.responses import RestResponse
    from magnetar.client.admin.sync.admin import Admin

    heard: list[RestResponse] = []
    try:
        with Admin(url, token=token, timeout_s=timeout_s, on_answer=heard.append) as admin:
            version = admin.brokers.version()
    except MagnetarError as error:
        return ProbeResult("REST", url, False, why=str(error))
    return ProbeResult("REST", url, True, version, heard[-1].took_s)

"""Requests over REST that a client might send, sound and unsound, over all routes, on topics with odd messages.

A seed decides a sequence. It is built before the broker gets any of it, so that building costs no turn of its loop.
"""

from __future__ import annotations

import re
from random import Random
from urllib.parse import quote

from magnetar.admin.request import JSON, Request
from magnetar.admin.router import table
from magnetar.base.limits import HTTP_BODY_BYTES_MAX
from magnetar.wire.proto import pb
from tests.unit.admin.resources.test_messages import ODD, an_odd_entry

REQUESTS = 60
TOPICS = ("t", "empty", "none", "x" * 300, "\u00e9", "a%2Fb", "..")
NUMBERS = ("0", "1", "2", "-1", str(2**63), str(2**64), "1e9", "x")
QUERIES = ("force", "authoritative", "subscriptionBacklogSize", "messagePosition", "initialPosition", "limit", "after")
TEXTS = ("", "true", "false", "1", "earliest", "-1", "x" * 1_000, "\u0000", str(2**64))
BODIES = (b"", b"null", b"{}", b"[]", b"true", b"-1", b"1e400", b'"earliest"', b'{"a":"b"}', b"{", b"\xff", b"[1,2]")
COMPRESSED = {
    f"broken {pb.CompressionType.Name(kind)}": an_odd_entry(1, (8, kind), (9, size))
    for kind in (pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY)
    for size in (0, 7, 2**31 - 1)
}


class RestSequence:
    def __init__(self, seed: int) -> None:
        self.chance = Random(f"rest {seed}")

    def entries(self) -> list[bytes]:
        """Messages as a topic stores them, in the order in which they are published."""
        entries = [*ODD.values(), *COMPRESSED.values()]
        self.chance.shuffle(entries)
        return entries[:12]

    def requests(self) -> list[Request]:
        return [self._request() for _ in range(REQUESTS)]

    def _request(self) -> Request:
        chance = self.chance
        route = chance.choice(table().routes)
        query = {name: chance.choice(TEXTS) for name in QUERIES if chance.random() < 0.2}
        body = b"" if route.method == "GET" else self._body()
        headers = {"content-type": JSON if chance.random() < 0.9 else "text/plain"}
        path = re.sub(r"{(\w+)}", lambda part: self._part(part[1]), route.path)
        return Request(route.method, path, query, headers, body, pairs=list(query.items()))

    def _part(self, name: str) -> str:
        chance = self.chance
        if chance.random() < 0.05:
            return quote(chance.choice(TEXTS) or "x", safe="")
        usual = {"tenant": ("public",), "namespace": ("default", "default", "none"), "topic": TOPICS[:3] * 3 + TOPICS}
        usual |= {"subscription": ("s", "s", "none"), "bundle": ("0x00000000_0xffffffff", "0x0_0x1")}
        return chance.choice(usual.get(name, NUMBERS))

    def _body(self) -> bytes:
        chance = self.chance
        size = chance.choice((10, 1_000, 100_000, HTTP_BODY_BYTES_MAX - 10))
        grown = (
            b"[" * size,
            b'"' + b"x" * size + b'"',
            b'{"k":"' + b"v" * size + b'"}',
            b"[" + b"1," * (size // 2) + b"1]",
        )
        return chance.choice(BODIES if chance.random() < 0.7 else grown)

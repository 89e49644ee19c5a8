"""Calls between brokers about a broker itself, whichever topics it owns: REST requests and lists of loaded topics.

The receiver answers such a call alone. It calls no other broker for it, so calls never form a loop. This module
contains the calls and their answers as values; a `PeerTransport` (`cluster/calls/topic_calls.py`) delivers them.
"""

from __future__ import annotations

import msgspec

from magnetar.base.errors import MagnetarError, Unavailable, Unknown


class AdminCall(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A REST request about one topic of the receiver, or about the receiver. `principal`: the role of the client that
    sent it; the receiver checks its permission again."""

    method: str
    path: str  # percent-encoded
    query: dict[str, str] = {}
    body: bytes = b""  # JSON
    principal: str | None = None

    def __repr__(self) -> str:
        return f"AdminCall({self.method} {self.path}, {len(self.body)} bytes)"


class AdminAnswer(msgspec.Struct, frozen=True, tag=True):
    """The response of a successful request. An error is not an answer: the caller receives it as an error."""

    status: int
    body: bytes = b""

    def __repr__(self) -> str:
        return f"AdminAnswer({self.status}, {len(self.body)} bytes)"


class ListLoaded(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """Asks for the non-persistent topics of a namespace that the receiver has loaded: only their broker knows them."""

    namespace: str


class LoadedNames(msgspec.Struct, frozen=True, tag=True):
    names: tuple[str, ...]


BrokerRequest = AdminCall | ListLoaded
BrokerAnswer = AdminAnswer | LoadedNames


def at_broker(error: MagnetarError, broker_id: str) -> MagnetarError:
    """The same error with the broker that did not answer. A refusal is unchanged: every broker refuses with the same
    words."""
    if not isinstance(error, Unavailable | Unknown):
        return error
    outcome = "the operation may have happened there" if isinstance(error, Unknown) else "nothing happened there"
    words = f"broker {broker_id}: {error.what}; {outcome}"
    return type(error)(words, wire_code=error.wire_code, http_status=error.http_status)

"""The way back to a client, as a topic sees it: bytes out, in order, and whether more may follow.

The broker's connection keeps this contract, and so does the one of tests. A topic uses no socket.
"""

from __future__ import annotations

from typing import Protocol


class ClientChannel(Protocol):
    generation: int  # a new number for each connection: distinguishes a reconnected peer from the old one
    peer: str  # for people: "127.0.0.1:50412"
    client_version: str
    protocol_version: int
    congested: bool  # the peer does not read: push nothing more until `resumed` is called
    closed: bool

    def write(self, data: bytes) -> None:
        """Send these bytes after all earlier ones; dropped once closed."""
        ...

    def write_soon(self, data: bytes) -> None:
        """As `write`, but no later than the end of this iteration of the event loop: such writes to one peer leave
        together, and before later writes.
        """
        ...

    def released(self, size: int) -> None:
        """The broker has released these bytes of a publish: the connection may read its socket again."""
        ...

    async def alive(self) -> bool:
        """Whether the peer still answers; a dead one's connection is closed. Asked before a newcomer is refused on its
        account.
        """
        ...

    async def round_trip(self) -> bool:
        """Until the peer has answered to a PING that was sent now: it has read everything that was written before."""
        ...

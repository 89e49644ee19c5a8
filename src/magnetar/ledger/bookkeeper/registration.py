"""The registration of a bookie: the address of its wire, and the racks that an operator gave to bookies.

A bookie without a value in its registration has the address as its id. Racks are read from Pulsar's record of them; a
record that cannot be read places bookies without racks.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError

from magnetar.base.errors import Corrupt
from magnetar.ledger.bookkeeper.generated import bookkeeper_pb2 as pb

PROTOCOL = "bookie-rpc"


class Address(NamedTuple):
    host: str
    port: int


def address_of(bookie: str, value: bytes) -> Address:
    """Corrupt: neither the value nor the id is an address."""
    try:
        info = pb.BookieServiceInfoFormat.FromString(value)
    except DecodeError as error:
        raise Corrupt("the registration of a bookie is damaged", bookie=bookie, why=str(error)) from None
    for endpoint in info.endpoints:
        if endpoint.protocol == PROTOCOL:
            return Address(endpoint.host, endpoint.port)
    return address_of_id(bookie)


def address_of_id(bookie: str) -> Address:
    """An id of the form `host:port`."""
    host, colon, port = bookie.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
        raise Corrupt("the id of a bookie is not its address, and its registration has none", bookie=bookie)
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


def registration(bookie: str, address: Address) -> bytes:
    """The value that a bookie registers."""
    info = pb.BookieServiceInfoFormat()
    info.endpoints.add(id="bookie", port=address.port, host=address.host, protocol=PROTOCOL)
    info.properties["bookie"] = bookie
    return info.SerializeToString()


def racks_of(value: bytes) -> dict[str, str]:
    """Racks by bookie, from Pulsar's record: groups of bookies, each with its rack."""
    try:
        groups = json.loads(value)
    except ValueError:
        return {}
    racks: dict[str, str] = {}
    for members in _items(groups).values():
        for bookie, about in _items(members).items():
            rack = _items(about).get("rack")
            if isinstance(rack, str) and rack:
                racks[bookie] = rack
    return racks


def _items(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}

"""Limits for the names and properties that the broker stores for producers and consumers.

There is a bound for each of them, for all of one connection, and for all connections of the broker. A request beyond a
bound is refused before it has an effect, and nothing is truncated: an application that relies on a property must not
find a part of it. This module decides only; handlers ask it and report additions and removals.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from magnetar.base.errors import LimitExceeded
from magnetar.base.limits import (
    CLIENT_OBJECT_BYTES,
    CONNECTION_KEPT_BYTES_MAX,
    GIVEN_PROPERTIES_BYTES_MAX,
    GIVEN_PROPERTIES_MAX,
    KEPT_BYTES_MAX,
    OBJECTS_BYTES_MAX,
)
from magnetar.wire.proto import pb

T = TypeVar("T")


class ClientRequest(Protocol):
    """A PRODUCER or SUBSCRIBE command."""

    @property
    def topic(self) -> str: ...

    @property
    def metadata(self) -> Properties: ...


class Properties(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> pb.KeyValue: ...


class Account:
    """The stored bytes of all connections of a broker: names and properties, and the objects that have them."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX, objects_bytes_max: int = OBJECTS_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.objects_bytes_max = objects_bytes_max
        self.objects_bytes = 0

    def check_objects(self, size: int) -> None:
        """Raises `LimitExceeded` if one more object of this size exceeds the bound."""
        if self.objects_bytes + size > self.objects_bytes_max:
            raise LimitExceeded(
                f"all clients of this broker have too many producers, consumers and watches: their objects must not "
                f"exceed {self.objects_bytes_max} bytes; close some",
                bytes=self.objects_bytes,
            )


class Charged(dict[int, T]):
    """Objects of one connection by their ids. Each is charged to the account while it is here."""

    def __init__(self, account: Account, size: int) -> None:
        super().__init__()
        self._account = account
        self._size = size

    def __setitem__(self, id: int, item: T) -> None:
        if id not in self:
            self._account.objects_bytes += self._size
        super().__setitem__(id, item)

    def __delitem__(self, id: int) -> None:
        super().__delitem__(id)
        self._account.objects_bytes -= self._size

    def pop(self, id: int, default: Any = None) -> Any:
        if id in self:
            self._account.objects_bytes -= self._size
        return super().pop(id, default)

    def clear(self) -> None:
        self._account.objects_bytes -= self._size * len(self)
        super().clear()


class StoredProperties:
    """The stored bytes of one connection, by producer and consumer."""

    def __init__(self, account: Account) -> None:
        self.bytes = 0
        self._account = account
        self._sizes: dict[tuple[str, int], int] = {}

    def check(self, command: ClientRequest, what: str, *names: str) -> int:
        """The bytes that a producer or consumer would store. Raises `LimitExceeded` beyond a bound."""
        size = properties_size(command.metadata, f"a {what}", GIVEN_PROPERTIES_BYTES_MAX)
        size += sum(len(name) for name in names)
        if self.bytes + size > CONNECTION_KEPT_BYTES_MAX:
            raise LimitExceeded(
                f"the names and properties of the producers and consumers of one connection must not exceed "
                f"{CONNECTION_KEPT_BYTES_MAX} bytes: close some, or give them fewer properties",
                bytes=self.bytes,
            )
        if self._account.bytes + size > self._account.bytes_max:
            raise LimitExceeded(
                f"the names and properties of all producers and consumers must not exceed {self._account.bytes_max} "
                "bytes: close some, or give them fewer properties",
                bytes=self._account.bytes,
            )
        self._account.check_objects(CLIENT_OBJECT_BYTES)
        return size

    def add(self, what: str, id: int, size: int) -> None:
        self.remove(what, id)
        self._sizes[what, id] = size
        self._change(size)

    def remove(self, what: str, id: int) -> None:
        self._change(-self._sizes.pop((what, id), 0))

    def clear(self) -> None:
        self._sizes.clear()
        self._change(-self.bytes)

    def _change(self, size: int) -> None:
        self.bytes += size
        self._account.bytes += size


def properties_size(properties: Properties, whose: str, bytes_max: int) -> int:
    """The size of the properties. Raises `LimitExceeded` if there are too many or they are too large."""
    count = len(properties)
    if count > GIVEN_PROPERTIES_MAX:
        text = f"{whose} must have at most {GIVEN_PROPERTIES_MAX} properties, got {count}"
        raise LimitExceeded(text, properties=count)
    size = sum(properties[index].ByteSize() for index in range(count))
    if size > bytes_max:
        text = f"the properties of {whose} must not exceed {bytes_max} bytes, got {size}"
        raise LimitExceeded(text, bytes=size)
    return size

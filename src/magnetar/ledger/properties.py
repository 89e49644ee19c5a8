"""Properties of a topic or a cursor: those of clients and administrators, and those of the broker.

The broker's own properties begin with `magnetar.`. No client may set one: the broker would trust a term or an epoch
that a client wrote. Such a value in a record is still read as a number with a fallback, never trusted to be one.
"""

from __future__ import annotations

from collections.abc import Mapping

from magnetar.base.errors import LimitExceeded, Refused
from magnetar.base.limits import PROPERTY_NUMBER_MAX, STORED_PROPERTIES_BYTES_MAX
from magnetar.observe.log import get

log = get("ledger")

RESERVED = "magnetar."


def check_given(properties: Mapping[str, str]) -> None:
    """Refused: a name is reserved for the broker, or the properties are too large for a record."""
    reserved = sorted(key for key in properties if key.startswith(RESERVED))
    if reserved:
        raise Refused(
            f"property names with {RESERVED} are reserved for the broker, remove these: {', '.join(reserved)[:200]}"
        )
    check_size(properties)


def check_size(properties: Mapping[str, str]) -> None:
    """`LimitExceeded`: they are too large for a record."""
    size = sum(len(f"{key}{value}".encode("utf-8", "replace")) for key, value in properties.items())
    if size > STORED_PROPERTIES_BYTES_MAX:
        raise LimitExceeded(
            f"properties are limited to {STORED_PROPERTIES_BYTES_MAX} bytes: send fewer or shorter ones", bytes=size
        )


def number(properties: Mapping[str, str], name: str, default: int) -> int:
    """A number from a property of the broker; `default` if it is missing or was not written by a broker."""
    text = properties.get(name)
    if text is None:
        return default
    if text.isascii() and text.isdigit() and len(text) <= len(str(PROPERTY_NUMBER_MAX)):
        value = int(text)
        if value <= PROPERTY_NUMBER_MAX:
            return value
    elif text == str(default):
        return default
    log.once("property_ignored", property=name, value=text[:200])
    return default

"""Schemas: how a value becomes the bytes of a message and back, and what the broker is told of it.

Bytes (nothing is told), text, and JSON of a user's own classes: dataclasses, msgspec structs, pydantic models. What a
JSON schema tells the broker is an Avro record derived from the class (`definition`), as stock clients do. Encoding and
decoding trust the class; bytes that do not decode raise what the library raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from magnetar.base.errors import Misuse
from magnetar.client.definition import definition_of
from magnetar.wire.proto import pb

T = TypeVar("T")


class Schema(Protocol[T]):
    def encode(self, value: T) -> bytes: ...

    def decode(self, data: bytes) -> T: ...

    def info(self) -> pb.Schema | None:
        """What PRODUCER and SUBSCRIBE say of it; None: nothing."""
        ...


class Bytes:
    """Messages are bytes and nobody knows more about them."""

    def encode(self, value: bytes) -> bytes:
        if isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise Misuse(f"a producer without a schema sends bytes, not {type(value).__name__}: give it a schema")

    def decode(self, data: bytes) -> bytes:
        return data

    def info(self) -> pb.Schema | None:
        return None


class String:
    """Messages are text in UTF-8."""

    def encode(self, value: str) -> bytes:
        return value.encode()

    def decode(self, data: bytes) -> str:
        return data.decode()

    def info(self) -> pb.Schema | None:
        return pb.Schema(name="String", schema_data=b"", type=pb.Schema.String)


class Json(Generic[T]):
    """Messages are JSON of one class. `definition` replaces what is derived from it."""

    def __init__(self, kind: type[T], *, definition: str | None = None) -> None:
        self.kind = kind
        self._definition = definition
        self._encode, self._decode = _json_codec(kind)

    def encode(self, value: T) -> bytes:
        return self._encode(value)

    def decode(self, data: bytes) -> T:
        return self._decode(data)

    def info(self) -> pb.Schema | None:
        if self._definition is None:
            self._definition = definition_of(self.kind)
        return pb.Schema(
            name=getattr(self.kind, "__name__", "JSON"), schema_data=self._definition.encode(), type=pb.Schema.Json
        )


BYTES = Bytes()
STRING = String()


def _json_codec(kind: type[T]) -> tuple[Callable[[T], bytes], Callable[[bytes], T]]:
    if hasattr(kind, "model_validate_json"):  # pydantic
        model: Any = kind
        return lambda value: value.model_dump_json().encode(), model.model_validate_json
    import msgspec  # here, so that clients without JSON do not pay for it

    return msgspec.json.Encoder().encode, msgspec.json.Decoder(kind).decode

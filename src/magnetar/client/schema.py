"""Schemas: encode a value into the bytes of a message, decode it, and describe the format to the broker.

There are `Bytes` (no description), text, and JSON of a user's own classes: dataclasses, msgspec structs, pydantic
models. A JSON schema sends the broker an Avro record derived from the class (`definition`), as stock clients do. A
value that does not fit is refused before it is sent (`InvalidValue`). Bytes that do not decode raise the error of the
library, which a message turns into `Undecodable`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, get_origin, is_typeddict

from magnetar.base.errors import InvalidValue, Misuse
from magnetar.base.public import public
from magnetar.client.avro.definition import definition_of
from magnetar.wire.proto import pb

T = TypeVar("T")


@public("magnetar")
class Schema(Protocol[T]):
    def encode(self, value: T) -> bytes: ...

    def decode(self, data: bytes) -> T: ...

    def info(self) -> pb.Schema | None:
        """The schema in PRODUCER and SUBSCRIBE; None: no schema."""
        ...


@public("magnetar")
class Bytes:
    """Messages are bytes without a declared format."""

    def __repr__(self) -> str:
        return "Bytes()"

    def encode(self, value: bytes) -> bytes:
        if isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise Misuse(f"expected bytes, got {type(value).__name__}: pass bytes, or give the producer a schema")

    def decode(self, data: bytes) -> bytes:
        return data

    def info(self) -> pb.Schema | None:
        return None


@public("magnetar")
class String:
    """Messages are text in UTF-8."""

    def __repr__(self) -> str:
        return "String()"

    def encode(self, value: str) -> bytes:
        if not isinstance(value, str):
            raise InvalidValue(
                f"a producer of String expects str, got {type(value).__name__}",
                expected="str",
                got=type(value).__name__,
            )
        return value.encode()

    def decode(self, data: bytes) -> str:
        return data.decode()

    def info(self) -> pb.Schema | None:
        return pb.Schema(name="String", schema_data=b"", type=pb.Schema.String)


@public("magnetar")
class Json(Generic[T]):
    """Messages are JSON objects of one class: a dataclass, a msgspec struct, a pydantic model, a TypedDict or a dict.

    `send` refuses a value of another class, and one with a field of another type, with `InvalidValue`. `check=False`
    leaves the fields unchecked: the value is then encoded once and not read back. `definition` replaces the Avro
    definition that is derived from the class; with one, every type that msgspec supports is accepted.
    """

    def __init__(self, kind: type[T], *, definition: str | None = None, check: bool = True) -> None:
        self.kind = kind
        self._name = getattr(kind, "__name__", "JSON")
        if definition is None:
            definition = _definition(kind, self._name)
        self._definition = definition
        self._class = _class_of(kind)
        self._check = check
        self._encode, self._decode = _json_codec(kind)

    def __repr__(self) -> str:
        return f"Json({self._name})"

    def encode(self, value: T) -> bytes:
        if not isinstance(value, self._class):
            got = type(value).__name__
            raise InvalidValue(
                f"a producer of {self._name} expects {self._name}, got {got}", expected=self._name, got=got
            )
        try:
            data = self._encode(value)
            if self._check:
                self._decode(data)  # proves that readers can decode it: as fast as checking each field, and stricter
        except Exception as error:
            raise _misfit(self._name, error) from None
        return data

    def decode(self, data: bytes) -> T:
        return self._decode(data)

    def info(self) -> pb.Schema | None:
        return pb.Schema(name=self._name, schema_data=self._definition.encode(), type=pb.Schema.Json)


BYTES = Bytes()
STRING = String()


def _json_codec(kind: type[T]) -> tuple[Callable[[T], bytes], Callable[[bytes], T]]:
    if hasattr(kind, "model_validate_json"):  # pydantic
        model: Any = kind
        return lambda value: value.model_dump_json(warnings=False).encode(), model.model_validate_json
    import msgspec  # here, so that clients without JSON do not pay for it

    return msgspec.json.Encoder().encode, msgspec.json.Decoder(kind).decode


def _definition(kind: Any, name: str) -> str:
    """Raises Misuse for a type whose values are not JSON objects: no Avro record can describe its messages."""
    text = definition_of(kind)
    document = json.loads(text)
    if isinstance(document, dict) and document["type"] in ("record", "map"):
        return text
    raise Misuse(
        f"Json({name}): the type must describe a JSON object. Use a dataclass, a msgspec struct, a pydantic model or a"
        " dict. For text use String(), or pass Json(..., definition=...) with an Avro definition"
    )


def _class_of(kind: Any) -> Any:
    """The class for `isinstance`. Types that `isinstance` does not accept are left to the check of the fields."""
    if is_typeddict(kind):
        return dict
    origin = get_origin(kind) or kind
    return origin if isinstance(origin, type) else object


_MISFIT = re.compile(r"Expected `(?P<expected>.+?)`, got `(?P<got>.+?)`(?: - at `\$\.?(?P<field>.*)`)?$")


def _misfit(name: str, error: Exception) -> InvalidValue:
    """Names the field, the expected type and the actual type, taken from the message of the library's error."""
    errors = getattr(error, "errors", None)
    if callable(errors) and errors():  # pydantic
        first = errors()[0]
        field, got = ".".join(map(str, first["loc"])), type(first.get("input")).__name__
        facts = {"field": field, "expected": first["type"], "got": got}
        return InvalidValue(f"the value does not fit {name}: field {field}: {first['msg']}, got {got}", **facts)
    match = _MISFIT.match(str(error))
    if match is None:
        return InvalidValue(f"the value does not fit {name}: {error}")
    field, expected, got = match["field"] or "", match["expected"], match["got"]
    where = f"field {field} " if field else "it "
    return InvalidValue(
        f"the value does not fit {name}: {where}must be {expected}, got {got}", field=field, expected=expected, got=got
    )

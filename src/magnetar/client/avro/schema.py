"""The schema `Avro`: messages are binary Avro values of a user's own class, as other clients of Pulsar write them.

fastavro encodes and decodes; it comes with the extra `avro`. A consumer decodes each message by the definition that
its writer registered (`reading`), and by its own, so that fields may come and go by Avro's rules. A definition of
another producer is trusted only after `safety` has checked it.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from types import ModuleType
from typing import Any, Generic, TypeVar, is_typeddict

from magnetar.base.errors import InvalidValue, Misuse
from magnetar.base.public import public
from magnetar.client.avro.definition import definition_of, field_names
from magnetar.client.avro.safety import parse_definition
from magnetar.client.avro.values import Converter, Misfit, converter
from magnetar.wire.proto import pb

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


@public("magnetar")
class Avro(Generic[T]):
    """Messages are binary Avro values of one class: a dataclass, a msgspec struct, a pydantic model, a TypedDict or a
    dict. `pip install 'magnetar[avro]'` installs the Avro library.

    `definition` replaces the Avro definition that is derived from the class; a dict needs one. In a derived definition
    an int is a long and a float a double; an enum has the names of its members; a datetime is microseconds and must
    have a time zone. `send` refuses a value that does not fit with `InvalidValue`. A consumer reads each message by
    the definition of its writer: fields that the class does not have are skipped, and missing ones get their default.
    """

    def __init__(self, kind: type[T], *, definition: str | None = None) -> None:
        self.kind = kind
        self._fastavro = _library()
        self._name = getattr(kind, "__name__", "AVRO")
        if field_names(kind) is None and definition is None:
            raise Misuse(
                f"Avro({self._name}): use a dataclass, a msgspec struct, a pydantic model or a TypedDict. For a dict,"
                " pass Avro(dict, definition=...) with an Avro definition"
            )
        self._definition = definition_of(kind, binary=True) if definition is None else definition
        self._parsed = self._parse(self._definition)
        if not isinstance(self._parsed, dict) or self._parsed.get("type") not in ("record", "map"):
            raise Misuse(f"Avro({self._name}): the definition must be an Avro record or map")
        self._class = dict if is_typeddict(kind) else kind
        # The library takes a dict as it is, and checks it against the definition.
        self._convert = _converter(kind) if field_names(kind) is not None else None

    def __repr__(self) -> str:
        return f"Avro({self._name})"

    def encode(self, value: T) -> bytes:
        if not isinstance(value, self._class):
            got = type(value).__name__
            raise InvalidValue(
                f"a producer of {self._name} expects {self._name}, got {got}", expected=self._name, got=got
            )
        buffer = io.BytesIO()
        try:
            datum = value if self._convert is None else self._convert.out(value)
            self._fastavro.schemaless_writer(buffer, self._parsed, datum, strict_allow_default=True)
        except Misfit as misfit:
            field = ".".join(misfit.path).replace(".[", "[")
            raise InvalidValue(
                f"the value does not fit {self._name}: field {field} must be {misfit.expected}, got {misfit.got}",
                field=field,
                expected=misfit.expected,
                got=misfit.got,
            ) from None
        except Exception as error:  # of the library, which has many
            raise InvalidValue(f"the value does not fit {self._name}: {error}") from None
        return buffer.getvalue()

    def decode(self, data: bytes) -> T:
        """Decodes a value that was written with this schema's own definition."""
        return self._decoded(data, self._parsed)

    def info(self) -> pb.Schema | None:
        return pb.Schema(name=self._name, schema_data=self._definition.encode(), type=pb.Schema.Avro)

    def _reading(self, written: pb.Schema) -> AvroReader[T]:
        """The decoder of messages with another writer's schema. Misuse: values of this schema cannot be read by it."""
        if written.type != pb.Schema.Avro:
            kind = pb.Schema.Type.Name(written.type)
            raise Misuse(f"the message was written with a schema of type {kind}, and this consumer reads Avro")
        if written.schema_data == self._definition.encode():
            return AvroReader(self.kind, self.decode)
        definition = parse_definition(written.schema_data)
        if isinstance(definition, dict) and isinstance(name := definition.get("name"), str) and "name" in self._parsed:
            # Clients name records after classes, so names differ although the records agree.
            ours = str(self._parsed["name"]).rpartition(".")[2]
            definition["name"] = f"{name.rpartition('.')[0]}.{ours}".removeprefix(".")
        writer = self._checked(definition)
        return AvroReader(self.kind, lambda data: self._decoded(data, writer))

    def _decoded(self, data: bytes, writer: Any) -> T:
        source = io.BytesIO(data)
        datum = self._fastavro.schemaless_reader(source, writer, self._parsed)
        if (left := len(data) - source.tell()) > 0:
            raise ValueError(f"{left} bytes follow the value: it was written with another definition")
        value: T = datum if self._convert is None else self._convert.back(datum)
        return value

    def _parse(self, text: str | bytes) -> Any:
        return self._checked(parse_definition(text))

    def _checked(self, definition: Any) -> Any:
        try:
            return self._fastavro.parse_schema(definition)
        except Exception as error:  # of the library, which has many
            raise Misuse(f"the Avro definition is not valid: {error}") from None


class AvroReader(Generic[T_co]):
    """Decodes the values of one writer's definition."""

    def __init__(self, kind: Any, decode: Callable[[bytes], T_co]) -> None:
        self.kind = kind
        self.decode = decode


def _converter(kind: Any) -> Converter:
    try:
        return converter(kind)
    except RecursionError:
        raise Misuse("the class contains itself: a message could nest without a bound. Use Json", given=kind) from None


def _library() -> ModuleType:
    try:
        import fastavro
    except ImportError:
        raise Misuse("Avro needs the package fastavro: run pip install 'magnetar[avro]'") from None
    module: ModuleType = fastavro
    return module

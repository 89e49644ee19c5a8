"""One key of broker.conf and standalone.conf: its form, default, overriding policies and required protection.

There are three kinds of key: honoured (the broker applies it), not honoured (the broker understands it and warns about
other values than the default), and protective. A protective key that is not honoured must not be ignored: `unmet` names
the protection that a value requires, and the settings refuse to load.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from magnetar.base.errors import Misuse

Value = bool | int | float | str | list[str] | None


@dataclass(frozen=True, slots=True)
class Kind:
    name: str  # the expected form, for people
    read: Callable[[str], Value]  # ValueError when the text is not of that form


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    kind: Kind
    default: Value
    doc: str
    dynamic: bool = False  # may be changed while running, through /admin/v2/brokers/configuration
    namespace: str = ""  # the field of the namespace's policies that overrides it, dotted
    topic: str = ""  # the same of the topic's policies
    honoured: bool = True
    protects: str = ""  # the protection that a value other than the default asks for
    harmless: tuple[str, ...] = ()  # further values that ask for none, in lower case

    def unmet(self, text: str) -> str:
        """The protection that this value requires and the broker does not support; empty if none."""
        accepted = text.strip().lower() in (*self.harmless, str(self.default).lower())
        return "" if self.honoured or accepted or self.read(text) == self.default else self.protects

    def read(self, text: str) -> Value:
        """Empty text means the default, as in Pulsar's files."""
        if text.strip() == "":
            return self.default
        try:
            return self.kind.read(text.strip())
        except ValueError:
            raise Misuse(f"{self.name} must be {self.kind.name}", key=self.name, value=text) from None


def _bool(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


def _whole(low: int, high: int = 2**63 - 1) -> Callable[[str], Value]:
    def read(text: str) -> int:
        number = int(text)
        if "_" in text or not low <= number <= high:
            raise ValueError(text)
        return number

    return read


def one_of(*words: str) -> Kind:
    def read(text: str) -> str:
        for word in words:
            if text.lower() == word.lower():
                return word
        raise ValueError(text)

    return Kind("one of " + ", ".join(words), read)


def _words(text: str) -> list[str]:
    return [word for word in (part.strip() for part in text.split(",")) if word]


BOOL = Kind("true or false", _bool)
COUNT = Kind("an integer, 0 or more", _whole(0))
POSITIVE = Kind("an integer, 1 or more", _whole(1))
NUMBER = Kind("an integer, -1 or more", _whole(-1))
PORT = Kind("a port from 0 to 65535", _whole(0, 65535))
TEXT = Kind("text", str)
LIST = Kind("a comma-separated list", _words)

"""Lines of standard input as messages with keys and properties."""

from __future__ import annotations

import pytest

from magnetar.base.errors import Misuse
from magnetar.cli.messages.line_format import LineFormat, Outgoing


def test_plain_line_is_payload() -> None:
    assert LineFormat.of(None, None).is_plain
    assert LineFormat().parse(b"a:b", 1) == Outgoing(b"a:b")


@pytest.mark.parametrize(
    ("key", "header", "line", "wanted"),
    [
        (":", None, b"k:v:w", Outgoing(b"v:w", "k")),
        ("\\t", None, b"k\tv", Outgoing(b"v", "k")),
        (None, "|", b"a=1,b=x=y|v", Outgoing(b"v", None, {"a": "1", "b": "x=y"})),
        (":", "|", b"a=1|k:v", Outgoing(b"v", "k", {"a": "1"})),
        (":", "|", b"|k:", Outgoing(b"", "k")),
    ],
)
def test_separators_give_keys_and_headers(key: str | None, header: str | None, line: bytes, wanted: Outgoing) -> None:
    assert LineFormat.of(key, header).parse(line, 1) == wanted


@pytest.mark.parametrize(
    ("line", "said"),
    [(b"no separator", "line 7"), (b"a|k:v", "name=value"), (b"=1|k:v", "name=value"), (b"\xff=1|k:v", "UTF-8")],
)
def test_line_of_another_form_is_refused(line: bytes, said: str) -> None:
    with pytest.raises(Misuse, match=said):
        LineFormat.of(":", "|").parse(line, 7)


def test_empty_separator_is_refused() -> None:
    with pytest.raises(Misuse, match="--key-separator must not be empty"):
        LineFormat.of("", None)

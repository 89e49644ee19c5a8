"""A secret is shown by nothing but its own `reveal`."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from magnetar.base.secret import Secret


@dataclass
class Holder:
    token: Secret


def test_no_way_of_printing_shows_text() -> None:
    secret = Secret("eyJhbGci")
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r}",
        format(secret),
        repr([secret]),
        repr(Holder(secret)),
    ]
    assert not [text for text in shown if "eyJ" in text]
    assert secret.reveal() == "eyJhbGci"
    assert pickle.loads(pickle.dumps(secret)).reveal() == "eyJhbGci"


def test_only_same_text_matches() -> None:
    assert Secret("abc").matches("abc")
    for other in ("", "ab", "abcd", "\u00e9", "\ud800"):
        assert not Secret("abc").matches(other)
    assert not Secret("").matches("")
    assert not Secret()
    assert Secret("abc")

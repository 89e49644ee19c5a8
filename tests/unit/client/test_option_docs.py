"""Every option has a meaning, and no meaning is left of an option that is gone."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

import magnetar
from magnetar.client import options
from magnetar.client.option_docs import MEANINGS, meaning
from magnetar.client.producer.producer import MessageOptions

TABLES = [found for name, found in vars(options).items() if name.endswith("Options")] + [MessageOptions]
VALUES = [magnetar.Batching, magnetar.DeadLetters, magnetar.KeyShared, magnetar.NackBackoff, magnetar.Namespace]
VALUES.append(magnetar.SegmentsChanged)


def used() -> dict[str, str]:
    """Every option by kind and name, and the key of its meaning."""
    pairs = [(table.__name__, name) for table in TABLES for name in table.__annotations__]
    pairs += [(kind.__name__, found.name) for kind in VALUES for found in fields(kind)]
    pairs += [("Client", name) for name in inspect.signature(magnetar.aio.Client).parameters]
    return {f"{kind}.{name}": f"{kind}.{name}" if f"{kind}.{name}" in MEANINGS else name for kind, name in pairs}


@pytest.mark.parametrize("option", sorted(used()))
def test_option_has_meaning_of_whole_sentences(option: str) -> None:
    found = meaning(*option.split("."))
    assert found.endswith(".")
    assert found[0].isupper() or found[0] == "`"


def test_no_meaning_is_left_over() -> None:
    assert MEANINGS.keys() - set(used().values()) == set()

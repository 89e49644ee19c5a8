"""The page that people read says what the machine does."""

from __future__ import annotations

from pathlib import Path

from magnetar.scalable.machines import reshape
from tools import protocol_reference as reference

PAGE = Path(__file__).parents[2] / "docs" / "PROTOCOL.md"


def test_section_is_fresh():
    text = PAGE.read_text()
    shown = text[text.index(reference.BEGIN) : text.index(reference.END) + len(reference.END)] + "\n"
    assert shown == reference.section(), "run make sync"


def test_every_stored_field_has_meaning():
    fields = reference.fields()
    assert set(reference.RECORD) == fields["record"]
    assert set(reference.SEGMENT) == fields["segment"]


def test_every_row_of_machine_says_what_it_does():
    assert all(row.do.__doc__ for row in reshape.TABLE.values())
    assert all(event.__name__ in reference.section() for _, event in reshape.TABLE)

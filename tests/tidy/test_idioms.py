"""Idioms only become fewer, module by module, until there are none (style.md, plain technical English)."""

from __future__ import annotations

import pytest

from tests.tidy.idioms import count, counts, stored
from tests.tidy.repository import Source

REFRESH = "run python -m tests.tidy.idioms > tests/tidy/idioms.tsv"


def test_no_module_has_more_idioms_than_before() -> None:
    before = stored()
    more = {path: number for path, number in counts().items() if number > before.get(path, 0)}
    assert more == {}, "write these sentences with a concrete subject; after a move " + REFRESH


def test_table_of_idioms_falls_with_modules() -> None:
    now = counts()
    stale = {path: number for path, number in stored().items() if now.get(path, 0) < number}
    assert stale == {}, REFRESH


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ('"""Tells whoever asks."""', 2),
        ("x = 1  # made anew, for ever", 2),
        ('x = f"{y} is no topic"', 1),
        ('"""Drops what was read of topics whose owner left; decides only."""', 3),
        ('"""The broker rejects a topic that does not exist."""', 0),
        ("told = 1", 0),
    ],
)
def test_idioms_in_docstrings_comments_and_texts_are_counted(text: str, number: int) -> None:
    assert count(Source("src/magnetar/topic/x.py", text)) == number

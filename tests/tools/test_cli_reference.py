"""docs/CLI.md is what the commands say of themselves, today."""

from __future__ import annotations

import inspect
import re
from functools import cache
from pathlib import Path

from magnetar.cli.main import NOUNS, SINGLE, build, single, verbs_of
from tools.cli_reference import page, parameter_texts, prose

PAGE = Path(__file__).parents[2] / "docs" / "CLI.md"
SENTENCE_WORDS_MAX = 25
written = cache(page)  # it loads every command


def test_page_is_fresh() -> None:
    assert PAGE.read_text() == written(), "run make sync"


def test_every_option_is_explained() -> None:
    for line in written().splitlines():
        if line.startswith("| `"):
            assert line.split("|")[-2].strip(" |"), line


def long_sentences(text: str) -> list[str]:
    sentences = re.split(r"(?<=[.!?])\s+|\n\n", text)
    return [sentence for sentence in sentences if len(sentence.split()) > SENTENCE_WORDS_MAX]


def help_texts() -> dict[str, list[str]]:
    """What the help of each command says: its description, and the description of each of its parameters."""
    app = build("*")
    commands = {
        (noun, verb): (function, app[noun][verb]) for noun in NOUNS for verb, function in verbs_of(noun).items()
    }
    commands |= {(name,): (single(name), app[name]) for name in SINGLE}
    texts = {}
    for words, (function, command) in commands.items():
        described = inspect.getdoc(function) or ""
        options = [option.parameter.help or "" for option in command.assemble_argument_collection()]
        texts[" ".join(words)] = [prose(described), *parameter_texts(described).values(), *options]
    return texts


def test_help_has_no_long_sentence() -> None:
    texts = {**help_texts(), "magnetar": [*NOUNS.values(), *SINGLE.values()]}
    assert len(texts) > 70
    assert all(described[0] for described in texts.values())
    assert {
        name: long for name, each in texts.items() if (long := [s for text in each for s in long_sentences(text)])
    } == {}


def test_long_sentence_is_found() -> None:
    assert long_sentences(f"Short. {'word ' * 26}") == [f"{'word ' * 26}"]
    assert long_sentences(f"{'word ' * 20}. {'word ' * 20}") == []

"""The table for completion is what the commands say of themselves, today."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

import pytest

from magnetar.cli.completion.engine import wanted
from magnetar.cli.main import NOUNS, SINGLE
from tools.completion_words import TABLE, table

written = cache(table)  # it loads every command


def test_table_is_fresh() -> None:
    assert TABLE.read_text(encoding="utf-8") == written(), "run make sync"


def test_every_noun_and_every_verb_is_offered() -> None:
    assert [word for word, _ in wanted([""], written()).candidates] == [*NOUNS, *SINGLE]
    for noun in NOUNS:
        assert wanted([noun, ""], written()).candidates, noun


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["topic", "show", ""], "topic"),
        (["topic", "list", ""], "namespace"),
        (["namespace", "list", ""], "tenant"),
        (["subscription", "seek", "t", ""], "subscription"),
        (["message", "peek", "t", "-s", ""], "subscription"),
        (["message", "consume", "t", "--subscription", ""], "subscription"),
        (["segment", "tree", ""], "scalable"),
        (["topic", "split", ""], "scalable"),
        (["topic", "split", "t", ""], "segment"),
        (["topic", "merge", "t", "1", "2", ""], "segment"),
        (["context", "use", ""], "context"),
        (["topic", "list", "--context", ""], "context"),
        (["--context", ""], "context"),
        (["standalone", "--conf", ""], "file"),
        (["topic", "create", ""], "text"),
        (["subscription", "create", "t", ""], "text"),
        (["context", "add", ""], "text"),
        (["context", "import-client-conf", "x", ""], "file"),
    ],
)
def test_which_kind_of_name_stands_where(words: list[str], kind: str) -> None:
    assert wanted(words, written()).kind == kind


def test_nothing_heavy_is_loaded_to_complete_command() -> None:
    script = "import sys; from magnetar.cli.main import main; main(sys.argv[1:]); print(*sys.modules)"
    command = [sys.executable, "-c", script, "__complete", "zsh", "topic", "li"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    how, word, modules = ran.stdout.splitlines()
    assert (how, word.split("\t")[0]) == ("words", "list")
    heavy = {"asyncio", "cyclopts", "dataclasses", "httpx2", "inspect", "json", "msgspec", "rich", "socket", "tomllib"}
    assert not heavy & set(modules.split())

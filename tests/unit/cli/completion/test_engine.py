"""What can follow the words so far, from a table of four commands."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.cli.completion.engine import CompletionRequest, wanted

TABLE = """
*\toption\t--context\tcontext\tWhich
*\toption\t--output,-o\t=table|json|jsonl\tHow
*\toption\t--quiet,-q\t\tNo words
\tcommand\ttopic\t\tTopics
\tcommand\tkey\t\tKeys
\tcommand\tapi\t\tAny call
\talso\t*\t\t
topic\tcommand\tlist\t\tAll
topic\tcommand\tlookup\t\tWhere
topic\tcommand\tmerge\t\tTogether
topic\talso\t*\t\t
topic list\targument\tNAMESPACE\tnamespace\tWhere
topic list\toption\t--limit\ttext\tHow many
topic list\toption\t--property,-p\ttext*\tWhich
topic list\toption\t--late,--no-late\t\tWhether
topic list\talso\t*\t\t
topic merge\targument\tTOPIC\tscalable\tWhich
topic merge\targument\tSEGMENTS\tsegment*\tWhich
api\targument\tMETHOD\t=GET|PUT\tHow
api\toption\t--data\tfile\tWhat
"""


def offered(*words: str) -> list[str]:
    found = wanted(list(words), TABLE)
    assert found.kind == ""
    return [word for word, _ in found.candidates]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ["topic", "key", "api"]),
        ([""], ["topic", "key", "api"]),
        (["t"], ["topic"]),
        (["topic", "l"], ["list", "lookup"]),
        (["topics", "l"], ["list", "lookup"]),
        (["-q", "topic", "l"], ["list", "lookup"]),
        (["-o", "json", "--context=x", "topic", "l"], ["list", "lookup"]),
        (["topic", "list", "-o", ""], ["table", "json", "jsonl"]),
        (["topic", "list", "--output", "json"], ["json", "jsonl"]),
        (["topic", "list", "--output=j"], ["json", "jsonl"]),
        (["-o", "t"], ["table"]),
        (["topic", "list", "--li"], ["--limit"]),
        (["topic", "list", "--l"], ["--limit", "--late"]),
        (["topic", "list", "--no"], ["--no-late"]),
        (["topic", "list", "--limit", "3", "--li"], []),
        (["topic", "list", "-p", "a=b", "--prop"], ["--property"]),
        (["topic", "list", "-q", "--q"], []),
        (["api", ""], ["GET", "PUT"]),
        (["api", "GET", ""], ["--data", "--help"]),
        (["api", "GET", "x"], []),
        (["nonsense", ""], ["--help"]),
        (["topic", "nonsense", "x"], []),
        (["--nonsense", "topic", "l"], ["list", "lookup"]),
        (["api", "--", "--"], []),
        (["--"], ["--context", "--output", "--quiet", "--help"]),
    ],
)
def test_what_follows(words: list[str], expected: list[str]) -> None:
    assert offered(*words) == expected


WORDS = st.one_of(
    st.sampled_from(["topic", "list", "-o", "--output=", "--", "--limit", "merge", ""]), st.text(max_size=4)
)


@settings(max_examples=50)
@given(st.lists(WORDS, max_size=6))
def test_whatever_was_typed_what_is_offered_begins_with_it(words: list[str]) -> None:
    found = wanted(words, TABLE)
    assert all(word.startswith(found.word) for word, _ in found.candidates)
    assert (words or [""])[-1] == found.before + found.word


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["topic", "list", "pub"], CompletionRequest([], "namespace", "pub")),
        (["topic", "list", "--context", "p"], CompletionRequest([], "context", "p")),
        (["topic", "list", "--context=p"], CompletionRequest([], "context", "p", before="--context=")),
        (["topic", "merge", "t", "1", "2", "3"], CompletionRequest([], "segment", "3", arguments=("t", "1", "2"))),
        (["--context", "c", "topic", "list", ""], CompletionRequest([], "namespace", given={"--context": "c"})),
        (["topic", "list", "-o", "json", ""], CompletionRequest([], "namespace", given={"--output": "json"})),
        (["topic", "list", "--limit", "-1", ""], CompletionRequest([], "namespace", given={"--limit": "-1"})),
        (["topic", "list", "--", "-x"], CompletionRequest([], "namespace", "-x")),
        (["api", "GET", "--data", "fi"], CompletionRequest([], "file", "fi", arguments=("GET",))),
    ],
)
def test_what_is_to_be_looked_up(words: list[str], expected: CompletionRequest) -> None:
    assert wanted(words, TABLE) == expected

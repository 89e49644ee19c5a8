"""The text of the file of contexts: reads and changes it, and rejects forms that cannot be changed."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from magnetar.base.errors import AlreadyExists, InvalidName, Misuse, NotFound
from magnetar.cli.settings.context_document import HEAD, added, check_name, edited, read, removed, using
from magnetar.cli.settings.resolve import SettingValue, Source

TEXT = """\
# mine
version = 1
current = "prod"
colour = "blue"  # of a newer version

[contexts.prod]  # the real one
url = "pulsar://prod:6650"
# a comment inside
admin_url = "http://prod:8080"
token = "secret"
flavour = 3

[contexts.prod.more]
x = 1

[contexts.test]
url = "pulsar://test:6650"

[other]
url = "untouched"
"""


def test_what_file_says_has_its_lines() -> None:
    found = read(TEXT, "f")
    assert (found.current, found.current_line) == ("prod", 3)
    assert list(found.all) == ["prod", "test"]
    assert found.all["prod"].line == 6
    assert found.all["prod"].unknown == ["flavour", "more"]
    assert found.said("prod") == {
        "url": [SettingValue(Source.CONTEXT, "f:7", "pulsar://prod:6650")],
        "admin_url": [SettingValue(Source.CONTEXT, "f:9", "http://prod:8080")],
        "token": [SettingValue(Source.CONTEXT, "f:10", "secret")],
    }


def test_token_in_file_of_its_own_is_held_there() -> None:
    found = read('[contexts.a]\ntoken_file = "/t"\ntimeout = 5', "f")
    assert found.said("a") == {
        "token": [SettingValue(Source.CONTEXT, "f:2", "/t", "file")],
        "timeout": [SettingValue(Source.CONTEXT, "f:3", "5")],
    }


def _only(before: str, after: str) -> tuple[list[str], list[str]]:
    """Lines that went and lines that came."""
    old, new = before.splitlines(), after.splitlines()
    return [line for line in old if line not in new], [line for line in new if line not in old]


def test_change_touches_no_line_but_its_own() -> None:
    assert _only(TEXT, edited(TEXT, "f", "prod", {"admin_url": "http://new:1"})) == (
        ['admin_url = "http://prod:8080"'],
        ['admin_url = "http://new:1"'],
    )
    assert _only(TEXT, edited(TEXT, "f", "prod", {"token": None})) == (['token = "secret"'], [])
    assert _only(TEXT, edited(TEXT, "f", "test", {"timeout": 2.5})) == ([], ["timeout = 2.5"])
    assert _only(TEXT, using(TEXT, "f", "test")) == (['current = "prod"'], ['current = "test"'])
    assert _only(TEXT, using(TEXT, "f", "")) == (['current = "prod"'], [])
    assert _only(TEXT, added(TEXT, "f", "new", {"url": "pulsar://n"})) == ([], ["[contexts.new]", 'url = "pulsar://n"'])


def test_field_that_is_new_stands_with_its_context() -> None:
    text = edited(TEXT, "f", "test", {"token": "t"})
    assert tomllib.loads(text)["contexts"]["test"] == {"url": "pulsar://test:6650", "token": "t"}
    assert tomllib.loads(text)["other"] == {"url": "untouched"}


def test_deleted_context_loses_all_tables_and_is_not_current() -> None:
    document = tomllib.loads(removed(TEXT, "f", "prod"))
    assert list(document["contexts"]) == ["test"]
    assert "current" not in document
    assert document["colour"] == "blue"
    assert document["other"] == {"url": "untouched"}
    assert tomllib.loads(removed(TEXT, "f", "test"))["current"] == "prod"


def test_first_context_of_new_file() -> None:
    text = using(added(HEAD, "f", "prod", {"url": "pulsar://a", "timeout": 1.0}), "f", "prod")
    found = read(text, "f")
    assert found.current == "prod"
    assert found.all["prod"].fields == {"url": "pulsar://a", "timeout": 1.0}
    assert read(removed(text, "f", "prod"), "f").all == {}


def test_existing_context_is_not_added_and_missing_not_changed() -> None:
    with pytest.raises(AlreadyExists):
        added(TEXT, "f", "prod", {"url": "x"})
    for change in (
        lambda: edited(TEXT, "f", "nope", {"url": "x"}),
        lambda: removed(TEXT, "f", "nope"),
        lambda: using(TEXT, "f", "nope"),
    ):
        with pytest.raises(NotFound, match="nope"):
            change()


@pytest.mark.parametrize("name", ["", "a b", "a.b", "-a", "ä", 'a"]', "a\n", "x" * 65, "../a"])
def test_name_that_could_be_taken_for_something_else_is_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        check_name(name)
    with pytest.raises(InvalidName):
        added(HEAD, "f", name, {"url": "x"})


@pytest.mark.parametrize("name", ["a", "prod-1", "A_b", "0", "x" * 64])
def test_plain_name_is_taken(name: str) -> None:
    assert list(read(added(HEAD, "f", name, {"url": "x"}), "f").all) == [name]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("version = 1\n[contexts.a\nurl = 1", 2, "invalid"),
        ("a = 1\na = 2", 2, "invalid"),
        ('[contexts.a]\nurl = "x', 2, "invalid"),
        ("version = 2", 1, "newer"),
        ("# x\ncontexts = 3", 2, "tables"),
        ("current = 3", 1, "name of a context"),
        ("[contexts.a]\nurl = 3", 2, "url of context a"),
        ('[contexts.a]\ntoken = ""', 2, "token of context a"),
        ('[contexts.a]\n\ntoken = "a\\u0007"', 3, "token of context a"),
        ("[contexts.a]\ntimeout = 0", 2, "timeout of context a"),
        ("[contexts.a]\ntimeout = true", 2, "timeout of context a"),
        ("[contexts.a]\ntimeout = nan", 2, "timeout of context a"),
        ('[contexts.a]\ntoken = "x"\ntoken_file = "y"', 3, "both"),
        ("[contexts]\na = 3", 1, "a table"),
    ],
)
def test_broken_file_is_reported_with_line_and_not_changed(text: str, line: int, said: str) -> None:
    for attempt in (
        lambda: read(text, "f"),
        lambda: added(text, "f", "new", {"url": "x"}),
        lambda: removed(text, "f", "a"),
        lambda: using(text, "f", "a"),
    ):
        with pytest.raises(Misuse, match=said) as caught:
            attempt()
        assert caught.value.facts["file"] == f"f:{line}"


@pytest.mark.parametrize(
    "text",
    [
        '[contexts]\na = {url = "x"}',
        'contexts = {a = {url = "x"}}',
        '[contexts.a]\n# kept\nurl = """\nx"""',
        '[contexts.a]\r\nurl = "x"\r\n',
        '[contexts.a]\nurl = "x"\n[other]\nz = 1\n[contexts.b]\nurl = "b"',
        '[[other]]\nx = 1\n[contexts.a.more]\nq = 1\n[contexts."a"]\nurl = "x"  # kept',
    ],
)
def test_context_in_another_form_is_edited(text: str) -> None:
    expected = tomllib.loads(text)
    expected["contexts"]["a"] |= {"url": "y", "token": "t"}
    after = edited(text, "f", "a", {"url": "y", "token": "t"})
    assert tomllib.loads(after) == expected
    assert after.count("# kept") == text.count("# kept")
    expected["contexts"]["new"] = {"url": "z"}
    assert tomllib.loads(added(after, "f", "new", {"url": "z"})) == expected


@pytest.mark.parametrize("text", ['contexts.a.url = "x"', '[contexts.a]\nurl = \'x\' # """\n[[contexts.b]]\n'])
def test_unsupported_form_is_rejected_without_change(text: str) -> None:
    with pytest.raises(Misuse):
        using(text, "f", "a")


def test_comment_before_next_context_stays_there() -> None:
    text = '[contexts.a]\nurl = "x"\n\n# about b\n[contexts.b]\nurl = "y"\n'
    after = edited(text, "f", "a", {"token": "t"})
    assert after == text.replace('"x"\n', '"x"\ntoken = "t"\n')
    assert edited(after, "f", "a", {"token": None}) == text


VALUES = st.text(st.characters(codec="utf-8"), min_size=1).filter(str.isprintable)


@settings(max_examples=25)
@given(VALUES, VALUES, st.floats(0.001, 1e6))
def test_visible_value_is_read_back_unchanged(url: str, token: str, timeout: float) -> None:
    text = added(TEXT, "f", "new", {"url": url, "token": token, "timeout": timeout})
    assert read(text, "f").all["new"].fields == {"url": url, "token": token, "timeout": timeout}
    again = edited(text, "f", "new", {"url": token, "token": None})
    assert read(again, "f").all["new"].fields == {"url": token, "timeout": timeout}
    assert tomllib.loads(removed(again, "f", "new")) == tomllib.loads(TEXT)


@pytest.mark.parametrize("value", ["a\nb", "\x1b[2J", "a\x00"])
def test_value_that_cannot_be_seen_is_refused(value: str) -> None:
    with pytest.raises(Misuse):
        added(HEAD, "f", "new", {"token": value})

"""A command line as a shell hands it over while it is typed: cut into words, and words written back so that the shell
takes them as they are.

Pure. The line may end in the middle of a word or of a quoted one. Variables and commands in it are not looked at: they
stand for themselves. A word that comes from a broker is never more than a word: whatever a shell would act upon in it
is escaped.
"""

from __future__ import annotations

from typing import NamedTuple

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,")


class ShellLine(NamedTuple):
    """The last word is being typed; `quote` is the quotation mark that is still open in it."""

    words: list[str]
    quote: str = ""


def split(line: str, *, escape: str = "\\") -> ShellLine:
    words, word, quote = [], "", ""
    is_word = False
    at = 0
    while at < len(line):
        letter = line[at]
        at += 1
        if quote:
            if letter == quote:
                quote = ""
            elif letter == escape and quote == '"' and at < len(line) and line[at] in f'{escape}"$`':
                word, at = word + line[at], at + 1
            else:
                word += letter
        elif letter in "'\"":
            quote, is_word = letter, True
        elif letter == escape and at < len(line):
            word, at, is_word = word + line[at], at + 1, True
        elif letter.isspace():
            if is_word:
                words.append(word)
            word, is_word = "", False
        else:
            word, is_word = word + letter, True
    return ShellLine([*words, word], quote)


def for_bash(value: str, word: str, *, quote: str, breaks: str) -> str | None:
    """What takes the place of the part of `word` that bash takes for the word; None where it cannot be written."""
    if quote == "'":
        return None if "'" in value else value
    if quote:
        if "!" in value:
            return None  # an interactive bash takes it for its history, escaped or not
        return "".join(f"\\{letter}" if letter in '"$`\\' else letter for letter in value)
    cut = max((word.rfind(letter) for letter in ":=" if letter in breaks), default=-1) + 1
    return "".join(letter if letter in _PLAIN or letter.isalnum() else f"\\{letter}" for letter in value[cut:])


def for_powershell(value: str) -> str:
    if all(letter in _PLAIN for letter in value) and not value.startswith(("@", ",")):
        return value
    escaped = value.replace("'", "''")
    return f"'{escaped}'"
